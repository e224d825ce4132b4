"""PostgreSQL's advanced regular expressions, on Python's engine.

A pattern is parsed as regcomp.c reads it, and written again for `re`: `.` and `[^x]` match newlines, `$` only stands at
the end, `\\m` and `\\M` are word borders, bounds and brackets have PostgreSQL's rules and complaints.

What Python does not know is PostgreSQL's choice among matches that begin at one place: the longest, or the shortest
when the expression prefers that (the first quantifier decides). `Regex.search` finds out which ends are possible and
asks Python for the match that has the right one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from pgrepl.errors import PgError
from pgrepl.expr.functions.regex_parser import (
    Alternatives,
    BackReference,
    Border,
    Group,
    Look,
    Node,
    One,
    Parser,
    Repeat,
    Sequence,
)

_CAREFUL_LENGTH = 4096  # in longer texts Python's own choice has to do


def _python(node: Node) -> str:
    """The node in Python's syntax."""
    if isinstance(node, (One, Border)):
        return node.fragment
    if isinstance(node, Look):
        return f"{node.opening}{_python(node.node)})"
    if isinstance(node, Group):
        return f"({'' if node.number else '?:'}{_python(node.node)})"
    if isinstance(node, BackReference):
        return rf"(?:\{node.number})"
    if isinstance(node, Repeat):
        inner = _python(node.node)
        if not isinstance(node.node, (One, Group)) or "(?!" in inner[:3]:
            inner = f"(?:{inner})"
        high = "" if node.high is None else str(node.high)
        return f"{inner}{{{node.low},{high}}}{'' if node.greedy else '?'}"
    if isinstance(node, Sequence):
        return "".join(map(_python, node.nodes))
    return "(?:" + "|".join(map(_python, node.nodes)) + ")"


def _preference(node: Node) -> bool | None:
    """True: the longest match, False: the shortest, None: no preference (the documentation's rules, 9.7.3.5)."""
    if isinstance(node, Alternatives):
        return True
    if isinstance(node, Sequence):
        return next((p for n in node.nodes if (p := _preference(n)) is not None), None)
    if isinstance(node, Group):
        return _preference(node.node)
    if isinstance(node, Repeat):
        return _preference(node.node) if node.exact else node.greedy
    return None


def _choices(node: Node) -> int:
    """How many places have more than one way to match; a back reference counts as too many."""
    if isinstance(node, Alternatives):
        return 2 + sum(map(_choices, node.nodes))
    if isinstance(node, Sequence):
        return sum(map(_choices, node.nodes))
    if isinstance(node, Group):
        return _choices(node.node)
    if isinstance(node, Repeat):
        return (node.low != node.high) + _choices(node.node)
    return 0


def _has_back_reference(node: Node) -> bool:
    if isinstance(node, BackReference):
        return True
    if isinstance(node, (Look, Group, Repeat)):
        return _has_back_reference(node.node)
    if isinstance(node, (Sequence, Alternatives)):
        return any(map(_has_back_reference, node.nodes))
    return False


@dataclass(slots=True)
class Regex:
    """A compiled expression. Its matches are Python's match objects."""

    node: Node
    groups: int
    pattern: str
    flags: int
    plain: re.Pattern[str]
    prefers_longest: bool
    careful: bool
    _singles: dict[str, re.Pattern[str]] = field(default_factory=dict)

    def matches(self, text: str) -> bool:
        return self.plain.search(text) is not None

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        found = self.plain.search(text, start)
        if found is None or not self.careful or len(text) > _CAREFUL_LENGTH:
            return found
        ends = self._ends(self.node, text, {found.start()})
        end = max(ends) if self.prefers_longest else min(ends)
        if end == found.end():
            return found
        tail = len(text) - end
        return re.compile(rf"(?:{self.pattern})(?=[\s\S]{{{tail}}}\Z)", self.flags).match(text, found.start())

    def _ends(self, node: Node, text: str, starts: set[int]) -> set[int]:
        """Where matches of a node that begin at one of these places can end."""
        if not starts:
            return starts
        if isinstance(node, One):
            one = self._single(node.fragment)
            return {at + 1 for at in starts if one.match(text, at)}
        if isinstance(node, (Border, Look)):
            border = self._single(_python(node))
            return {at for at in starts if border.match(text, at)}
        if isinstance(node, Group):
            return self._ends(node.node, text, starts)
        if isinstance(node, Sequence):
            for part in node.nodes:
                starts = self._ends(part, text, starts)
            return starts
        if isinstance(node, Alternatives):
            return set().union(*(self._ends(part, text, starts) for part in node.nodes))
        assert isinstance(node, Repeat)
        return self._repeated(node, text, starts)

    def _repeated(self, node: Repeat, text: str, starts: set[int]) -> set[int]:
        for _ in range(node.low):
            starts = self._ends(node.node, text, starts)
        reached = set(starts)
        rounds = node.low
        while starts and (node.high is None or rounds < node.high):
            starts = self._ends(node.node, text, starts) - reached
            reached |= starts
            rounds += 1
        return reached

    def _single(self, fragment: str) -> re.Pattern[str]:
        found = self._singles.get(fragment)
        if found is None:
            found = self._singles[fragment] = re.compile(fragment, self.flags)
        return found


@lru_cache(maxsize=512)
def compile_regex(pattern: str, flags: str) -> Regex:
    parser = Parser(pattern, flags)
    node = parser.parse()
    python = _python(node)
    options = re.IGNORECASE if parser.options.ignore_case else 0
    try:
        plain = re.compile(python, options)
    except (re.error, OverflowError, RecursionError):
        raise PgError("0A000", f"regular expression {pattern} is not supported") from None
    preference = _preference(node)
    careful = _choices(node) > 1 and preference is not None and not _has_back_reference(node)
    return Regex(node, parser.groups, python, options, plain, preference is not False, careful)
