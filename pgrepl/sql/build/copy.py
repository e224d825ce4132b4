"""COPY, with its options in present and old syntax."""

from __future__ import annotations

from typing import Any

from pgrepl.errors import PgError
from pgrepl.sql.build import build
from pgrepl.sql.nodes import AStar, CopyStmt, DefElem, Expr, RangeVar, Statement


def _option(alias: str, name: str, value: object = None) -> None:
    """`CSV` is format=csv; `QUOTE '"'` takes its value from the text."""

    @build(alias)
    def copy_option(location: int, *given: Any) -> DefElem:
        found = given[-1] if given else value
        return DefElem(name, tuple(found) if isinstance(found, list) else found, location)


_option("copy_binary", "format", "binary")
_option("copy_csv", "format", "csv")
_option("copy_freeze", "freeze", True)
_option("copy_header", "header", True)
for _name in ("delimiter", "null", "quote", "escape", "force_quote", "force_not_null", "force_null", "encoding"):
    _option(f"copy_{_name}", _name)


@build(at=2)
def copy_delimiters(location: int, _: None, delimiter: str) -> DefElem:
    return DefElem("delimiter", delimiter, location)


@build
def copy_star(location: int, _: str) -> AStar:
    return AStar()


@build
def copy_value_list(location: int, values: list[str]) -> tuple[str, ...]:
    return tuple(values)


def _no_standard_stream(program: bool, file: str | None, location: int) -> None:
    if program and file is None:
        raise PgError("42601", "STDIN/STDOUT not allowed with PROGRAM", location=location)


@build(at=(8, 11))
def copy(
    locations: tuple[int, int],
    binary: DefElem | None,
    relation: RangeVar,
    columns: list[str] | None,
    is_from: bool,
    program: bool,
    file: str | None,
    delimiter: DefElem | None,
    _: None,
    options: list[DefElem],
    where: Expr | None,
) -> CopyStmt:
    _no_standard_stream(program, file, locations[0])
    if where is not None and not is_from:
        raise PgError("42601", "WHERE clause not allowed with COPY TO", location=locations[1])
    flags = [flag for flag in (binary, delimiter) if flag is not None]
    return CopyStmt(relation, None, tuple(columns or ()), is_from, program, file, (*flags, *options), where)


@build(at=5)
def copy_query(
    location: int, query: Statement, program: bool, file: str | None, _: None, options: list[DefElem]
) -> CopyStmt:
    _no_standard_stream(program, file, location)
    return CopyStmt(None, query, (), False, program, file, tuple(options))
