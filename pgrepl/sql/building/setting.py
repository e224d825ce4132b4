"""SET, RESET, SHOW, ALTER SYSTEM and DISCARD; transactions and savepoints."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import INTERVAL_FULL_RANGE, integer_constant
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    AlterSystemStmt,
    ConstraintsSetStmt,
    DefElem,
    DiscardStmt,
    FloatText,
    RangeVar,
    TransactionKind,
    TransactionStmt,
    TypeCast,
    TypeName,
    VariableSetKind,
    VariableSetStmt,
    VariableShowStmt,
)

_HOUR_TO_MINUTE = 1 << 10 | 1 << 11
"""The bits of these two fields in the typmod of an interval."""


@build
def dotted_parameter_name(location: int, name: str, part: str) -> str:
    return f"{name}.{part}"


@build
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


def _default(name: str) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.DEFAULT, name)


@build("set")
def set_(location: int, setting: VariableSetStmt) -> VariableSetStmt:
    return setting


@build
def set_local(location: int, setting: VariableSetStmt) -> VariableSetStmt:
    return replace(setting, local=True)


@build
def set_constraints(location: int, names: list[RangeVar] | None, deferred: bool) -> ConstraintsSetStmt:
    return ConstraintsSetStmt(None if names is None else tuple(names), deferred)


@build
def set_transaction(location: int, modes: list[DefElem]) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.MULTI, "TRANSACTION", tuple(modes))


@build
def set_session_characteristics(location: int, modes: list[DefElem]) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.MULTI, "SESSION CHARACTERISTICS", tuple(modes))


@build(at=3)
def set_transaction_snapshot(location: int, snapshot: str) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.MULTI, "TRANSACTION SNAPSHOT", (string_constant(location, snapshot),))


@build
def set_value(location: int, name: str, values: list[AConst]) -> VariableSetStmt:
    return _value(name, *values)


@build
def set_default(location: int, name: str) -> VariableSetStmt:
    return _default(name)


@build
def set_from_current(location: int, name: str) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.CURRENT, name)


@build
def set_time_zone(location: int, zone: AConst | TypeCast) -> VariableSetStmt:
    return _value("timezone", zone)


@build
def set_time_zone_default(location: int) -> VariableSetStmt:
    return _default("timezone")


@build(at=(2, 3))
def time_zone_interval(
    locations: tuple[int, int], interval: TypeName, text: str, fields: tuple[AConst, ...] | None
) -> TypeCast:
    if fields and isinstance(fields[0].value, int) and fields[0].value & ~_HOUR_TO_MINUTE:
        message = "time zone interval must be HOUR or HOUR TO MINUTE"
        raise PgError("42601", message, location=locations[1])
    return TypeCast(string_constant(locations[0], text), replace(interval, typmods=fields or ()))


@build(at=(3, 5))
def time_zone_interval_precision(locations: tuple[int, int], interval: TypeName, precision: int, text: str) -> TypeCast:
    typmods = (integer_constant(INTERVAL_FULL_RANGE), integer_constant(precision, locations[0]))
    return TypeCast(string_constant(locations[1], text), replace(interval, typmods=typmods))


@build(at=2)
def set_catalog(location: int, name: str) -> VariableSetStmt:
    raise PgError("0A000", "current database cannot be changed", location=location)


@build(at=2)
def set_schema_name(location: int, name: str) -> VariableSetStmt:
    return _value("search_path", string_constant(location, name))


@build(at=2)
def set_names(location: int, encoding: str) -> VariableSetStmt:
    return _value("client_encoding", string_constant(location, encoding))


@build
def set_names_default(location: int) -> VariableSetStmt:
    return _default("client_encoding")


@build(at=2)
def set_role(location: int, role: str) -> VariableSetStmt:
    return _value("role", string_constant(location, role))


@build(at=3)
def set_session_authorization(location: int, role: str) -> VariableSetStmt:
    return _value("session_authorization", string_constant(location, role))


@build
def set_session_authorization_default(location: int) -> VariableSetStmt:
    return _default("session_authorization")


@build(at=3)
def set_xml_option_document(location: int) -> VariableSetStmt:
    return _value("xmloption", string_constant(location, "DOCUMENT"))


@build(at=3)
def set_xml_option_content(location: int) -> VariableSetStmt:
    return _value("xmloption", string_constant(location, "CONTENT"))


# ------------------------------------------------------------------------------------------------ RESET and the rest


def _reset(alias: str, parameter: str) -> None:
    build(alias)(lambda location: VariableSetStmt(VariableSetKind.RESET, parameter))


def _show(alias: str, parameter: str) -> None:
    build(alias)(lambda location: VariableShowStmt(parameter))


for _words, _parameter in (
    ("time_zone", "timezone"),
    ("transaction_isolation", "transaction_isolation"),
    ("session_authorization", "session_authorization"),
):
    _reset(f"reset_{_words}", _parameter)
    _show(f"show_{_words}", _parameter)
_show("show_all", "all")


@build
def reset(location: int, name: str) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.RESET, name)


@build
def reset_all(location: int) -> VariableSetStmt:
    return VariableSetStmt(VariableSetKind.RESET_ALL, None)


@build
def alter_system_set(location: int, setting: VariableSetStmt) -> AlterSystemStmt:
    return AlterSystemStmt(setting)


@build
def alter_system_reset(location: int, name: str) -> AlterSystemStmt:
    return AlterSystemStmt(VariableSetStmt(VariableSetKind.RESET, name))


@build
def alter_system_reset_all(location: int) -> AlterSystemStmt:
    return AlterSystemStmt(VariableSetStmt(VariableSetKind.RESET_ALL, None))


@build
def show(location: int, name: str) -> VariableShowStmt:
    return VariableShowStmt(name)


@build
def discard(location: int, target: str) -> DiscardStmt:
    return DiscardStmt("TEMP" if target == "temporary" else target.upper())


# --- transaction ------------------------------------------------------------------------------------------------------


@build
def start_transaction(location: int, modes: list[DefElem]) -> TransactionStmt:
    return TransactionStmt(TransactionKind.START, tuple(modes))


@build
def begin(location: int, _: None, modes: list[DefElem]) -> TransactionStmt:
    return TransactionStmt(TransactionKind.BEGIN, tuple(modes))


@build
def commit(location: int, _: None, chain: bool) -> TransactionStmt:
    return TransactionStmt(TransactionKind.COMMIT, chain=chain)


@build
def rollback(location: int, _: None, chain: bool) -> TransactionStmt:
    return TransactionStmt(TransactionKind.ROLLBACK, chain=chain)


@build(at=2)
def savepoint(location: int, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.SAVEPOINT, savepoint=name, location=location)


@build(at=2)
def release(location: int, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.RELEASE, savepoint=name, location=location)


@build(at=3)
def release_savepoint(location: int, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.RELEASE, savepoint=name, location=location)


@build(at=4)
def rollback_to(location: int, _: None, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.ROLLBACK_TO, savepoint=name, location=location)


@build(at=5)
def rollback_to_savepoint(location: int, _: None, name: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.ROLLBACK_TO, savepoint=name, location=location)


@build(at=3)
def prepare_transaction(location: int, gid: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.PREPARE, gid=gid, location=location)


@build(at=3)
def commit_prepared(location: int, gid: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.COMMIT_PREPARED, gid=gid, location=location)


@build(at=3)
def rollback_prepared(location: int, gid: str) -> TransactionStmt:
    return TransactionStmt(TransactionKind.ROLLBACK_PREPARED, gid=gid, location=location)


# ------------------------------------------------------------------------------------------------ modes


@build
def words(location: int, *words: str) -> str:
    return " ".join(words)


@build
def isolation_level(location: int, level: str) -> DefElem:
    return DefElem("transaction_isolation", level, location)


@build
def read_only(location: int) -> DefElem:
    return DefElem("transaction_read_only", True, location)


@build
def read_write(location: int) -> DefElem:
    return DefElem("transaction_read_only", False, location)


@build
def transaction_deferrable(location: int) -> DefElem:
    return DefElem("transaction_deferrable", True, location)


@build
def transaction_not_deferrable(location: int) -> DefElem:
    return DefElem("transaction_deferrable", False, location)
