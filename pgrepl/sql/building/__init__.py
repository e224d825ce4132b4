"""Builders: the functions that make a node from the children of a grammar alternative.

An alternative `… -> create_publication` of the grammar is built by the function registered under that name:

    @build
    def create_publication(location: int, name: str, options: list[DefElem] | None) -> CreatePublicationStmt: ...

grammar/README.md tells what the children are and where the location comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from pgrepl.ground.errors import Report

Builder = Callable[..., Any]
F = TypeVar("F", bound=Builder)

BuilderTable = dict[str, tuple[Builder, "int | tuple[int, ...]"]]
BUILDERS: BuilderTable = {}
"""Alias → (function, the symbol or symbols (1 is the first) whose location it gets)."""

FAMILIES = (
    "names", "expression", "select", "operator", "function", "setting", "query", "dml", "constraint", "table",
    "publication", "view", "privilege", "alter_table", "role", "type", "copy", "json", "routine", "session",
)  # fmt: skip
"""The modules of this package that register builders. They are loaded in this order until an alias is found, so the
families that every session needs come first."""


class _Build(Protocol):
    @overload
    def __call__(self, name: F, /) -> F: ...
    @overload
    def __call__(self, *names: str, at: int | tuple[int, ...] = 1) -> Callable[[F], F]: ...


def registering(builders: BuilderTable) -> _Build:
    """The decorator that registers builders in a table under their own names (`@build`, `@build(at=2)`) or under others
    (`@build("a", "b")`)."""

    def build(*names: Any, at: int | tuple[int, ...] = 1) -> Any:
        if names and callable(names[0]):
            return build()(names[0])

        def register(function: F) -> F:
            for name in names or (function.__name__,):
                assert name not in builders, f"two builders for {name}"
                builders[name] = (function, at)
            return function

        return register

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
