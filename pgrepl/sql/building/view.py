"""CREATE INDEX, CREATE [MATERIALIZED] VIEW and REFRESH, CREATE and ALTER TRIGGER."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import AtCurrentToken, build
from pgrepl.sql.building.constraint import Attributes, refuse
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import (
    ColumnRef,
    CommonTableExpr,
    DefElem,
    Expr,
    RangeVar,
    ResTarget,
    SelectStmt,
    ViewStmt,
    WithClause,
)
from pgrepl.sql.nodes.routine import CreateTrigStmt, TriggerEventSpec, TriggerTransition

# --- view -------------------------------------------------------------------------------------------------------------


@build
def recursive_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str],
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
    replaces: bool = False,
) -> ViewStmt:
    if check_option is not None:
        raise PgError("0A000", "WITH CHECK OPTION not supported on recursive views", location=location)
    return ViewStmt(
        replace(relation, persistence=persistence),
        tuple(columns),
        _recursive_query(relation.name, columns, query),
        options=tuple(options),
        replace=replaces,
        recursive=True,
    )


def _recursive_query(name: str, columns: list[str], query: SelectStmt) -> SelectStmt:
    """CREATE RECURSIVE VIEW's query: WITH RECURSIVE name (columns) AS (query) SELECT columns FROM name (as
    makeRecursiveViewSelect does)."""
    return SelectStmt(
        targets=tuple(ResTarget(ColumnRef((column,))) for column in columns),
        from_=(RangeVar(name),),
        with_=WithClause((CommonTableExpr(name, tuple(columns), query),), recursive=True),
    )


# ------------------------------------------------------------------------------------------------ materialized views


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
    relation: RangeVar,
    transitions: list[TriggerTransition],
    row: bool,
    when: Expr | None,
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
    relation: RangeVar,
    referenced: RangeVar | None,
    attributes: Attributes,
    when: Expr | None,
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
