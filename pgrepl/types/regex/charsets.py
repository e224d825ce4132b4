"""Character sets and regular languages: what a part of a pattern matches, without groups and preferences.

Constraints have no width: they test the characters before and behind a position, the edges of the text, or a
lookaround.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import TypeAlias

from pgrepl.ground.frozen import frozen

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CONTROLS = ("Cc", "Cs", "Cn")


def _is_print(char: str) -> bool:
    return unicodedata.category(char) not in _CONTROLS


def _is_upper(char: str) -> bool:
    return char.isalpha() and char.isupper()


def _is_lower(char: str) -> bool:
    return char.isalpha() and char.islower()


CLASSES: dict[str, Callable[[str], bool]] = {
    "alpha": str.isalpha,
    "digit": lambda char: "0" <= char <= "9",
    "alnum": lambda char: char.isalpha() or "0" <= char <= "9" or (char > "\x7f" and char.isnumeric()),
    "upper": _is_upper,
    "lower": _is_lower,
    "space": lambda char: char in " \t\n\r\f\v" or (char > "\x7f" and char.isspace()),
    "blank": lambda char: char in " \t",
    "punct": lambda char: char in _PUNCTUATION,
    "print": _is_print,
    "graph": lambda char: _is_print(char) and not char.isspace(),
    "cntrl": lambda char: unicodedata.category(char) == "Cc",
    "xdigit": lambda char: char in "0123456789abcdefABCDEF",
    "word": lambda char: char == "_" or char.isalpha() or char.isnumeric(),
    "ascii": str.isascii,
}


@frozen
class CharSet:
    """A set of characters: the union of characters, ranges, classes and complements of classes; negated: all others."""

    chars: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, str], ...] = ()
    classes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()  # classes whose complements belong to the set
    negated: bool = False

    def __contains__(self, char: str) -> bool:
        listed = (
            char in self.chars
            or any(low <= char <= high for low, high in self.ranges)
            or any(CLASSES[name](char) for name in self.classes)
            or any(not CLASSES[name](char) for name in self.without)
        )
        return listed is not self.negated


def complement(of: CharSet) -> CharSet:
    return CharSet(of.chars, of.ranges, of.classes, of.without, not of.negated)


def of_class(name: str, *, negated: bool = False) -> CharSet:
    return CharSet(classes=(name,), negated=negated)


def of_chars(chars: Iterable[str]) -> CharSet:
    return CharSet(frozenset(chars))


ANY = CharSet(negated=True)
WORD = of_class("word")


def cases(char: str) -> frozenset[str]:
    """A character in both cases, as allcases gives it: simple case mappings only."""
    return frozenset(variant for variant in (char.lower(), char.upper(), char) if len(variant) == 1)


# Names of collating elements, as in [[.hyphen.]]; POSIX has them for the characters of ASCII.
_NAMES = (
    "NUL SOH STX ETX EOT ENQ ACK BEL,alert BS,backspace HT,tab LF,newline VT,vertical-tab FF,form-feed "
    "CR,carriage-return SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC IS4,FS IS3,GS IS2,RS IS1,US space "
    "exclamation-mark quotation-mark number-sign dollar-sign percent-sign ampersand apostrophe left-parenthesis "
    "right-parenthesis asterisk plus-sign comma hyphen,hyphen-minus period,full-stop slash,solidus zero one two three "
    "four five six seven eight nine colon semicolon less-than-sign equals-sign greater-than-sign question-mark "
    "commercial-at"
)
_LATER_NAMES = (
    "left-square-bracket backslash,reverse-solidus right-square-bracket circumflex,circumflex-accent "
    "underscore,low-line grave-accent"
)
_LAST_NAMES = "left-brace,left-curly-bracket vertical-line right-brace,right-curly-bracket tilde DEL"


def _named(names: str, first: str) -> dict[str, str]:
    return {name: chr(at) for at, synonyms in enumerate(names.split(), ord(first)) for name in synonyms.split(",")}


COLLATING_NAMES = {**_named(_NAMES, "\0"), **_named(_LATER_NAMES, "["), **_named(_LAST_NAMES, "{")}


# --- syntax -----------------------------------------------------------------------------------------------------------


@frozen
class Chars:
    """One character of a set."""

    of: CharSet


@frozen
class Neighbour:
    """A constraint: the character before (or after) the position is in the set, or the text begins (ends) there."""

    ahead: bool
    of: CharSet | None  # None: no character will do
    edge: bool  # whether the text's edge will do


@frozen
class Look:
    """A lookaround constraint; `number` is its index in the pattern's list."""

    number: int


@frozen
class Sequence:
    nodes: tuple[Node, ...] = ()


@frozen
class Alternatives:
    nodes: tuple[Node, ...]


@frozen
class Repeat:
    node: Node
    low: int
    high: int | None


Node: TypeAlias = "Chars | Neighbour | Look | Sequence | Alternatives | Repeat"
EMPTY = Sequence()


@frozen
class Lookaround:
    node: Node
    ahead: bool
    negated: bool


def sequence(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))


def without_constraints(node: Node) -> Node:
    """The language without its constraints, as a back reference to it matches."""
    if isinstance(node, (Neighbour, Look)):
        return EMPTY
    if isinstance(node, Sequence):
        return Sequence(tuple(without_constraints(part) for part in node.nodes))
    if isinstance(node, Alternatives):
        return Alternatives(tuple(without_constraints(part) for part in node.nodes))
    if isinstance(node, Repeat):
        return Repeat(without_constraints(node.node), node.low, node.high)
    return node


def reverse(node: Node) -> Node:
    """The language read from right to left."""
    if isinstance(node, Neighbour):
        return Neighbour(not node.ahead, node.of, node.edge)
    if isinstance(node, Sequence):
        return Sequence(tuple(reverse(part) for part in reversed(node.nodes)))
    if isinstance(node, Alternatives):
        return Alternatives(tuple(reverse(part) for part in node.nodes))
    if isinstance(node, Repeat):
        return Repeat(reverse(node.node), node.low, node.high)
    return node
