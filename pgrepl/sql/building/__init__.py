"""Builders: the functions that make a node from the children of a grammar alternative, where a rule is needed.

An alternative `… -> create_publication` of the grammar is built by the function of that name:

    @build
    def create_publication(location: int, name: str, options: list[DefElem] | None) -> CreatePublicationStmt: ...

grammar/README.md tells what the children are and where the location comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from pgrepl.ground.errors import Report
from pgrepl.ground.frozen import replace

Builder = Callable[..., Any]
F = TypeVar("F", bound=Builder)


def listed(value: Any) -> Any:
    """A child for a field whose sequences are tuples."""
    return tuple(value) if value.__class__ is list else value


BUILDERS: dict[str, Builder] = {"replace": replace, "listed": listed}

FAMILIES = (
    "names", "select", "expression", "setting", "query", "dml", "constraint", "table", "publication", "relation",
    "role", "type", "copy", "json", "routine",
)  # fmt: skip
"""The modules of this package that register builders. They are loaded in this order until one is found, so the
families that every session needs come first."""


def registering(builders: dict[str, Builder]) -> Callable[[F], F]:
    """The decorator `@build` that registers builders in a table under their own names."""

    def build(function: F) -> F:
        assert function.__name__ not in builders, f"two builders {function.__name__}"
        builders[function.__name__] = function
        return function

    return build


build = registering(BUILDERS)


class AtCurrentToken(Exception):
    """An error found when a rule is reduced, which PostgreSQL reports at the last token read (parser_yyerror):
    `improper use of "*" at or near "FROM"`. The parser makes the PgError."""


class Taken(NamedTuple):
    """The value of a rule without symbols whose builder has used up the token that the parser has read ahead."""

    value: Any


OnNotice = Callable[[Report], None]

on_notice: ContextVar[OnNotice | None] = ContextVar("on_notice", default=None)
release: ContextVar[int] = ContextVar("release", default=17)
"""The release of PostgreSQL that is spoken: some errors of 18 have a place in the text."""


def notify(report: Report) -> None:
    """Raise a notice or warning while parsing."""
    receiver = on_notice.get()
    if receiver is not None:
        receiver(report)
