"""Builders shared by all families: constants, lists, tuples, and the statements of a query string."""

from __future__ import annotations

from typing import Any

from pgrepl.sql.build import build
from pgrepl.sql.nodes import RawStmt, Statement


@build
def none(location: int, *_: Any) -> None:
    return None


@build
def true(location: int, *_: Any) -> bool:
    return True


@build
def false(location: int, *_: Any) -> bool:
    return False


@build
def empty(location: int) -> list[Any]:
    return []


@build
def first(location: int, item: Any) -> list[Any]:
    """A list of one item."""
    return [item]


@build
def more(location: int, items: list[Any], item: Any) -> list[Any]:
    """A list with one more item."""
    items.append(item)
    return items


@build("pair", "triple")
def children(location: int, *items: Any) -> tuple[Any, ...]:
    """The children as they are, with None for what is absent."""
    return items


Statements = list["tuple[Statement | None, int, int]"]


@build
def first_statement(location: int, statement: Statement | None) -> Statements:
    return [(statement, 0, 0)]


@build(at=2)
def next_statement(location: int, statements: Statements, statement: Statement | None) -> Statements:
    """A semicolon: it ends a statement, and the next one begins behind it (updateRawStmtEnd)."""
    last, start, _ = statements[-1]
    statements[-1] = (last, start, location - start)
    statements.append((statement, location + 1, 0))
    return statements


@build
def all_statements(location: int, statements: Statements) -> list[RawStmt]:
    return [RawStmt(statement, start, length) for statement, start, length in statements if statement is not None]
