"""Functions and procedures, and what of aggregates PostgreSQL's grammar checks; prepared statements, cursors, LOCK
TABLE, LISTEN and NOTIFY, REINDEX; operators and collations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Indirection, Names, qualified_func_name
from pgrepl.sql.nodes import (
    CommentStmt,
    CreateFunctionStmt,
    DeclareCursorStmt,
    DefElem,
    FetchStmt,
    FunctionParameter,
    NotifyStmt,
    ObjectType,
    OperatorName,
    RangeVar,
    ReindexStmt,
    ReturnStmt,
    RoutineName,
    SelectStmt,
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


_MODES = (
    "access share", "row share", "row exclusive", "share update exclusive", "share", "share row exclusive",
    "exclusive", "access exclusive",
)  # fmt: skip


@build
def lock_mode(location: int, words: str) -> int:
    return _MODES.index(words) + 1


@build
def lock_mode_default(location: int) -> int:
    return len(_MODES)


def _options(options: list[DefElem] | None, concurrently: DefElem | None) -> tuple[DefElem, ...]:
    return (*(options or ()), *(() if concurrently is None else (concurrently,)))


@build
def reindex_relation(
    location: int, options: list[DefElem] | None, kind: str, concurrently: DefElem | None, relation: RangeVar
) -> ReindexStmt:
    return ReindexStmt(kind.upper(), relation, options=_options(options, concurrently))


@build
def reindex_all(
    location: int, options: list[DefElem] | None, kind: str, concurrently: DefElem | None, name: str | None
) -> ReindexStmt:
    return ReindexStmt(kind.upper(), name=name, options=_options(options, concurrently))


# ------------------------------------------------------------------------------------------------ notifications


@build
def notify_channel(location: int, channel: str, payload: str = "") -> NotifyStmt:
    return NotifyStmt(channel, payload)


# ------------------------------------------------------------------------------------------------ cursors

_Direction = tuple[str, "int | None"]


@build
def cursor_option(location: int, words: list[str], word: str) -> list[str]:
    return [*words, word]


@build
def declare_cursor(location: int, name: str, words: list[str], holds: bool, query: SelectStmt) -> DeclareCursorStmt:
    scroll = True if "scroll" in words else False if "no_scroll" in words else None
    return DeclareCursorStmt(
        name,
        query,
        scroll,
        scroll_and_not="scroll" in words and "no_scroll" in words,
        binary="binary" in words,
        asensitive="asensitive" in words,
        insensitive="insensitive" in words,
        holds=holds,
    )


@build
def fetch_next_from(location: int, _: None, name: str) -> tuple[_Direction, str]:
    return ("forward", 1), name


@build
def fetch_from(location: int, direction: _Direction, _: None, name: str) -> tuple[_Direction, str]:
    return direction, name


@build
def fetch_cursor(location: int, args: tuple[_Direction, str]) -> FetchStmt:
    (word, count), name = args
    return FetchStmt(name, word, count)


@build
def move_cursor(location: int, args: tuple[_Direction, str]) -> FetchStmt:
    (word, count), name = args
    return FetchStmt(name, word, count, moves=True)


# ------------------------------------------------------------------------------------------------ operators


@build
def missing_operator_argument(location: int, name: Names, type_name: TypeName) -> NoReturn:
    raise PgError(
        "42601",
        "missing argument",
        hint="Use NONE to denote the missing argument of a unary operator.",
        location=location,
    )


@build
def comment_on_operator(location: int, operator: OperatorName, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.OPERATOR, operator.name, text, location, operator)
