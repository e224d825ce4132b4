"""ALTER TABLE, INDEX, SEQUENCE, VIEW and MATERIALIZED VIEW, and statements that pgrepl does not support but
PostgreSQL's grammar checks.

The part behind the relation's name becomes an `AlterRelation`: a function from the relation to the statement.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from pgrepl.ground.errors import PgError, Report
from pgrepl.sql.building import build, notify, release
from pgrepl.sql.building.constraint import Attributes, deferral, enforcement
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import (
    AlterObjectSchemaStmt,
    AlterSeqStmt,
    AlterTableCmd,
    AlterTableKind,
    AlterTableStmt,
    ColumnDef,
    Constraint,
    ConstrType,
    DefElem,
    Expr,
    ObjectType,
    PartitionBoundSpec,
    RangeVar,
    RenameStmt,
    RoleSpec,
    Statement,
    TypeName,
)

AlterRelation = Callable[[ObjectType, RangeVar, bool], Statement]
"""(kind of relation, relation, IF EXISTS) → statement"""


# ------------------------------------------------------------------------------------------------ statements


def _alter(kind: ObjectType, missing_ok: bool) -> Callable[[int, RangeVar, AlterRelation], Statement]:
    def alter(location: int, relation: RangeVar, change: AlterRelation) -> Statement:
        return change(kind, relation, missing_ok)

    return alter


for _kind in (ObjectType.TABLE, ObjectType.INDEX, ObjectType.SEQUENCE, ObjectType.VIEW, ObjectType.MATVIEW):
    _alias = f"alter_{_kind.value.replace(' ', '_')}"
    build(_alias)(_alter(_kind, False))
    build(f"{_alias}_if_exists")(_alter(_kind, True))


@build
def alter_index_attach_partition(location: int, index: RangeVar, partition: RangeVar) -> AlterTableStmt:
    command = AlterTableCmd(AlterTableKind.ATTACH_PARTITION, relation=partition)
    return AlterTableStmt(ObjectType.INDEX, index, (command,))


@build
def change_table(location: int, commands: list[AlterTableCmd]) -> AlterRelation:
    return lambda kind, relation, missing_ok: AlterTableStmt(kind, relation, tuple(commands), missing_ok)


@build
def change_partition(location: int, command: AlterTableCmd) -> AlterRelation:
    return change_table(location, [command])


@build
def change_sequence(location: int, options: list[DefElem]) -> AlterRelation:
    return lambda kind, relation, missing_ok: AlterSeqStmt(relation, tuple(options), missing_ok)


@build
def change_name(location: int, new_name: str) -> AlterRelation:
    return lambda kind, relation, missing_ok: RenameStmt(
        kind, new_name, relation, relation_kind=kind, missing_ok=missing_ok
    )


@build
def change_column_name(location: int, _: None, name: str, new_name: str) -> AlterRelation:
    return partial(_rename_part, ObjectType.COLUMN, name, new_name)


@build
def change_constraint_name(location: int, name: str, new_name: str) -> AlterRelation:
    return partial(_rename_part, ObjectType.TABCONSTRAINT, name, new_name)


def _rename_part(
    part: ObjectType, name: str, new_name: str, kind: ObjectType, relation: RangeVar, missing_ok: bool
) -> RenameStmt:
    return RenameStmt(part, new_name, relation, kind, name, missing_ok)


@build
def change_schema(location: int, schema: str) -> AlterRelation:
    return lambda kind, relation, missing_ok: AlterObjectSchemaStmt(kind, relation, schema, missing_ok)


# ------------------------------------------------------------------------------------------------ partitions


@build
def attach_partition(location: int, partition: RangeVar, bound: PartitionBoundSpec) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ATTACH_PARTITION, relation=partition, bound=bound, location=location)


@build
def detach_partition(location: int, partition: RangeVar, concurrently: bool) -> AlterTableCmd:
    return AlterTableCmd(
        AlterTableKind.DETACH_PARTITION, relation=partition, concurrently=concurrently, location=location
    )


@build
def detach_partition_finalize(location: int, partition: RangeVar) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.DETACH_FINALIZE, relation=partition, location=location)


# ------------------------------------------------------------------------------------------------ columns


@build
def add_column(location: int, column: ColumnDef) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ADD_COLUMN, column.name, column=column, location=location)


@build
def add_column_if_not_exists(location: int, column: ColumnDef) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ADD_COLUMN, column.name, column=column, missing_ok=True, location=location)


@build
def drop_column(location: int, _: None, name: str, cascade: bool) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.DROP_COLUMN, name, cascade=cascade, location=location)


@build
def drop_column_if_exists(location: int, _: None, name: str, cascade: bool) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.DROP_COLUMN, name, cascade=cascade, missing_ok=True, location=location)


def _of_column(alias: str, kind: AlterTableKind, argument: str | None = None, **fixed: Any) -> None:
    """Register `ALTER [COLUMN] name …`; its argument, at most one, becomes the named field."""

    def command(location: int, _: None, name: str, value: Any = None) -> AlterTableCmd:
        given: dict[str, Any] = {} if argument is None else {argument: tuple(value) if argument == "options" else value}
        return AlterTableCmd(kind, name, location=location, **given, **fixed)

    build(alias)(command)


_of_column("alter_column_set_default", AlterTableKind.SET_DEFAULT, "expr")
_of_column("alter_column_drop_default", AlterTableKind.SET_DEFAULT)
_of_column("alter_column_set_not_null", AlterTableKind.SET_NOT_NULL)
_of_column("alter_column_drop_not_null", AlterTableKind.DROP_NOT_NULL)
_of_column("alter_column_set_expression", AlterTableKind.SET_EXPRESSION, "expr")
_of_column("alter_column_drop_expression", AlterTableKind.DROP_EXPRESSION)
_of_column("alter_column_drop_expression_if_exists", AlterTableKind.DROP_EXPRESSION, missing_ok=True)
_of_column("alter_column_set_statistics", AlterTableKind.SET_STATISTICS, "value")
_of_column("alter_column_set_options", AlterTableKind.SET_OPTIONS, "options")
_of_column("alter_column_reset_options", AlterTableKind.RESET_OPTIONS, "options")
_of_column("alter_column_set_storage", AlterTableKind.SET_STORAGE, "value")
_of_column("alter_column_set_compression", AlterTableKind.SET_COMPRESSION, "value")
_of_column("alter_column_set_identity", AlterTableKind.SET_IDENTITY, "options")
_of_column("alter_column_drop_identity", AlterTableKind.DROP_IDENTITY)
_of_column("alter_column_drop_identity_if_exists", AlterTableKind.DROP_IDENTITY, missing_ok=True)


@build(at=(1, 3))
def alter_column_number_set_statistics(
    locations: tuple[int, int], _: None, number: int, target: int | None
) -> AlterTableCmd:
    if not 0 < number <= 32767:
        raise PgError("22023", "column number must be in range from 1 to 32767", location=locations[1])
    return AlterTableCmd(AlterTableKind.SET_STATISTICS, number=number, value=target, location=locations[0])


@build(at=(1, 5))
def alter_column_add_identity(
    locations: tuple[int, int], _: None, name: str, when: str, options: list[DefElem]
) -> AlterTableCmd:
    constraint = Constraint(
        ConstrType.IDENTITY, generated_when=when, sequence_options=tuple(options), location=locations[1]
    )
    return AlterTableCmd(AlterTableKind.ADD_IDENTITY, name, constraint=constraint, location=locations[0])


@build(at=(1, 2))
def identity_set_option(locations: tuple[int, int], option: DefElem) -> DefElem:
    if option.name in ("as", "restart", "owned_by"):
        message = f'sequence option "{option.name}" not supported here'
        raise PgError("42601", message, location=locations[1])
    return option


@build
def identity_set_generated(location: int, when: str) -> DefElem:
    return DefElem("generated", when, location)


@build(at=(1, 3))
def alter_column_type(
    locations: tuple[int, int],
    _: None,
    name: str,
    set_data: None,
    type_name: TypeName,
    collation: Names | None,
    using: Expr | None,
) -> AlterTableCmd:
    column = ColumnDef(name, type_name, collation or (), location=locations[1])
    return AlterTableCmd(AlterTableKind.ALTER_TYPE, name, column=column, expr=using, location=locations[0])


# ------------------------------------------------------------------------------------------------ constraints


@build
def add_constraint(location: int, constraint: Constraint) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ADD_CONSTRAINT, constraint.name, constraint=constraint, location=location)


@build
def alter_constraint(location: int, name: str, attributes: Attributes) -> AlterTableCmd:
    wanted = Constraint(
        ConstrType.FOREIGN,
        name,
        no_inherit="NO INHERIT" in attributes,
        enforced="NOT ENFORCED" not in attributes,
        attributes=frozenset(attributes),
        newer=enforcement(attributes),
        location=min(attributes.values(), default=(-1, -1))[0],
    )
    if release.get() >= 18 and "NOT VALID" in attributes:
        raise PgError("0A000", "constraints cannot be altered to be NOT VALID", location=wanted.location)
    of_18 = ("NO INHERIT", "NOT ENFORCED", "ENFORCED") if release.get() >= 18 else ("NOT ENFORCED", "ENFORCED")
    constraint = deferral(wanted, attributes, "FOREIGN KEY", but=of_18)
    return AlterTableCmd(AlterTableKind.ALTER_CONSTRAINT, name, constraint=constraint, location=location)


@build(at=(1, 4))
def alter_constraint_inherit(locations: tuple[int, int], name: str) -> AlterTableCmd:
    wanted = Constraint(ConstrType.NOTNULL, name, attributes=frozenset({"INHERIT"}), newer=locations[1])
    return AlterTableCmd(AlterTableKind.ALTER_CONSTRAINT, name, constraint=wanted, location=locations[0])


@build
def validate_constraint(location: int, name: str) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.VALIDATE_CONSTRAINT, name, location=location)


@build
def drop_constraint(location: int, name: str, cascade: bool) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.DROP_CONSTRAINT, name, cascade=cascade, location=location)


@build
def drop_constraint_if_exists(location: int, name: str, cascade: bool) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.DROP_CONSTRAINT, name, cascade=cascade, missing_ok=True, location=location)


# ------------------------------------------------------------------------------------------------ the table itself


@build
def replica_identity_nothing(location: int) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.REPLICA_IDENTITY, identity="n", location=location)


@build
def replica_identity_full(location: int) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.REPLICA_IDENTITY, identity="f", location=location)


@build
def replica_identity_default(location: int) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.REPLICA_IDENTITY, identity="d", location=location)


@build
def replica_identity_index(location: int, name: str) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.REPLICA_IDENTITY, name, identity="i", location=location)


@build
def inherit(location: int, parent: RangeVar) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.INHERIT, relation=parent, location=location)


@build
def no_inherit(location: int, parent: RangeVar) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.NO_INHERIT, relation=parent, location=location)


@build
def change_owner(location: int, owner: RoleSpec) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.OWNER, new_owner=owner, location=location)


@build
def set_storage_parameters(location: int, options: list[DefElem]) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.SET_RELOPTIONS, options=tuple(options), location=location)


@build
def reset_storage_parameters(location: int, options: list[DefElem]) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.RESET_RELOPTIONS, options=tuple(options), location=location)


def _plain(alias: str, kind: AlterTableKind, name: str | None = None) -> None:
    """Register a subcommand that has only a kind and a name."""

    def command(location: int, *_: Any) -> AlterTableCmd:
        return AlterTableCmd(kind, name, location=location)

    build(alias)(command)


@build
def cluster_on(location: int, index: str) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.CLUSTER_ON, index, location=location)


@build
def set_access_method(location: int, method: str) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.SET_ACCESS_METHOD, method, location=location)


@build
def set_tablespace(location: int, tablespace: str) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.SET_TABLESPACE, tablespace, location=location)


def _triggers(alias: str, kind: AlterTableKind) -> None:
    def command(location: int, name: str | None = None) -> AlterTableCmd:
        return AlterTableCmd(kind, name, location=location)

    build(alias)(command)


_triggers("enable_trigger", AlterTableKind.ENABLE_TRIGGER)
_triggers("enable_always_trigger", AlterTableKind.ENABLE_ALWAYS_TRIGGER)
_triggers("enable_replica_trigger", AlterTableKind.ENABLE_REPLICA_TRIGGER)
_triggers("enable_trigger_all", AlterTableKind.ENABLE_TRIGGER_ALL)
_triggers("enable_trigger_user", AlterTableKind.ENABLE_TRIGGER_USER)
_triggers("disable_trigger", AlterTableKind.DISABLE_TRIGGER)
_triggers("disable_trigger_all", AlterTableKind.DISABLE_TRIGGER_ALL)
_triggers("disable_trigger_user", AlterTableKind.DISABLE_TRIGGER_USER)

_plain("set_without_cluster", AlterTableKind.DROP_CLUSTER)
_plain("set_default_access_method", AlterTableKind.SET_ACCESS_METHOD)
_plain("set_logged", AlterTableKind.SET_LOGGED)
_plain("set_unlogged", AlterTableKind.SET_UNLOGGED)
_plain("set_without_oids", AlterTableKind.DROP_OIDS)
_plain("enable_row_security", AlterTableKind.ENABLE_RLS)
_plain("disable_row_security", AlterTableKind.DISABLE_RLS)
_plain("force_row_security", AlterTableKind.FORCE_RLS)
_plain("no_force_row_security", AlterTableKind.NO_FORCE_RLS)

for _words in (
    "ALTER COLUMN OPTIONS", "OPTIONS", "ALTER TABLE OF", "ALTER TABLE NOT OF", "ENABLE RULE", "ENABLE ALWAYS RULE",
    "ENABLE REPLICA RULE", "DISABLE RULE",
):  # fmt: skip
    _alias = _words.removeprefix("ALTER TABLE ").lower().replace(" ", "_")
    _plain(f"unsupported_command_{_alias}", AlterTableKind.UNSUPPORTED, _words)


# --- outside ----------------------------------------------------------------------------------------------------------


@build
def create_assertion(location: int, name: Names, expr: Expr, attributes: Attributes) -> NoReturn:
    raise PgError("0A000", "CREATE ASSERTION is not yet implemented")


@build
def extension_from(location: int, version: str) -> NoReturn:
    raise PgError("0A000", "CREATE EXTENSION ... FROM is no longer supported", location=location)


@build(at=2)
def policy_permissive(location: int, word: str) -> None:
    if word not in ("permissive", "restrictive"):
        raise PgError(
            "42601",
            f'unrecognized row security option "{word}"',
            hint="Only PERMISSIVE or RESTRICTIVE policies are supported currently.",
            location=location,
        )


@build
def recheck(location: int) -> None:
    message = "RECHECK is no longer required"
    notify(Report("NOTICE", "0A000", message, hint="Update your data type.", position=location + 1))
