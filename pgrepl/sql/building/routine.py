"""Functions and procedures; and what of aggregates PostgreSQL's grammar checks."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Indirection, Names, qualified_func_name
from pgrepl.sql.nodes import (
    CommentStmt,
    CreateFunctionStmt,
    DefElem,
    FunctionParameter,
    ObjectType,
    ReturnStmt,
    RoutineName,
    Statement,
    TypeName,
)

# ------------------------------------------------------------------------------------------------ signatures


@build
def bare_qualified_routine_name(location: int, name: str, indirection: Indirection) -> RoutineName:
    return RoutineName(qualified_func_name(location, name, indirection), None, location)


@build
def aggregate_arg(location: int, argument: FunctionParameter) -> FunctionParameter:
    if argument.mode in ("o", "b"):
        raise PgError("0A000", "aggregates cannot have output arguments", location=location)
    return argument


@build
def ordered_set_args(location: int, direct: list[FunctionParameter], ordered: list[FunctionParameter]) -> None:
    """Checks the arguments of an ordered-set aggregate (makeOrderedSetArgs)."""
    if direct[-1].mode == "v" and [_without_places(one) for one in ordered] != [_without_places(direct[-1])]:
        raise PgError(
            "0A000",
            "an ordered-set aggregate with a VARIADIC direct argument must have one VARIADIC aggregated argument of the"
            " same data type",
            location=ordered[0].type_name.location,
        )


def _without_places(parameter: FunctionParameter) -> tuple[str, TypeName]:
    return parameter.mode, replace(parameter.type_name, location=-1)


# ------------------------------------------------------------------------------------------------ CREATE

Body = ReturnStmt | tuple[Statement, ...] | None


@build
def create_table_function(
    location: int,
    or_replace: bool,
    name: Names,
    parameters: list[FunctionParameter],
    columns: list[FunctionParameter],
    options: list[DefElem],
    body: Body,
) -> CreateFunctionStmt:
    """CREATE FUNCTION … RETURNS TABLE: its columns are parameters (mergeTableFuncParameters, TableFuncTypeName)."""
    if any(parameter.mode in ("o", "b") for parameter in parameters):
        raise PgError("42601", "OUT and INOUT arguments aren't allowed in TABLE functions")
    row = columns[0].type_name if len(columns) == 1 else TypeName(("pg_catalog", "record"))
    everything = (*parameters, *columns)
    return CreateFunctionStmt(False, or_replace, name, everything, replace(row, setof=True), tuple(options), body)


@build
def atomic_body(location: int, statements: list[Statement]) -> tuple[Statement, ...]:
    return tuple(statements)


@build
def more_routine_statements(location: int, statements: list[Statement], statement: Statement | None) -> list[Statement]:
    return [*statements, statement] if statement is not None else statements


# ------------------------------------------------------------------------------------------------ options


@build
def routine_as(location: int, *texts: str) -> DefElem:
    return DefElem("as", texts, location)


# ------------------------------------------------------------------------------------------------ ALTER, DROP, CALL


@build
def comment_on_routine(location: int, routine: RoutineName, text: str | None, kind: ObjectType) -> CommentStmt:
    return CommentStmt(kind, routine.name, text, location, routine)
