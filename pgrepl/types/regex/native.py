"""Patterns that Python's `re` matches with the same result and in bounded time, ten times as fast as the automata.

`re` tries one way through a pattern after the other; the automata follow all ways at once. So `re` is used to tell

* whether there is a match, if the ways are few: their number is bounded by a known power of the text's length;
* where matches are, if each character leaves only one way: then the first match that `re` finds is the longest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pgrepl.ground.frozen import frozen
from pgrepl.types.regex import charsets
from pgrepl.types.regex.charsets import Alternatives, Chars, CharSet, Neighbour, Node, Repeat, Sequence
from pgrepl.types.regex.parser import MIXED, SHORTER, Pattern, SubRegex

_MOST_WAYS = 200_000  # ways that may be tried in one text
_MOST_NODES = 200
_QUADRATIC = 1_000  # length of a text in which a long attempt may begin at every character
ANY_LENGTH = 1 << 60
_ENUMERABLE = 600  # characters of a set that are compared one by one


class _Unfit(Exception):
    """The expression needs the automata."""


@frozen
class Native:
    """A pattern for Python's `re`: `exists` tells whether there is a match, `finds` where; each up to a text length."""

    exists: re.Pattern[str]
    exists_upto: int
    finds: re.Pattern[str] | None
    finds_upto: int


def native(parsed: Pattern) -> Native | None:
    if parsed.refers or parsed.lookarounds:
        return None
    language = parsed.tree.language
    try:
        text = _language(language)
        nodes = sum(1 for _ in _walk(language))
        if nodes > _MOST_NODES:
            return None
        exists_upto = longest_text(language)
        finds = re.compile(_part(parsed.tree)) if _is_determined(parsed) else None
        if finds is not None and finds.groups != parsed.groups:  # some groups are in a part repeated zero times
            finds = None
        finds_upto = 0 if finds is None else ANY_LENGTH if _never_fails_late(language) else _QUADRATIC
        return Native(re.compile(text), exists_upto, finds, finds_upto)
    except (_Unfit, re.error, OverflowError, RecursionError):
        return None


def _walk(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, (Sequence, Alternatives)):
        for child in node.nodes:
            yield from _walk(child)
    elif isinstance(node, Repeat):
        yield from _walk(node.node)


# --- as Python writes it ----------------------------------------------------------------------------------------------


def _part(part: SubRegex) -> str:
    """A part as Python's pattern, with its groups. A repeated part has none: Python keeps groups of earlier
    repetitions."""
    if part.kind == "plain":
        text = _language(part.language)
    elif part.kind == "concatenation":
        text = "".join(_part(child) for child in part.parts)
    elif part.kind == "alternation":
        text = f"(?:{'|'.join(_part(branch) for branch in part.parts)})"
    elif part.kind == "wrapper":
        text = _part(part.parts[0])
    else:
        child = part.parts[0]
        if part.high != 1 or _is_nullable(child.language):
            raise _Unfit
        text = f"(?:{_part(child)})?"
    return f"({text})" if part.group else text


def _language(node: Node) -> str:
    if isinstance(node, Chars):
        return _set(node.of)
    if isinstance(node, Sequence):
        return "".join(_language(child) for child in node.nodes)
    if isinstance(node, Alternatives):
        return f"(?:{'|'.join(_language(branch) for branch in node.nodes)})"
    if isinstance(node, Repeat):
        inner = _language(node.node)
        bounds = f"{{{node.low},{'' if node.high is None else node.high}}}"
        return (inner if isinstance(node.node, Chars) else f"(?:{inner})") + bounds
    if not isinstance(node, Neighbour):
        raise _Unfit
    return _neighbour(node)


def _neighbour(node: Neighbour) -> str:
    edge = "\\Z" if node.ahead else "\\A"
    if node.of is None:
        return edge
    look = "(?" if node.ahead else "(?<"
    if node.edge:  # no neighbour outside the set
        return f"{look}!{_set(charsets.complement(node.of))})"
    return f"{look}={_set(node.of)})"


_SPACES = " \\t-\\r\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
_CLASSES = {"digit": "0-9", "word": "\\w", "space": _SPACES}


def _set(of: CharSet) -> str:
    if of == charsets.ANY:
        return "[\\s\\S]"
    if of.without or "" in of.chars or not _CLASSES.keys() >= set(of.classes):
        raise _Unfit
    if len(of.chars) == 1 and not (of.ranges or of.classes or of.negated):
        return re.escape(next(iter(of.chars)))
    inside = [_CLASSES[name] for name in of.classes]
    inside += [_escaped(char) for char in sorted(of.chars)]
    inside += [f"{_escaped(low)}-{_escaped(high)}" for low, high in of.ranges]
    return f"[{'^' if of.negated else ''}{''.join(inside)}]"


def _escaped(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char


# --- how many ways ----------------------------------------------------------------------------------------------------


def longest_text(language: Node) -> int:
    """The longest text that is searched in bounded time."""
    power, factor = _ways(language)
    if not _is_anchored(language):
        power += 1
    if power <= 1:
        return ANY_LENGTH if factor <= 100 else 0
    return int((_MOST_WAYS / factor) ** (1 / power))


def _ways(node: Node) -> tuple[int, int]:
    """A bound for the number of ways through a node over n characters: factor * n ** power."""
    if isinstance(node, Sequence):
        power, factor = 0, 1
        for child in node.nodes:
            more, times = _ways(child)
            power, factor = power + more, factor * times
        return power, factor
    if isinstance(node, Alternatives):
        ways = [_ways(branch) for branch in node.nodes]
        return max(power for power, _ in ways), sum(factor for _, factor in ways)
    if isinstance(node, Repeat):
        power, factor = _ways(node.node)
        single = isinstance(node.node, Chars)
        if power or (factor > 1 and not single) or _is_nullable(node.node):
            raise _Unfit
        if node.high is None:
            return 1, 1
        return 0, node.high - node.low + 1
    return 0, 1


def _is_nullable(node: Node) -> bool:
    if isinstance(node, Sequence):
        return all(_is_nullable(child) for child in node.nodes)
    if isinstance(node, Alternatives):
        return any(_is_nullable(branch) for branch in node.nodes)
    if isinstance(node, Repeat):
        return node.low == 0 or _is_nullable(node.node)
    return not isinstance(node, Chars)


def _is_anchored(node: Node) -> bool:
    if isinstance(node, Sequence):
        return bool(node.nodes) and _is_anchored(node.nodes[0])
    if isinstance(node, Alternatives):
        return all(_is_anchored(branch) for branch in node.nodes)
    return isinstance(node, Neighbour) and not node.ahead and node.of is None


# --- one way for each character ---------------------------------------------------------------------------------------


def _is_determined(parsed: Pattern) -> bool:
    """Whether the next character alone decides how the match goes on, all parts are greedy, and no alternative is
    empty, which Python would take first."""
    if any(part.flags & (SHORTER | MIXED) for part in _parts(parsed.tree)):
        return False
    language = parsed.tree.language
    if any(isinstance(node, Alternatives) and _is_nullable(node) for node in _walk(language)):
        return False
    try:
        return _Follows(language).is_determined()
    except _Unfit:
        return False


def _parts(part: SubRegex) -> Iterator[SubRegex]:
    yield part
    for child in part.parts:
        yield from _parts(child)


class _Follows:
    """The characters of the pattern that may follow each other (Glushkov's construction)."""

    def __init__(self, language: Node) -> None:
        self.sets: list[CharSet] = []
        self.follow: list[set[int]] = []
        self.first, _ = self._visit(language)

    def is_determined(self) -> bool:
        return all(self._disjoint(places) for places in [self.first, *self.follow])

    def _disjoint(self, places: Iterable[int]) -> bool:
        listed = list(places)
        return not any(
            _overlap(self.sets[one], self.sets[two]) for at, one in enumerate(listed) for two in listed[at + 1 :]
        )

    def _visit(self, node: Node) -> tuple[set[int], set[int]]:
        """The positions that a node can begin and end with."""
        if isinstance(node, Chars):
            self.sets.append(node.of)
            self.follow.append(set())
            return {len(self.sets) - 1}, {len(self.sets) - 1}
        if isinstance(node, Sequence):
            return self._sequence(node)
        if isinstance(node, Alternatives):
            visited = [self._visit(branch) for branch in node.nodes]
            first: set[int] = set()
            for begins, _ in visited:
                if any(_overlap(self.sets[one], self.sets[two]) for one in first for two in begins):
                    raise _Unfit
                first |= begins
            return first, set().union(*(ends for _, ends in visited))
        if isinstance(node, Repeat):
            first, last = self._visit(node.node)
            if node.high is None or node.high > 1:
                for place in last:
                    self.follow[place] |= first
            return first, last
        return set(), set()

    def _sequence(self, node: Sequence) -> tuple[set[int], set[int]]:
        first: set[int] = set()
        last: set[int] = set()
        may_begin = True
        for child in node.nodes:
            begins, ends = self._visit(child)
            for place in last:
                self.follow[place] |= begins
            if may_begin:
                first |= begins
            if _is_nullable(child):
                last = last | ends
            else:
                last, may_begin = ends, False
        return first, last


def _overlap(one: CharSet, two: CharSet) -> bool:
    for listed, other in ((one, two), (two, one)):
        members = _members(listed)
        if members is not None:
            return any(char in other for char in members)
    return one != charsets.complement(two)


def _members(of: CharSet) -> list[str] | None:
    """The characters of a small set."""
    if of.negated or of.without or not {"digit"} >= set(of.classes):
        return None
    if sum(ord(high) - ord(low) + 1 for low, high in of.ranges) > _ENUMERABLE:
        return None
    members = list(of.chars) + (list("0123456789") if of.classes else [])
    for low, high in of.ranges:
        members += map(chr, range(ord(low), ord(high) + 1))
    return members


def _never_fails_late(language: Node) -> bool:
    """Whether no required part follows a loop; then no attempt reads far in vain."""
    nodes = language.nodes if isinstance(language, Sequence) else (language,)
    looped = False
    for node in nodes:
        loops = any(isinstance(inner, Repeat) and inner.high is None for inner in _walk(node))
        single = isinstance(node, Chars) or (isinstance(node, Repeat) and isinstance(node.node, Chars))
        if looped and not (single and _is_nullable(node)):
            return False
        if loops and not single:
            return False
        looped = looped or loops
    return True
