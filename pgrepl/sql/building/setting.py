"""SET, RESET, SHOW, ALTER SYSTEM and DISCARD; transactions and savepoints."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import INTERVAL_FULL_RANGE, integer_constant
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    DiscardStmt,
    FloatText,
    TypeCast,
    TypeName,
    VariableSetKind,
    VariableSetStmt,
)

_HOUR_TO_MINUTE = 1 << 10 | 1 << 11
"""The bits of these two fields in the typmod of an interval."""


@build
def dotted_parameter_name(location: int, name: str, part: str) -> str:
    return f"{name}.{part}"


def string_constant(location: int, text: str) -> AConst:
    return AConst(AConstKind.STRING, text, location)


@build
def number_constant(location: int, number: int | FloatText) -> AConst:
    if isinstance(number, FloatText):
        return AConst(AConstKind.FLOAT, number.text, location)
    return AConst(AConstKind.INTEGER, number, location)


# ------------------------------------------------------------------------------------------------ SET


def _value(name: str, *values: object) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.VALUE, name, values)


@build
def set_(location: int, setting: VariableSetStmt) -> VariableSetStmt:
    return setting


@build
def set_transaction_snapshot(location: int, snapshot: str) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.MULTI, "TRANSACTION SNAPSHOT", (string_constant(location, snapshot),))


@build
def time_zone_interval(
    locations: tuple[int, int], interval: TypeName, text: str, fields: tuple[AConst, ...] | None
) -> TypeCast:
    if fields and isinstance(fields[0].value, int) and fields[0].value & ~_HOUR_TO_MINUTE:
        message = "time zone interval must be HOUR or HOUR TO MINUTE"
        raise PgError("42601", message, location=locations[1])
    return TypeCast(string_constant(locations[0], text), replace(interval, typmods=fields or ()))


@build
def time_zone_interval_precision(locations: tuple[int, int], interval: TypeName, precision: int, text: str) -> TypeCast:
    typmods = (integer_constant(INTERVAL_FULL_RANGE), integer_constant(precision, locations[0]))
    return TypeCast(string_constant(locations[1], text), replace(interval, typmods=typmods))


@build
def set_catalog(location: int, name: str) -> VariableSetStmt:
    raise PgError("0A000", "current database cannot be changed", location=location)


@build
def set_schema_name(location: int, name: str) -> VariableSetStmt:
    return _value("search_path", string_constant(location, name))


@build
def set_names(location: int, encoding: str) -> VariableSetStmt:
    return _value("client_encoding", string_constant(location, encoding))


@build
def set_role(location: int, role: str) -> VariableSetStmt:
    return _value("role", string_constant(location, role))


@build
def set_session_authorization(location: int, role: str) -> VariableSetStmt:
    return _value("session_authorization", string_constant(location, role))


@build
def set_xml_option_document(location: int) -> VariableSetStmt:
    return _value("xmloption", string_constant(location, "DOCUMENT"))


@build
def set_xml_option_content(location: int) -> VariableSetStmt:
    return _value("xmloption", string_constant(location, "CONTENT"))


# ------------------------------------------------------------------------------------------------ RESET and the rest


@build
def discard(location: int, target: str) -> DiscardStmt:
    return DiscardStmt("TEMP" if target == "temporary" else target.upper())


# ------------------------------------------------------------------------------------------------ modes


@build
def words(location: int, *words: str) -> str:
    return " ".join(words)
