"""Functions, aggregates, operators and triggers: not supported, but checked as PostgreSQL's grammar does."""

from __future__ import annotations

from dataclasses import field, replace

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.sql.build import AtCurrentToken, build
from pgrepl.sql.build.constraint import Attributes, refuse
from pgrepl.sql.build.names import Names
from pgrepl.sql.nodes import Expr, TypeName, UnsupportedStmt

# ------------------------------------------------------------------------------------------------ signatures


@frozen
class _Argument:
    mode: str  # in, out, inout, variadic
    type_name: TypeName  # without its place, so that two can be compared
    location: int = field(compare=False)


@build
def routine_name(location: int, name: Names, arguments: object) -> Names:
    return name


@build
def arg_in(location: int) -> str:
    return "in"


@build
def arg_out(location: int) -> str:
    return "out"


@build
def arg_inout(location: int) -> str:
    return "inout"


@build
def arg_variadic(location: int) -> str:
    return "variadic"


@build
def class_name_and_type(location: int, mode: str, name: str, type_name: TypeName) -> _Argument:
    return _Argument(mode, replace(type_name, location=-1), type_name.location)


@build
def name_class_and_type(location: int, name: str, mode: str, type_name: TypeName) -> _Argument:
    return _Argument(mode, replace(type_name, location=-1), type_name.location)


@build
def class_and_type(location: int, mode: str, type_name: TypeName) -> _Argument:
    return _Argument(mode, replace(type_name, location=-1), type_name.location)


@build
def name_and_type(location: int, name: str, type_name: TypeName) -> _Argument:
    return _Argument("in", replace(type_name, location=-1), type_name.location)


@build
def only_type(location: int, type_name: TypeName) -> _Argument:
    return _Argument("in", replace(type_name, location=-1), type_name.location)


@build
def function_arg_with_default(location: int, argument: _Argument, default: Expr) -> _Argument:
    return argument


@build
def aggregate_arg(location: int, argument: _Argument) -> _Argument:
    if argument.mode in ("out", "inout"):
        raise PgError("0A000", "aggregates cannot have output arguments", location=location)
    return argument


@build
def ordered_set_args(location: int, direct: list[_Argument], ordered: list[_Argument]) -> None:
    """As makeOrderedSetArgs does."""
    if direct[-1].mode == "variadic" and ordered != [direct[-1]]:
        raise PgError(
            "0A000",
            "an ordered-set aggregate with a VARIADIC direct argument must have one VARIADIC aggregated argument of the"
            " same data type",
            location=ordered[0].location,
        )


@build(at=3)
def missing_operator_argument(location: int, type_name: TypeName) -> None:
    raise PgError(
        "42601",
        "missing argument",
        hint="Use NONE to denote the missing argument of a unary operator.",
        location=location,
    )


@build
def create_table_function(
    location: int, or_replace: None, name: Names, arguments: list[_Argument], *_: object
) -> UnsupportedStmt:
    if any(argument.mode in ("out", "inout") for argument in arguments):
        raise PgError("42601", "OUT and INOUT arguments aren't allowed in TABLE functions")
    return UnsupportedStmt("CREATE FUNCTION", location)


# ------------------------------------------------------------------------------------------------ triggers


@build
def trigger_update_of(location: int, *words: object) -> str:
    return "update"


@build
def more_trigger_events(location: int, events: list[str], event: str) -> list[str]:
    if event in events:
        raise AtCurrentToken("duplicate trigger events specified")
    return [*events, event]


@build
def create_constraint_trigger(
    location: int,
    or_replace: bool,
    name: str,
    events: list[str],
    relation: object,
    referenced: object,
    attributes: Attributes,
    when: Expr | None,
    function: None,
) -> UnsupportedStmt:
    if or_replace:
        raise PgError("0A000", "CREATE OR REPLACE CONSTRAINT TRIGGER is not supported")
    refuse(attributes, "TRIGGER", "NOT VALID", "NO INHERIT")
    return UnsupportedStmt("CREATE TRIGGER", location)
