"""COPY in present and old syntax; EXPLAIN, VACUUM, ANALYZE, CHECKPOINT; SQL/XML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.nodes import (
    CopyStmt,
    DefElem,
    ExplainStmt,
    Expr,
    RangeVar,
    Statement,
    TypeName,
    UnsupportedExpr,
    UnsupportedFromItem,
    VacuumStmt,
)


@build
def copy_value_list(location: int, values: list[str]) -> tuple[str, ...]:
    return tuple(values)


def _no_standard_stream(program: bool, file: str | None, location: int) -> None:
    if program and file is None:
        raise PgError("42601", "STDIN/STDOUT not allowed with PROGRAM", location=location)


@build
def copy(
    locations: tuple[int, int],
    binary: DefElem | None,
    relation: RangeVar,
    columns: list[str] | None,
    is_from: bool,
    program: bool,
    file: str | None,
    delimiter: DefElem | None,
    options: list[DefElem],
    where: Expr | None,
) -> CopyStmt:
    _no_standard_stream(program, file, locations[0])
    if where is not None and not is_from:
        raise PgError("42601", "WHERE clause not allowed with COPY TO", location=locations[1])
    flags = [flag for flag in (binary, delimiter) if flag is not None]
    return CopyStmt(relation, None, tuple(columns or ()), is_from, program, file, (*flags, *options), where)


@build
def copy_query(location: int, query: Statement, program: bool, file: str | None, options: list[DefElem]) -> CopyStmt:
    _no_standard_stream(program, file, location)
    return CopyStmt(None, query, (), False, program, file, tuple(options))


# --- maintenance ------------------------------------------------------------------------------------------------------


_Relation = tuple[RangeVar, tuple[str, ...], int]


@build
def explain_analyze(location: int, analyze: DefElem, verbose: DefElem | None, query: Statement) -> ExplainStmt:
    return ExplainStmt(query, (analyze,) if verbose is None else (analyze, verbose))


@build
def vacuum_relation(location: int, relation: RangeVar, columns: list[str] | None) -> _Relation:
    return relation, tuple(columns or ()), -1


@build
def newer_vacuum_relation(location: int, relation: RangeVar, columns: list[str] | None, inh: bool = True) -> _Relation:
    return replace(relation, inh=inh), tuple(columns or ()), location


@build
def vacuum(
    location: int,
    full: DefElem | None,
    freeze: DefElem | None,
    verbose: DefElem | None,
    analyze: DefElem | None,
    relations: list[_Relation],
) -> VacuumStmt:
    return vacuum_of(
        location, [option for option in (full, freeze, verbose, analyze) if option is not None], relations, True
    )


@build
def analyze(location: int, _: str, verbose: DefElem | None, relations: list[_Relation]) -> VacuumStmt:
    return vacuum_of(location, [] if verbose is None else [verbose], relations, False)


@build
def vacuum_of(location: int, options: Sequence[DefElem], relations: list[_Relation], is_vacuum: bool) -> VacuumStmt:
    newer = next((place for _, _, place in relations if place >= 0), -1)
    return VacuumStmt(
        is_vacuum, tuple(options), tuple([(relation, columns) for relation, columns, _ in relations]), newer
    )


# --- xml --------------------------------------------------------------------------------------------------------------


def _expressions(children: Iterable[Any]) -> Iterator[Expr]:
    for child in children:
        if isinstance(child, Expr):
            yield child
        elif isinstance(child, (list, tuple)):
            yield from _expressions(child)


@build
def sql_xml(location: int, children: tuple[Any, ...], what: str) -> UnsupportedExpr:
    return UnsupportedExpr(what, tuple(_expressions(children)), location)


# ------------------------------------------------------------------------------------------------ in FROM


@build
def xmltable(location: int, *children: Any) -> UnsupportedFromItem:
    return UnsupportedFromItem("XMLTABLE", tuple(_expressions(children)), location=location)


_NULLABILITY = "__pg__is_not_null"


@build
def xml_named_option(location: int, name: str, value: Expr) -> DefElem:
    if name == _NULLABILITY:
        raise PgError("42601", f'option name "{name}" cannot be used in XMLTABLE', location=location)
    return DefElem(name, value, location)


@build
def xml_column(location: int, name: str, type_name: TypeName, options: list[DefElem]) -> list[Any]:
    once = {
        "default": "only one DEFAULT value is allowed",
        "path": "only one PATH value per column is allowed",
        _NULLABILITY: f'conflicting or redundant NULL / NOT NULL declarations for column "{name}"',
    }
    seen = set()
    for option in options:
        if option.name not in once:
            raise PgError("42601", f'unrecognized column option "{option.name}"', location=option.location)
        if option.name in seen:
            raise PgError("42601", once[option.name], location=option.location)
        seen.add(option.name)
    return [option.value for option in options]
