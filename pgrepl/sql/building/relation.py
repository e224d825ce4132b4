"""CREATE INDEX, CREATE [MATERIALIZED] VIEW and REFRESH, CREATE and ALTER TRIGGER; ALTER TABLE, INDEX, SEQUENCE, VIEW
and MATERIALIZED VIEW; and statements that pgrepl does not support but PostgreSQL's grammar checks.
"""

from __future__ import annotations

from typing import NoReturn

from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.frozen import replace
from pgrepl.sql import nodes
from pgrepl.sql.building import AtCurrentToken, build, notify, release
from pgrepl.sql.building.constraint import Attributes, deferral, enforcement, refuse
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes.routine import CreateTrigStmt, TriggerEventSpec, TriggerTransition

# --- view -------------------------------------------------------------------------------------------------------------


@build
def recursive_view(
    location: int,
    persistence: str,
    relation: nodes.RangeVar,
    columns: list[str],
    options: list[nodes.DefElem],
    query: nodes.SelectStmt,
    check_option: str | None,
    replaces: bool = False,
) -> nodes.ViewStmt:
    if check_option is not None:
        raise PgError("0A000", "WITH CHECK OPTION not supported on recursive views", location=location)
    return nodes.ViewStmt(
        replace(relation, persistence=persistence),
        tuple(columns),
        _recursive_query(relation.name, columns, query),
        options=tuple(options),
        replace=replaces,
        recursive=True,
    )


def _recursive_query(name: str, columns: list[str], query: nodes.SelectStmt) -> nodes.SelectStmt:
    """CREATE RECURSIVE VIEW's query: WITH RECURSIVE name (columns) AS (query) SELECT columns FROM name (as
    makeRecursiveViewSelect does)."""
    return nodes.SelectStmt(
        targets=tuple(nodes.ResTarget(nodes.ColumnRef((column,))) for column in columns),
        from_=(nodes.RangeVar(name),),
        with_=nodes.WithClause((nodes.CommonTableExpr(name, tuple(columns), query),), recursive=True),
    )


# --- trigger ----------------------------------------------------------------------------------------------------------


Function = tuple[Names, tuple[str, ...]]


@build
def trigger_event(location: int, word: str) -> TriggerEventSpec:
    return TriggerEventSpec(word.upper())


@build
def more_trigger_events(location: int, events: list[TriggerEventSpec], one: TriggerEventSpec) -> list[TriggerEventSpec]:
    if any(one.event == other.event for other in events):
        raise AtCurrentToken("duplicate trigger events specified")
    return [*events, one]


@build
def trigger_number(location: int, number: int) -> str:
    return str(number)


@build
def trigger_function(location: int, _: None, name: Names, args: list[str]) -> Function:
    return name, tuple(args)


@build
def create_trigger(
    location: int,
    or_replace: bool,
    name: str,
    timing: str,
    events: list[TriggerEventSpec],
    relation: nodes.RangeVar,
    transitions: list[TriggerTransition],
    row: bool,
    when: nodes.Expr | None,
    function: Function,
) -> CreateTrigStmt:
    called, args = function
    return CreateTrigStmt(
        name, relation, called, args, timing, tuple(events), row, when, tuple(transitions), replace=or_replace
    )


@build
def create_constraint_trigger(
    location: int,
    or_replace: bool,
    name: str,
    events: list[TriggerEventSpec],
    relation: nodes.RangeVar,
    referenced: nodes.RangeVar | None,
    attributes: Attributes,
    when: nodes.Expr | None,
    function: Function,
) -> CreateTrigStmt:
    if or_replace:
        raise PgError("0A000", "CREATE OR REPLACE CONSTRAINT TRIGGER is not supported")
    refuse(attributes, "TRIGGER", "NOT VALID", "NO INHERIT", "NOT ENFORCED", "ENFORCED")
    called, args = function
    deferred = "INITIALLY DEFERRED" in attributes
    return CreateTrigStmt(
        name,
        relation,
        called,
        args,
        "AFTER",
        tuple(events),
        True,
        when,
        is_constraint=True,
        deferrable=deferred or "DEFERRABLE" in attributes,
        initially_deferred=deferred,
        referenced=referenced,
    )


# ------------------------------------------------------------------------------------------------ statements


@build
def alter(
    location: int, relation: nodes.RangeVar, change: nodes.Statement, kind: nodes.ObjectType, missing_ok: bool = False
) -> nodes.Statement:
    """The statement of a change, whose fields `...` are known only now."""
    values = {"relation": relation, "kind": kind, "relation_kind": kind, "missing_ok": missing_ok}
    return replace(change, **{field: value for field, value in values.items() if getattr(change, field, None) is ...})


# ------------------------------------------------------------------------------------------------ columns


@build
def add_column(location: int, column: nodes.ColumnDef) -> nodes.AlterTableCmd:
    return nodes.AlterTableCmd(nodes.AlterTableKind.ADD_COLUMN, column.name, column=column, location=location)


@build
def add_column_if_not_exists(location: int, column: nodes.ColumnDef) -> nodes.AlterTableCmd:
    return nodes.AlterTableCmd(
        nodes.AlterTableKind.ADD_COLUMN, column.name, column=column, missing_ok=True, location=location
    )


@build
def alter_column_number_set_statistics(
    locations: tuple[int, int], number: int, target: int | None
) -> nodes.AlterTableCmd:
    if not 0 < number <= 32767:
        raise PgError("22023", "column number must be in range from 1 to 32767", location=locations[1])
    return nodes.AlterTableCmd(nodes.AlterTableKind.SET_STATISTICS, number=number, value=target, location=locations[0])


@build
def identity_set_option(locations: tuple[int, int], option: nodes.DefElem) -> nodes.DefElem:
    if option.name in ("as", "restart", "owned_by"):
        message = f'sequence option "{option.name}" not supported here'
        raise PgError("42601", message, location=locations[1])
    return option


@build
def alter_column_type(
    locations: tuple[int, int], name: str, type_name: nodes.TypeName, collation: Names | None, using: nodes.Expr | None
) -> nodes.AlterTableCmd:
    column = nodes.ColumnDef(name, type_name, collation or (), location=locations[1])
    return nodes.AlterTableCmd(nodes.AlterTableKind.ALTER_TYPE, name, column=column, expr=using, location=locations[0])


# ------------------------------------------------------------------------------------------------ constraints


@build
def add_constraint(location: int, constraint: nodes.Constraint) -> nodes.AlterTableCmd:
    return nodes.AlterTableCmd(
        nodes.AlterTableKind.ADD_CONSTRAINT, constraint.name, constraint=constraint, location=location
    )


@build
def alter_constraint(location: int, name: str, attributes: Attributes) -> nodes.AlterTableCmd:
    wanted = nodes.Constraint(
        nodes.ConstrType.FOREIGN,
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
    return nodes.AlterTableCmd(nodes.AlterTableKind.ALTER_CONSTRAINT, name, constraint=constraint, location=location)


@build
def alter_constraint_inherit(locations: tuple[int, int], name: str) -> nodes.AlterTableCmd:
    wanted = nodes.Constraint(nodes.ConstrType.NOTNULL, name, attributes=frozenset({"INHERIT"}), newer=locations[1])
    return nodes.AlterTableCmd(nodes.AlterTableKind.ALTER_CONSTRAINT, name, constraint=wanted, location=locations[0])


# --- outside ----------------------------------------------------------------------------------------------------------


@build
def create_assertion(location: int, name: Names, expr: nodes.Expr, attributes: Attributes) -> NoReturn:
    raise PgError("0A000", "CREATE ASSERTION is not yet implemented")


@build
def extension_from(location: int, version: str) -> NoReturn:
    raise PgError("0A000", "CREATE EXTENSION ... FROM is no longer supported", location=location)


@build
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
