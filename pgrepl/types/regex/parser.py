"""The parser: tokens become a tree of parts (regcomp.c's parse, parsebranch and parseqatom).

A part is divided only for a group, a back reference, or a preference that differs from its neighbour's. Everything else
is one language, matched by one automaton.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pgrepl.types.regex import charsets
from pgrepl.types.regex.charsets import (
    EMPTY,
    Alternatives,
    Chars,
    CharSet,
    Lookaround,
    Neighbour,
    Node,
    Repeat,
    sequence,
    without_constraints,
)
from pgrepl.types.regex.charsets import Look as LookNode
from pgrepl.types.regex.scanner import (
    BAD_BOUND,
    BAD_OPERAND,
    BAD_PARENTHESES,
    BAD_RANGE,
    BAD_REFERENCE,
    Options,
    RegexScanner,
    invalid,
)

MAX_BOUND = 255

# Flags of a part, as subre's: which length it prefers, and what is below it.
LONGER, SHORTER, MIXED, CAPTURES, REFERS = 1, 2, 4, 8, 16
_PREFERENCE = LONGER | SHORTER
_MESSY = MIXED | CAPTURES | REFERS


def _up(flags: int) -> int:
    """The flags that a part passes to its parent; both preferences among the children make it mixed."""
    mixed = MIXED if flags & LONGER and flags & SHORTER else 0
    return flags & ~_PREFERENCE | mixed


def _combined(first: int, second: int) -> int:
    return _up(first | second) | (first & _PREFERENCE or second & _PREFERENCE)


@dataclass(slots=True, eq=False)
class SubRegex:
    """A node of the tree. `kind` is one of: plain, reference, concatenation, alternation, iteration, wrapper."""

    kind: str
    flags: int
    language: Node = EMPTY
    parts: list[SubRegex] = field(default_factory=list)
    group: int = 0  # that it captures
    reference: int = 0
    low: int = 1  # of an iteration or a reference
    high: int | None = 1

    @property
    def prefers_short(self) -> bool:
        return bool(self.flags & SHORTER)


@dataclass(slots=True)
class Pattern:
    tree: SubRegex
    lookarounds: list[Lookaround]
    groups: int
    refers: bool  # there are back references
    ignore_case: bool


def parse(pattern: str, flags: str) -> Pattern:
    return _Parser(pattern, flags).parse()


class _Parser:
    def __init__(self, pattern: str, flags: str) -> None:
        self.options = Options(flags)
        self.scanner = RegexScanner(pattern, self.options)
        self.lookarounds: list[Lookaround] = []
        self.captured: dict[int, SubRegex] = {}  # groups that have ended
        self.refers = False

    def parse(self) -> Pattern:
        tree = self.alternatives("end", in_look=False)
        return Pattern(tree, self.lookarounds, self.scanner.groups, self.refers, self.options.ignore_case)

    def alternatives(self, stopper: str, *, in_look: bool) -> SubRegex:
        branches = [self.branch(stopper, in_look=in_look)]
        while self.scanner.see("|"):
            self.scanner.next()
            branches.append(self.branch(stopper, in_look=in_look))
        if not self.scanner.see(stopper):
            raise invalid(BAD_PARENTHESES)
        if len(branches) == 1:
            return branches[0]
        flags = LONGER
        for branch in branches:
            flags |= _up(flags | branch.flags)
        language = Alternatives(tuple(branch.language for branch in branches))
        if flags & _MESSY:
            return SubRegex("alternation", flags, language, branches)
        return SubRegex("plain", flags, language)

    def at_end_of_branch(self, stopper: str) -> bool:
        return self.scanner.see("|") or self.scanner.see(stopper) or self.scanner.see("end")

    def branch(self, stopper: str, *, in_look: bool) -> SubRegex:
        part = SubRegex("plain", 0)
        languages: list[Node] = []  # of the elements so far
        while not self.at_end_of_branch(stopper):
            finished = self.quantified(stopper, part, languages, in_look=in_look)
            if finished is not None:
                return finished
        part.language = sequence(languages)
        return part

    # --- one element --------------------------------------------------------------------------------------------------

    def quantified(self, stopper: str, branch: SubRegex, before: list[Node], *, in_look: bool) -> SubRegex | None:
        """Parse an element with its quantifier and append it to `before`. If the element must be a part of its own, the
        rest of the branch is parsed too, and the finished branch is returned."""
        constraint = self.constraint()
        if constraint is not None:
            before.append(constraint)
            return None
        kind, atom, language = self.atom(in_look=in_look)
        low, high, prefers = self.quantifier()
        if high == 0:  # it matches nothing, but its groups can be referred to
            before.append(EMPTY)
            return None
        flags = branch.flags | prefers | (atom.flags if atom is not None else 0)
        if kind == "plain" and not _up(flags) & _MESSY:
            before.append(language if (low, high) == (1, 1) else Repeat(language, low, high))
            branch.flags = flags
            return None
        if atom is None:
            atom = SubRegex("plain", 0, language)
        return self.divided(stopper, branch, before, self.repeated(kind, atom, low, high, prefers), in_look=in_look)

    def repeated(self, kind: str, atom: SubRegex, low: int, high: int | None, prefers: int) -> tuple[SubRegex, int]:
        """The element with its quantifier as a part, and their combined flags."""
        flags = _combined(prefers, atom.flags)
        own = atom.flags & (LONGER | SHORTER | MIXED)
        if kind == "reference":
            atom.low, atom.high = low, high
            atom.flags |= flags
            atom.language = Repeat(atom.language, low, high)
            return atom, flags
        if (low, high) == (1, 1) and (not prefers or not own or prefers == own):
            return atom, flags
        whole = Repeat(atom.language, low, high)
        if not atom.flags & (CAPTURES | REFERS):
            return SubRegex("plain", flags, whole), flags
        if low > 0 and not atom.flags & REFERS:
            # groups are those of the last repetition; the repetitions before it need only a language
            before = Repeat(atom.language, low - 1, None if high is None else high - 1)
            first = SubRegex("plain", flags & _PREFERENCE, before)
            return SubRegex("concatenation", flags, sequence([first.language, atom.language]), [first, atom]), flags
        return SubRegex("iteration", flags, whole, [atom], low=low, high=high), flags

    def divided(
        self, stopper: str, branch: SubRegex, before: list[Node], element: tuple[SubRegex, int], *, in_look: bool
    ) -> SubRegex:
        part, flags = element
        prefix = SubRegex("plain", branch.flags, sequence(before))
        if self.at_end_of_branch(stopper):
            if not before:
                return part
            branch.flags |= _combined(branch.flags, part.flags)
            branch.kind, branch.parts = "concatenation", [prefix, part]
            branch.language = sequence([prefix.language, part.language])
            return branch
        rest = self.branch(stopper, in_look=in_look)
        flags |= _combined(flags, rest.flags)
        branch.flags |= _combined(branch.flags, flags)
        branch.kind = "concatenation"
        branch.language = sequence([prefix.language, part.language, rest.language])
        if not before:
            branch.parts = [part, rest]
            return branch
        following = sequence([part.language, rest.language])
        if part.kind == rest.kind == "plain" and not _up(part.flags | rest.flags) & _MESSY:
            branch.parts = [prefix, SubRegex("plain", _combined(part.flags, rest.flags), following)]
        else:
            branch.parts = [prefix, SubRegex("concatenation", flags, following, [part, rest])]
        return branch

    def constraint(self) -> Node | None:
        scanner, token = self.scanner, self.scanner.token
        if token.kind == "look":
            return self.lookaround()
        constraint = self.simple_constraint(token.kind)
        if constraint is not None:
            scanner.next()
        return constraint

    def simple_constraint(self, kind: str) -> Node | None:
        newline = charsets.of_chars("\n") if self.options.newline_anchors else None
        word, other = charsets.WORD, charsets.complement(charsets.WORD)
        begins = sequence([Neighbour(False, other, True), Neighbour(True, word, False)])
        ends = sequence([Neighbour(False, word, False), Neighbour(True, other, True)])
        if kind == "^":
            return Neighbour(False, newline, True)
        if kind == "$":
            return Neighbour(True, newline, True)
        if kind == "\\A":
            return Neighbour(False, None, True)
        if kind == "\\Z":
            return Neighbour(True, None, True)
        if kind == "\\m":
            return begins
        if kind == "\\M":
            return ends
        if kind == "\\y":
            return Alternatives((begins, ends))
        if kind == "\\Y":
            inside = sequence([Neighbour(False, word, False), Neighbour(True, word, False)])
            outside = sequence([Neighbour(False, other, True), Neighbour(True, other, True)])
            return Alternatives((inside, outside))
        return None

    def lookaround(self) -> Node:
        opening = self.scanner.token.text
        self.scanner.next()
        content = self.alternatives(")", in_look=True).language
        self.scanner.next()
        self.lookarounds.append(Lookaround(content, "<" not in opening, "!" in opening))
        return LookNode(len(self.lookarounds) - 1)

    def atom(self, *, in_look: bool) -> tuple[str, SubRegex | None, Node]:
        """The kind of an element (plain, group, reference), its part if it has one, and its language."""
        scanner, token = self.scanner, self.scanner.token
        kind = token.kind
        if kind == "(":
            return self.parenthesized(captures=token.number == 1 and not in_look, in_look=in_look)
        if kind == "reference":
            return self.reference(in_look=in_look)
        if kind == "[":
            return "plain", None, self.bracket()
        if kind in ("*", "+", "?", "{"):
            raise invalid(BAD_OPERAND)
        if (kind == ")" and self.options.advanced) or (kind == ")" and not self.options.extended):
            raise invalid(BAD_PARENTHESES)
        if kind in ("plain", ")"):
            of = self.one(token.text)
        elif kind in ("class", "complement"):
            of = charsets.of_class(self.class_name(token.text), negated=kind == "complement")
        else:
            assert kind == ".", kind
            of = charsets.complement(charsets.of_chars("\n")) if self.options.newline_stops else charsets.ANY
        scanner.next()
        return "plain", None, Chars(of)

    def one(self, char: str) -> CharSet:
        return charsets.of_chars(charsets.cases(char) if char and self.options.ignore_case else [char])

    def class_name(self, name: str) -> str:
        return "alpha" if self.options.ignore_case and name in ("lower", "upper") else name

    def parenthesized(self, *, captures: bool, in_look: bool) -> tuple[str, SubRegex | None, Node]:
        scanner = self.scanner
        number = 0
        if captures:
            scanner.groups += 1
            number = scanner.groups
        scanner.next()
        part = self.alternatives(")", in_look=in_look)
        scanner.next()
        if not captures:
            return "plain", part, part.language
        if part.group:
            part = SubRegex("wrapper", part.flags | CAPTURES, part.language, [part])
        part.flags |= CAPTURES
        part.group = number
        self.captured[number] = part
        return "group", part, part.language

    def reference(self, *, in_look: bool) -> tuple[str, SubRegex | None, Node]:
        number = self.scanner.token.number
        group = self.captured.get(number)
        if in_look or group is None:
            raise invalid(BAD_REFERENCE)
        self.refers = True
        self.scanner.next()
        part = SubRegex("reference", REFERS, without_constraints(group.language), reference=number)
        return "reference", part, part.language

    def quantifier(self) -> tuple[int, int | None, int]:
        """The bounds of a quantifier and the length it prefers; {m} prefers what its element prefers."""
        scanner, token = self.scanner, self.scanner.token
        if token.kind in ("*", "+", "?"):
            scanner.next()
            prefers = LONGER if token.greedy else SHORTER
            return int(token.kind == "+"), 1 if token.kind == "?" else None, prefers
        if token.kind != "{":
            return 1, 1, 0
        scanner.next()
        low = self.number()
        high: int | None = low
        prefers = 0
        if scanner.see(","):
            scanner.next()
            high = self.number() if scanner.see("digit") else None
            if high is not None and low > high:
                raise invalid(BAD_BOUND)
            prefers = LONGER if scanner.token.greedy else SHORTER
        if not scanner.see("}"):
            raise invalid(BAD_BOUND)
        scanner.next()
        return low, high, prefers

    def number(self) -> int:
        number = 0
        while self.scanner.see("digit") and number < MAX_BOUND:
            number = number * 10 + int(self.scanner.token.text)
            self.scanner.next()
        if self.scanner.see("digit") or number > MAX_BOUND:
            raise invalid(BAD_BOUND)
        return number

    # --- brackets -----------------------------------------------------------------------------------------------------

    def bracket(self) -> Node:
        scanner = self.scanner
        negated = scanner.token.number == 0
        chars: set[str] = set()
        ranges: list[tuple[str, str]] = []
        classes: list[str] = []
        without: list[str] = []
        scanner.next()
        while not scanner.see("]"):
            token = scanner.token
            if token.kind == "class":
                classes.append(self.class_name(token.text))
                scanner.next()
            elif token.kind == "complement":
                without.append(self.class_name(token.text))
                scanner.next()
            elif token.kind == "named" and token.text == ":":
                name = self.named(":")
                if name not in charsets.CLASSES:
                    raise invalid("invalid character class")
                classes.append(self.class_name(name))
            elif token.kind == "named" and token.text == "=":
                chars |= self.one(self.named("=")).chars
            else:
                low, high = self.range()
                if low != high:
                    ranges.append((low, high))
                else:
                    chars |= self.one(low).chars
        scanner.next()
        if self.options.ignore_case:
            for low, high in ranges:
                chars |= _other_cases(low, high)
        if negated and self.options.newline_stops:
            chars.add("\n")
        return Chars(CharSet(frozenset(chars), tuple(ranges), tuple(classes), tuple(without), negated))

    def range(self) -> tuple[str, str]:
        """The two ends of a character range; a single character is both."""
        scanner = self.scanner
        if scanner.see("range"):
            raise invalid(BAD_RANGE)
        low = high = self.element()
        if scanner.see("range"):
            scanner.next()
            if scanner.see("range"):
                high = scanner.token.text
                scanner.next()
            else:
                high = self.element()
            if high < low:
                raise invalid(BAD_RANGE)
        return low, high

    def element(self) -> str:
        token = self.scanner.token
        if token.kind == "plain":
            self.scanner.next()
            return token.text
        if token.kind == "named" and token.text == ".":
            return self.named(".")
        raise invalid(BAD_RANGE)

    def named(self, kind: str) -> str:
        """The content of [. .], [= =] or [: :]: a collating element's character, or a class name."""
        scanner = self.scanner
        name = ""
        while scanner.next().kind == "plain":
            name += scanner.token.text
        if kind == ":":
            if not name:
                raise invalid("invalid character class")
        elif len(name) != 1:
            if name not in charsets.COLLATING_NAMES:
                raise invalid("invalid collating element")
            name = charsets.COLLATING_NAMES[name]
        scanner.next()
        return name


def _other_cases(low: str, high: str) -> set[str]:
    """The other-case characters of a range that are outside it."""
    others: set[str] = set()
    for code in range(ord(low), min(ord(high), 0x1FFFF) + 1):  # there are no cases beyond
        for char in charsets.cases(chr(code)):
            if not low <= char <= high:
                others.add(char)
    return others
