"""The items of a jsonpath (JsonPathParseItem)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

LAST_LEVEL = 0xFFFFFFFF  # `last` among the levels of `**{…}`

COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
BOOLEANS = frozenset({"&&", "||", "!", "is unknown", "exists", "starts with", "like_regex", *COMPARISONS})


@dataclass(slots=True, eq=False)
class Item:
    """One step of a path, and the step behind it.

    kind is a literal ("null", "string", "numeric", "bool"), "$", "@", "last", "variable", "key", ".*", "[*]",
    "[…]" (value: pairs of items), "**" (value: the first and the last level), "?", "method" (value: its name),
    "u+", "u-" (signs), an operator, or one of BOOLEANS. A like_regex has its pattern and flags as its value.
    """

    kind: str
    value: Any = None
    args: tuple[Item | None, ...] = ()
    next: Item | None = None

    @property
    def is_boolean(self) -> bool:
        return self.kind in BOOLEANS


class Path(NamedTuple):
    """A whole path."""

    lax: bool
    first: Item


def operation_name(item: Item) -> str:
    """The name of an operator or method in messages (jspOperationName)."""
    if item.kind == "method":
        name: str = item.value
        return name
    return item.kind[1:] if item.kind in ("u+", "u-") else item.kind


def chained(item: Item, following: Item) -> None:
    """Put an item behind the last step of a path (makeItemList)."""
    while item.next is not None:
        item = item.next
    item.next = following


def steps(item: Item | None) -> Iterator[Item]:
    while item is not None:
        yield item
        item = item.next


def parts(item: Item) -> Iterator[Item]:
    """The items inside one step."""
    yield from (arg for arg in item.args if arg is not None)
    if item.kind == "[…]":
        for pair in item.value:
            yield from (bound for bound in pair if bound is not None)
