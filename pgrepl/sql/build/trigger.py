"""CREATE TRIGGER and ALTER TRIGGER … RENAME."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.sql.build import AtCurrentToken, build
from pgrepl.sql.build.constraint import Attributes, refuse
from pgrepl.sql.build.names import Names
from pgrepl.sql.nodes import Expr, ObjectType, RangeVar, RenameStmt
from pgrepl.sql.nodes.trigger import CreateTrigStmt, TriggerEventSpec, TriggerTransition

Function = tuple[Names, tuple[str, ...]]


@build
def trigger_before(location: int) -> str:
    return "BEFORE"


@build
def trigger_after(location: int) -> str:
    return "AFTER"


@build
def trigger_instead_of(location: int) -> str:
    return "INSTEAD OF"


@build
def trigger_event(location: int, word: str) -> TriggerEventSpec:
    return TriggerEventSpec(word.upper())


@build
def trigger_update_of(location: int, columns: list[str]) -> TriggerEventSpec:
    return TriggerEventSpec("UPDATE", tuple(columns))


@build
def more_trigger_events(location: int, events: list[TriggerEventSpec], one: TriggerEventSpec) -> list[TriggerEventSpec]:
    if any(one.event == other.event for other in events):
        raise AtCurrentToken("duplicate trigger events specified")
    return [*events, one]


@build
def trigger_transition(location: int, is_new: bool, is_table: bool, _: None, name: str) -> TriggerTransition:
    return TriggerTransition(name, is_new, is_table)


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
    refuse(attributes, "TRIGGER", "NOT VALID", "NO INHERIT")
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


@build
def rename_trigger(location: int, name: str, relation: RangeVar, new_name: str) -> RenameStmt:
    return RenameStmt(ObjectType.TRIGGER, new_name, relation, name=name)
