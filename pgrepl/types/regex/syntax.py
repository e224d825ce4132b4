"""Regular languages: what a part of a pattern matches, without groups and preferences.

Constraints have no width. They test a position of the text: the characters before and behind it, the edges of the text,
or a lookaround.
"""

from __future__ import annotations

from typing import TypeAlias

from pgrepl.frozen import frozen
from pgrepl.types.regex.charsets import CharSet


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
        return Sequence(tuple(without_constraints(each) for each in node.nodes))
    if isinstance(node, Alternatives):
        return Alternatives(tuple(without_constraints(each) for each in node.nodes))
    if isinstance(node, Repeat):
        return Repeat(without_constraints(node.node), node.low, node.high)
    return node


def reverse(node: Node) -> Node:
    """The language read from right to left."""
    if isinstance(node, Neighbour):
        return Neighbour(not node.ahead, node.of, node.edge)
    if isinstance(node, Sequence):
        return Sequence(tuple(reverse(each) for each in reversed(node.nodes)))
    if isinstance(node, Alternatives):
        return Alternatives(tuple(reverse(each) for each in node.nodes))
    if isinstance(node, Repeat):
        return Repeat(reverse(node.node), node.low, node.high)
    return node
