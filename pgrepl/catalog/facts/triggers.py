"""Triggers as they stand in the catalog (pg_trigger).

The triggers that carry out foreign keys and deferrable unique constraints have no rows of their own: they follow from
pg_constraint, and their OIDs from the constraint's. A row is stored for one of them when ALTER TABLE has disabled it,
or enabled it for replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_class, pg_constraint, pg_trigger
from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession

# pg_trigger.tgtype
ROW, BEFORE, INSERT, DELETE, UPDATE, TRUNCATE, INSTEAD = 1, 2, 4, 8, 16, 32, 64

_CONSTRAINT_TRIGGERS = 1 << 31  # OIDs from here on: of the triggers of constraints
_CHECK_INSERT, _CHECK_UPDATE, _ACT_DELETE, _ACT_UPDATE = range(4)  # their order in PostgreSQL is that of their OIDs
_CHECKS = {_CHECK_INSERT: (ROW | INSERT, 1644), _CHECK_UPDATE: (ROW | UPDATE, 1645)}
_ACTIONS = {  # by confdeltype or confupdtype: the functions for DELETE and UPDATE
    "c": (1646, 1647), "r": (1648, 1649), "n": (1650, 1651), "d": (1652, 1653), "a": (1654, 1655),
}  # fmt: skip
_UNIQUE_KEY_RECHECK = 1250


@frozen
class Trigger:
    """A row of pg_trigger."""

    oid: int
    relid: int
    name: str
    function: int
    type: int
    enabled: str = "O"  # O: as origin; D: not; R: as replica; A: always
    is_internal: bool = False
    parent: int = 0  # the trigger of the partitioned table that it is a copy of
    referenced: int = 0  # the table after FROM of a constraint trigger, or the other one of a foreign key
    index: int = 0
    constraint: int = 0
    deferrable: bool = False
    initially_deferred: bool = False
    columns: tuple[int, ...] = ()  # of UPDATE OF
    args: tuple[str, ...] = ()
    when: object = None  # as stored (expr/stored.py)
    old_table: str | None = None
    new_table: str | None = None

    @property
    def is_row(self) -> bool:
        return bool(self.type & ROW)


def _made(row: pg_trigger) -> Trigger:
    return Trigger(
        oid=row.oid,
        relid=row.tgrelid,
        name=row.tgname,
        function=row.tgfoid,
        type=row.tgtype,
        enabled=row.tgenabled,
        is_internal=bool(row.tgisinternal),
        parent=row.tgparentid,
        referenced=row.tgconstrrelid,
        index=row.tgconstrindid,
        constraint=row.tgconstraint,
        deferrable=bool(row.tgdeferrable),
        initially_deferred=bool(row.tginitdeferred),
        columns=tuple(row.tgattr),
        args=tuple(row.tgargs),
        when=row.tgqual,
        old_table=row.tgoldtable,
        new_table=row.tgnewtable,
    )


def values(trigger: Trigger) -> dict[str, object]:
    """The columns of pg_trigger."""
    return {
        "oid": trigger.oid, "tgrelid": trigger.relid, "tgparentid": trigger.parent, "tgname": trigger.name,
        "tgfoid": trigger.function, "tgtype": trigger.type, "tgenabled": trigger.enabled,
        "tgisinternal": trigger.is_internal, "tgconstrrelid": trigger.referenced, "tgconstrindid": trigger.index,
        "tgconstraint": trigger.constraint, "tgdeferrable": trigger.deferrable,
        "tginitdeferred": trigger.initially_deferred, "tgattr": list(trigger.columns), "tgargs": list(trigger.args),
        "tgqual": trigger.when, "tgoldtable": trigger.old_table, "tgnewtable": trigger.new_table,
    }  # fmt: skip


def _in_order(triggers: list[Trigger]) -> list[Trigger]:
    """The triggers in the order in which they fire: by name."""
    return sorted(triggers, key=lambda trigger: trigger.name.encode())


# --- of CREATE TRIGGER ------------------------------------------------------------------------------------------------


def triggers_of(session: CatalogSession, relid: int) -> list[Trigger]:
    """The triggers of a relation that CREATE TRIGGER has made, in the order in which they fire."""
    return _in_order([_made(row) for row in store.rows(session, pg_trigger, tgrelid=relid) if not row.tgisinternal])


def trigger_named(session: CatalogSession, relid: int, name: str) -> Trigger | None:
    row = store.one(session, pg_trigger, tgrelid=relid, tgname=name)
    if row is not None:
        return _made(row)
    return next((trigger for trigger in constraint_triggers(session, relid) if trigger.name == name), None)


def trigger_by_oid(session: CatalogSession, oid: int) -> Trigger | None:
    row = store.one(session, pg_trigger, oid=oid)
    if row is not None:
        return _made(row)
    if oid < _CONSTRAINT_TRIGGERS:
        return None
    constraint = store.one(session, pg_constraint, oid=(oid - _CONSTRAINT_TRIGGERS) // 4)
    triggers = () if constraint is None else _of_constraint(session, constraint)
    return next((trigger for trigger in triggers if trigger.oid == oid), None)


def copies_of(session: CatalogSession, oid: int) -> list[Trigger]:
    """The triggers of partitions that were made as copies of a trigger."""
    if oid >= _CONSTRAINT_TRIGGERS:
        below = store.rows(session, pg_constraint, conparentid=(oid - _CONSTRAINT_TRIGGERS) // 4)
        return [trigger for row in below for trigger in _of_constraint(session, row) if trigger.parent == oid]
    return [_made(row) for row in store.rows(session, pg_trigger, tgparentid=oid)]


# --- of constraints ---------------------------------------------------------------------------------------------------


def constraint_triggers(session: CatalogSession, relid: int) -> list[Trigger]:
    """The triggers that carry out a relation's constraints, in the order in which they fire."""
    own = store.rows(session, pg_constraint, conrelid=relid)
    constraints = {row.oid: row for row in [*own, *store.rows(session, pg_constraint, confrelid=relid, contype="f")]}
    return _in_order(
        [trigger for row in constraints.values() for trigger in _of_constraint(session, row) if trigger.relid == relid]
    )


def all_triggers(session: CatalogSession) -> Iterator[Trigger]:
    here = {row.oid for row in store.rows(session, pg_class, datid=session.database_oid)}
    for row in store.rows(session, pg_trigger):
        if row.tgrelid in here and not row.tgisinternal:
            yield _made(row)
    for constraint in store.rows(session, pg_constraint, datid=session.database_oid):
        yield from _of_constraint(session, constraint)


def triggered(session: CatalogSession) -> frozenset[int]:
    """The relations of this database that have triggers, kept until a definition changes."""
    key = ("triggered", session.database_oid)
    known: frozenset[int] | None = session.derived.get(key)
    if known is None:
        known = session.derived[key] = frozenset([trigger.relid for trigger in all_triggers(session)])
    return known


def _of_constraint(session: CatalogSession, row: pg_constraint) -> Iterator[Trigger]:
    triggers = _of_foreign_key(session, row) if row.contype == "f" else _of_unique(row)
    for trigger in triggers:
        stored = store.one(session, pg_trigger, oid=trigger.oid)
        yield trigger if stored is None else replace(trigger, enabled=stored.tgenabled)


def _of_unique(row: pg_constraint) -> Iterator[Trigger]:
    if row.contype not in "pu" or not row.condeferrable:
        return
    oid = _CONSTRAINT_TRIGGERS + 4 * row.oid
    yield Trigger(
        oid,
        row.conrelid,
        f"{'PK' if row.contype == 'p' else 'Unique'}_ConstraintTrigger_{oid}",
        _UNIQUE_KEY_RECHECK,
        ROW | INSERT | UPDATE,
        is_internal=True,
        index=row.conindid,
        constraint=row.oid,
        deferrable=True,
        initially_deferred=bool(row.condeferred),
    )


def _of_foreign_key(session: CatalogSession, row: pg_constraint) -> Iterator[Trigger]:
    """The triggers of a foreign key: on the referencing table, on the referenced one, or on both. The keys of and to
    partitions have one side."""
    if not row.conenforced:
        return
    parent = store.one(session, pg_constraint, oid=row.conparentid) if row.conparentid else None
    if parent is None or parent.conrelid == row.conrelid:
        delete, _ = _ACTIONS[row.confdeltype]
        _, update = _ACTIONS[row.confupdtype]
        for number, kind, function, action in (
            (_ACT_DELETE, ROW | DELETE, delete, row.confdeltype),
            (_ACT_UPDATE, ROW | UPDATE, update, row.confupdtype),
        ):
            yield _of_key(
                row,
                number,
                row.confrelid,
                row.conrelid,
                kind,
                function,
                deferrable=action == "a" and bool(row.condeferrable),
                deferred=bool(row.condeferred),
            )
    if parent is None or parent.conrelid != row.conrelid:
        for number, (kind, function) in _CHECKS.items():
            yield _of_key(
                row,
                number,
                row.conrelid,
                row.confrelid,
                kind,
                function,
                deferrable=bool(row.condeferrable),
                deferred=bool(row.condeferred),
            )


def _of_key(
    row: pg_constraint,
    number: int,
    relid: int,
    other: int,
    kind: int,
    function: int,
    *,
    deferrable: bool,
    deferred: bool,
) -> Trigger:
    oid = _CONSTRAINT_TRIGGERS + 4 * row.oid + number
    side = "c" if number in _CHECKS else "a"
    return Trigger(
        oid,
        relid,
        f"RI_ConstraintTrigger_{side}_{oid}",
        function,
        kind,
        is_internal=True,
        parent=_CONSTRAINT_TRIGGERS + 4 * row.conparentid + number if row.conparentid else 0,
        referenced=other,
        index=row.conindid,
        constraint=row.oid,
        deferrable=deferrable,
        initially_deferred=deferrable and deferred,
    )


# --- whether they fire ------------------------------------------------------------------------------------------------


def set_enabled(session: CatalogSession, trigger: Trigger, enabled: str) -> None:
    """Store when a trigger fires (pg_trigger.tgenabled)."""
    if store.one(session, pg_trigger, oid=trigger.oid) is not None:
        store.update(session, pg_trigger, {"oid": trigger.oid}, tgenabled=enabled)
    elif enabled != trigger.enabled:
        store.insert(session, pg_trigger, **values(replace(trigger, enabled=enabled)))


def is_enabled(trigger: Trigger, role: str) -> bool:
    """Whether it fires with this session_replication_role (TriggerEnabled)."""
    return _fires(trigger.enabled, role)


def _fires(enabled: str, role: str) -> bool:
    return enabled == "A" or enabled == ("R" if role == "replica" else "O")


def fires_key_check(session: CatalogSession, constraint: int, event: int) -> bool:
    """Whether the trigger of a foreign key on the referencing table fires for INSERT or UPDATE."""
    return _is_enabled(session, constraint, _CHECK_INSERT if event == INSERT else _CHECK_UPDATE)


def fires_key_action(session: CatalogSession, constraint: int, event: int) -> bool:
    """Whether the trigger of a foreign key on the referenced table fires for DELETE or UPDATE."""
    return _is_enabled(session, constraint, _ACT_DELETE if event == DELETE else _ACT_UPDATE)


def fires_recheck(session: CatalogSession, constraint: int) -> bool:
    """Whether the trigger of a deferrable unique constraint fires."""
    return _is_enabled(session, constraint, 0)


def _is_enabled(session: CatalogSession, constraint: int, number: int) -> bool:
    stored = store.one(session, pg_trigger, oid=_CONSTRAINT_TRIGGERS + 4 * constraint + number)
    return _fires("O" if stored is None else stored.tgenabled, session.settings.get("session_replication_role"))
