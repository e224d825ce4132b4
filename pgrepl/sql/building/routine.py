"""Functions and procedures; and what of aggregates PostgreSQL's grammar checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Indirection, Names, qualified_func_name
from pgrepl.sql.nodes import (
    AlterFunctionStmt,
    CallStmt,
    CommentStmt,
    CreateFunctionStmt,
    DefElem,
    DoStmt,
    DropFunctionStmt,
    Expr,
    FloatText,
    FuncCall,
    FunctionParameter,
    ObjectType,
    ReturnStmt,
    RoleSpec,
    RoutineName,
    Statement,
    TypeName,
    UnsupportedStmt,
    VariableSetStmt,
)

_KINDS = (ObjectType.FUNCTION, ObjectType.PROCEDURE, ObjectType.ROUTINE)

# ------------------------------------------------------------------------------------------------ signatures


@build
def routine_name(location: int, name: Names, parameters: list[FunctionParameter]) -> RoutineName:
    return RoutineName(name, tuple(parameters), location)


@build
def bare_routine_name(location: int, name: str) -> RoutineName:
    return RoutineName((name,), None, location)


@build
def bare_qualified_routine_name(location: int, name: str, indirection: Indirection) -> RoutineName:
    return RoutineName(qualified_func_name(location, name, indirection), None, location)


@build
def arg_in(location: int) -> str:
    return "i"


@build
def arg_out(location: int) -> str:
    return "o"


@build
def arg_inout(location: int) -> str:
    return "b"


@build
def arg_variadic(location: int) -> str:
    return "v"


@build
def class_name_and_type(location: int, mode: str, name: str, type_name: TypeName) -> FunctionParameter:
    return FunctionParameter(name, type_name, mode, location=location)


@build
def name_class_and_type(location: int, name: str, mode: str, type_name: TypeName) -> FunctionParameter:
    return FunctionParameter(name, type_name, mode, location=location)


@build
def class_and_type(location: int, mode: str, type_name: TypeName) -> FunctionParameter:
    return FunctionParameter(None, type_name, mode, location=location)


@build
def name_and_type(location: int, name: str, type_name: TypeName) -> FunctionParameter:
    return FunctionParameter(name, type_name, location=location)


@build
def only_type(location: int, type_name: TypeName) -> FunctionParameter:
    return FunctionParameter(None, type_name, location=location)


@build
def table_column(location: int, name: str, type_name: TypeName) -> FunctionParameter:
    return FunctionParameter(name, type_name, "t", location=location)


@build
def function_arg_with_default(location: int, parameter: FunctionParameter, default: Expr) -> FunctionParameter:
    return replace(parameter, default=default)


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
def create_function(
    location: int,
    or_replace: bool,
    name: Names,
    parameters: list[FunctionParameter],
    return_type: TypeName,
    options: list[DefElem],
    body: Body,
) -> CreateFunctionStmt:
    return CreateFunctionStmt(False, or_replace, name, tuple(parameters), return_type, tuple(options), body)


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
def create_function_of_outputs(
    location: int,
    or_replace: bool,
    name: Names,
    parameters: list[FunctionParameter],
    options: list[DefElem],
    body: Body,
) -> CreateFunctionStmt:
    return CreateFunctionStmt(False, or_replace, name, tuple(parameters), None, tuple(options), body)


@build
def create_procedure(
    location: int,
    or_replace: bool,
    name: Names,
    parameters: list[FunctionParameter],
    options: list[DefElem],
    body: Body,
) -> CreateFunctionStmt:
    return CreateFunctionStmt(True, or_replace, name, tuple(parameters), None, tuple(options), body)


@build
def return_stmt(location: int, value: Expr) -> ReturnStmt:
    return ReturnStmt(value, location)


@build
def atomic_body(location: int, statements: list[Statement]) -> tuple[Statement, ...]:
    return tuple(statements)


@build
def more_routine_statements(location: int, statements: list[Statement], statement: Statement | None) -> list[Statement]:
    return [*statements, statement] if statement is not None else statements


# ------------------------------------------------------------------------------------------------ options


def _option(alias: str, name: str, value: object) -> None:
    build(alias)(lambda location: DefElem(name, value, location))


_option("routine_window", "window", True)
_option("routine_strict", "strict", True)
_option("routine_not_strict", "strict", False)
_option("routine_immutable", "volatility", "i")
_option("routine_stable", "volatility", "s")
_option("routine_volatile", "volatility", "v")
_option("routine_security_definer", "security", True)
_option("routine_security_invoker", "security", False)
_option("routine_leakproof", "leakproof", True)
_option("routine_not_leakproof", "leakproof", False)


@build
def routine_as(location: int, *texts: str) -> DefElem:
    return DefElem("as", texts, location)


@build
def routine_language(location: int, name: str) -> DefElem:
    return DefElem("language", name, location)


@build
def routine_transform(location: int, types: list[TypeName]) -> DefElem:
    return DefElem("transform", tuple(types), location)


@build
def routine_cost(location: int, number: int | FloatText) -> DefElem:
    return DefElem("cost", number, location)


@build
def routine_rows(location: int, number: int | FloatText) -> DefElem:
    return DefElem("rows", number, location)


@build
def routine_support(location: int, name: Names) -> DefElem:
    return DefElem("support", name, location)


@build
def routine_parallel(location: int, word: str) -> DefElem:
    return DefElem("parallel", word, location)


@build
def routine_set(location: int, setting: VariableSetStmt) -> DefElem:
    return DefElem("set", setting, location)


# ------------------------------------------------------------------------------------------------ ALTER, DROP, CALL

AlterRoutine = Callable[[ObjectType, RoutineName], AlterFunctionStmt | UnsupportedStmt]


@build
def routine_options(location: int, options: list[DefElem], _: None) -> AlterRoutine:
    return lambda kind, routine: AlterFunctionStmt(kind, routine, tuple(options))


@build
def routine_renamed(location: int, name: str) -> AlterRoutine:
    return lambda kind, routine: AlterFunctionStmt(kind, routine, new_name=name)


@build
def routine_owned(location: int, owner: RoleSpec) -> AlterRoutine:
    return lambda kind, routine: AlterFunctionStmt(kind, routine, new_owner=owner)


@build
def routine_moved(location: int, schema: str) -> AlterRoutine:
    return lambda kind, routine: AlterFunctionStmt(kind, routine, new_schema=schema)


@build
def routine_depends(location: int, _: None) -> AlterRoutine:
    return lambda kind, routine: UnsupportedStmt(f"ALTER {kind.value.upper()} DEPENDS ON")


def _about(kind: ObjectType) -> None:
    """Register the builders of the statements about existing routines of a kind."""
    word = kind.value

    @build(f"alter_{word}")
    def alter(location: int, routine: RoutineName, change: AlterRoutine) -> AlterFunctionStmt | UnsupportedStmt:
        return change(kind, routine)

    @build(f"drop_{word}")
    def drop(location: int, routines: list[RoutineName], cascade: bool) -> DropFunctionStmt:
        return DropFunctionStmt(kind, tuple(routines), False, cascade)

    @build(f"drop_{word}_if_exists")
    def drop_if_exists(location: int, routines: list[RoutineName], cascade: bool) -> DropFunctionStmt:
        return DropFunctionStmt(kind, tuple(routines), True, cascade)

    @build(f"comment_on_{word}")
    def comment(location: int, routine: RoutineName, text: str | None) -> CommentStmt:
        return CommentStmt(kind, routine.name, text, location, routine)


for _kind in _KINDS:
    _about(_kind)


@build
def do_stmt(location: int, options: list[DefElem]) -> DoStmt:
    return DoStmt(tuple(options))


@build
def do_body(location: int, body: str) -> DefElem:
    return DefElem("as", body, location)


@build
def call_stmt(location: int, call: FuncCall) -> CallStmt:
    return CallStmt(call)
