"""The triggers that fire after a statement has written its rows: those of foreign keys and of CREATE TRIGGER.

A row that is inserted, or whose key is updated, must reference an existing key; a key that is deleted or updated must
not be referenced. CASCADE, SET NULL and SET DEFAULT change the referencing rows, and those changes queue events of
their own. Events of one constraint are checked together; the error is that of the first of them in the order of the
rows.

Where CREATE TRIGGER has made triggers, all events are fired one by one, in PostgreSQL's order: by rows, and for one row
by the names of the triggers.

INITIALLY DEFERRED constraints wait for the commit, except for their actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_of_index, partition_ancestors
from pgrepl.catalog.facts.triggers import DELETE, INSERT, UPDATE, fires_key_action, fires_key_check
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_constraint, pg_index, pg_trigger
from pgrepl.expr.functions.containers import contains
from pgrepl.ground.errors import PgError
from pgrepl.lake.read.data_file import was_own_version
from pgrepl.lake.table import lake_table
from pgrepl.rows.changes import ModifiedRow, Row
from pgrepl.rows.checks_table import converter
from pgrepl.rows.foreign import lookup
from pgrepl.rows.foreign.actions import act, is_deferred, modes, note_fired
from pgrepl.rows.foreign.key import (
    RESTRICT,
    SET_DEFAULT,
    ForeignKey,
    key_values,
    keys_of,
    keys_to,
    mixed_nulls,
    not_present,
    still_referenced,
)
from pgrepl.rows.trigger_events import TriggerEvents, calls_of_row
from pgrepl.rows.triggers import RelationTriggers, TriggerCall, TriggerEvent
from pgrepl.rows.unwritten import Event, EventKind, Fired, Recheck
from pgrepl.types.values import same_image

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import RowPlace
    from pgrepl.rows.checks import RowChecks


_FEW = 64  # events that are fired one by one where their order could matter


def fire_triggers(session: Session, checks: RowChecks, changes: Sequence[ModifiedRow]) -> None:
    """Fire the triggers for the written changes of a statement. The changes of CASCADE and its like, and those of
    functions that triggers call, are further snapshots."""
    fire_all(session, [WrittenChanges(checks, changes)])


@dataclass(frozen=True)
class WrittenChanges:
    """Changes that a statement has written, one behind the other. `end`: they are the last ones."""

    checks: RowChecks
    changes: Sequence[ModifiedRow]
    first: int = 0  # the position of the first of them among the statement's changes
    end: bool = True


def fire_all(session: Session, parts: Sequence[WrittenChanges]) -> None:
    """The same for the statements of one WITH list."""
    queue = Queue(session)
    late: dict[int, dict[int, list[Recheck]]] = {}
    for part in parts:
        queue.calls.begun |= part.checks.begun
        if id(part.checks) not in late:
            late[id(part.checks)] = part.checks.rechecks()
        queue.add(part, late[id(part.checks)])
    queue.run()


def fire_of_row(
    session: Session, table: Relation, triggers: RelationTriggers, change: ModifiedRow, columns: frozenset[int] | None
) -> None:
    """Fire the AFTER triggers of a replicated row: those of CREATE TRIGGER, and of foreign keys where they are enabled
    for replicas. `columns`: that an UPDATE sets."""
    queue = Queue(session)
    queue.add_keys(table, change)
    if queue.events:
        session.settle()
    queue.events += calls_of_row(triggers, change, columns)
    if queue.events:
        queue.run()


def truncate_tables(session: Session, tables: Sequence[Relation], remove: Callable[[], None]) -> None:
    """Remove all rows of tables, between their BEFORE and AFTER triggers (ExecuteTruncateGuts)."""
    queue = Queue(session)
    for table in tables:
        queue.calls.begin(table, TriggerEvent.TRUNCATE)
    remove()
    for table in tables:
        queue.events += queue.calls.at_end(table, TriggerEvent.TRUNCATE)
    queue.run()


class Deferred:
    """Events that wait for the commit."""

    def __init__(self, session: Session, events: Sequence[Fired]) -> None:
        self.session = session
        self.events = events

    def __call__(self) -> None:
        queue = Queue(self.session, at_commit=True)
        queue.events += [event for event in self.waiting if _exists(self.session, event)]
        queue.run()

    @property
    def waiting(self) -> list[Fired]:
        """The events that SET CONSTRAINTS has not fired yet."""
        fired = modes(self.session).fired
        return [event for event in self.events if id(event) not in fired]


def pending(session: Session, table: int) -> bool:
    """Whether a row of the table has an event that waits for the commit."""
    return any(event.table == table for event in _waiting(session))


def _waiting(session: Session) -> list[Fired]:
    deferred = [callback for callback in session.transaction.before_commit if isinstance(callback, Deferred)]
    return [event for checks in deferred for event in checks.waiting]


def _exists(session: Session, event: Fired) -> bool:
    """Whether the event's constraint still exists."""
    if isinstance(event, TriggerCall):
        return store.one(session, pg_trigger, oid=event.firing.trigger.oid) is not None
    if isinstance(event, Recheck):
        return store.one(session, pg_index, indexrelid=event.index.info.oid) is not None
    return store.one(session, pg_constraint, oid=event.key.oid) is not None


def fire_deferred(session: Session) -> None:
    """SET CONSTRAINTS … IMMEDIATE: fire the waiting events of constraints that are immediate now."""
    events = [event for event in _waiting(session) if _exists(session, event) and not waits(session, event)]
    queue = Queue(session)
    queue.events += events
    queue.run()
    if events:
        note_fired(session, frozenset(map(id, events)))


def waits(session: Session, event: Fired) -> bool:
    """Whether an event waits for the commit."""
    if isinstance(event, TriggerCall):
        trigger = event.firing.trigger
        return trigger.deferrable and is_deferred(session, trigger.constraint)
    if isinstance(event, Recheck):
        return is_deferred(session, constraint_of_index(session, event.index.info.oid))
    return event.can_wait and event.key.deferrable and is_deferred(session, event.key.oid)


class Queue:
    """The queue of events of one statement, or of a commit."""

    def __init__(self, session: Session, *, at_commit: bool = False) -> None:
        self.session = session
        self.events: list[Fired] = []
        self._at_commit = at_commit
        self._replaced: set[int] = set()  # calls (by id) at the end of statements, which later ones make instead
        self._to: Callable[[int], list[ForeignKey]] = cache(partial(keys_to, session))
        self._of: Callable[[int], list[ForeignKey]] = cache(partial(keys_of, session))

    @cached_property
    def calls(self) -> TriggerEvents:
        return TriggerEvents(self.session)

    @cached_property
    def _unchecked(self) -> set[tuple[int, Row]]:
        """Foreign keys, by OID, and values whose checks wait for the commit."""
        waiting = [event for event in _waiting(self.session) if isinstance(event, Event)]
        return {(e.key.oid, key_values(e.row, e.key.columns)) for e in waiting if e.kind is EventKind.CHECK}

    # --- what is to be fired ------------------------------------------------------------------------------------------

    def add(self, part: WrittenChanges, late: Mapping[int, Sequence[Recheck]]) -> None:
        """Add the events of changes that a statement has written, row by row; for one row in the order of the triggers'
        names: PK_…, RI_…_a_…, RI_…_c_…, Unique_…. `late`: keys to check again, by the positions of the changes."""
        checks, changes = part.checks, part.changes
        named = checks.relation
        calls_of = self.calls.of_rows(checks, changes)
        for position, change in enumerate(changes, part.first):
            first = len(self.events)
            again = late.get(position, ()) if late else ()
            self.events += [recheck for recheck in again if recheck.index.info.primary]
            self.add_keys(named, change)
            self.events += [recheck for recheck in again if not recheck.index.info.primary]
            calls = calls_of(change) if calls_of is not None else ()
            if calls:
                self.events[first:] = sorted([*self.events[first:], *calls], key=lambda event: event.name)
        if part.end:
            ended, replaced = self.calls.of_statement(checks)
            self.events += ended
            self._replaced.update(map(id, replaced))

    def add_keys(self, named: Relation, change: ModifiedRow) -> None:
        """Add the events of a row for foreign keys."""
        if change.old is not None:
            self._add_old_row(named, change, change.old)
        if change.new is not None:
            self._add_new_row(change, change.new)

    def _add_old_row(self, named: Relation, change: ModifiedRow, old: Row) -> None:
        table, new = change.table, change.new
        kind = EventKind.DELETE if new is None else EventKind.UPDATE
        if new is not None and change.to != change.table:
            for key in self._to(table):  # a key to nothing but this partition
                if (
                    not key.derived
                    and self._acts(key, EventKind.DELETE)
                    and None not in key_values(old, key.referenced_columns)
                ):
                    self.events.append(Event(key, EventKind.DELETE, table, old))
            old, new = self._moved(named, change, old, new)
            table = named.oid
        for key in self._to(table):
            before = key_values(old, key.referenced_columns)
            if None in before or not self._acts(key, kind):
                continue
            if new is not None and all(map(same_image, before, key_values(new, key.referenced_columns))):
                continue
            self.events.append(Event(key, kind, table, old, new))

    def _acts(self, key: ForeignKey, kind: EventKind) -> bool:
        return fires_key_action(self.session, key.oid, DELETE if kind is EventKind.DELETE else UPDATE)

    def _moved(self, named: Relation, change: ModifiedRow, old: Row, new: Row) -> tuple[Row, Row]:
        """The old and new row of a move to another partition, in the root's layout: for a key to the root it is an
        UPDATE. A key to a partitioned table between them is refused (ExecCrossPartitionUpdateForeignKey)."""
        for ancestor in partition_ancestors(self.session, change.table):
            if ancestor == named.oid:
                break
            self._refuse_key_to(ancestor, named)
        source, target = relation(self.session, change.table), relation(self.session, change.to)
        return converter(source, named)(old), converter(target, named)(new)

    def _refuse_key_to(self, table: int, named: Relation) -> None:
        if all(key.derived for key in self._to(table)):
            return
        name = relation(self.session, table).name
        raise PgError(
            "0A000",
            "cannot move tuple across partitions when a non-root ancestor of the source partition is directly "
            "referenced in a foreign key",
            detail=f'A foreign key points to ancestor "{name}" but not the root ancestor "{named.name}".',
            hint=f'Consider defining the foreign key on table "{named.name}".',
        )

    def _add_new_row(self, change: ModifiedRow, new: Row) -> None:
        for key in self._of(change.to):
            values = key_values(new, key.columns)
            if not key.concerns(values):
                continue
            stays = change.old is not None and change.to == change.table
            if not fires_key_check(self.session, key.oid, UPDATE if stays else INSERT):
                continue
            if stays and None not in values and self._still_references(key, change, values):
                continue
            self.events.append(Event(key, EventKind.CHECK, change.to, new))

    def _still_references(self, key: ForeignKey, change: ModifiedRow, values: Row) -> bool:
        """Whether an updated row needs no check, as it references what its old version did
        (RI_FKey_fk_upd_check_required). A period may have shrunk, if the old version has been checked and is not of
        this transaction."""
        assert change.old is not None
        before = key_values(change.old, key.columns)
        if values == before or not key.period:
            return values == before
        if values[:-1] != before[:-1] or before[-1] is None or not contains(before[-1], values[-1]):
            return False
        is_new = change.place is None or self._is_own(change.table, change.place)
        return not is_new and (key.oid, before) not in self._unchecked

    def _is_own(self, table: int, place: RowPlace) -> bool:
        """Was the row of this transaction where the statement found it?"""
        table_in_lake, numbering = lake_table(self.session, table), self.session.transaction.numbering
        if was_own_version(self.session, table_in_lake.table_id, place):
            return True
        first = numbering.first_snapshot
        if first is None or not self.session.transaction.is_writing:
            return False  # with the write lock each statement is written at its end
        from pgrepl.lake.read.local import is_begun_between

        return is_begun_between(self.session, table_in_lake, place, first, numbering.snapshot() - 1)

    # --- firing -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self._put_off()
        while self.events:
            batch, self.events = self.events, []
            self._fire_all(batch)
            self._put_off()

    def _put_off(self) -> None:
        """Leave the events of deferred constraints to the commit."""
        if self._at_commit:
            return
        waiting = {id(event) for event in self.events if waits(self.session, event)}
        if waiting:
            put_off = [event for event in self.events if id(event) in waiting]
            self.events = [event for event in self.events if id(event) not in waiting]
            self.session.transaction.before_commit.append(Deferred(self.session, put_off))

    def _fire_all(self, batch: Sequence[Fired]) -> None:
        """Fire event by event while there are few, if one event's action could be seen by another; else constraint by
        constraint."""
        if any(isinstance(event, TriggerCall) for event in batch):
            for event in batch:
                if not isinstance(event, TriggerCall):
                    self._fire([event])
                elif id(event) not in self._replaced:
                    event.make(self.session)
            return
        groups: dict[tuple[int, EventKind | None], list[Fired]] = {}
        for event in batch:
            groups.setdefault(_group(event), []).append(event)
        acting = any(isinstance(event, Event) and event.acts for event in batch)
        if acting and len(groups) > 1 and len(batch) <= _FEW:
            for event in batch:
                self._fire([event])
        elif acting:
            for events in groups.values():
                self._fire(events)
        else:
            self._raise_first(batch, list(groups.values()))

    def _fire(self, group: Sequence[Fired]) -> None:
        """Fire events of one constraint and kind."""
        events = [event for event in group if isinstance(event, Event) and event.acts]
        if not events:
            self._raise_first(group, [group])
            return
        checks, changes = act(self.session, events, self.calls)
        self.add(WrittenChanges(checks, changes), checks.rechecks())
        if events[0].action == SET_DEFAULT:  # the default may be the removed key itself
            violation = self._still_referenced(events, restrict=False)
            if violation is not None:
                raise violation[1]

    def _raise_first(self, batch: Sequence[Fired], groups: Sequence[Sequence[Fired]]) -> None:
        """Check all events, and raise the error of the first that has one."""
        position = {id(event): number for number, event in enumerate(batch)}
        failures = [failure for group in groups if (failure := self._failure(group)) is not None]
        if failures:
            raise min(failures, key=lambda failed: position[id(failed[0])])[1]

    def _failure(self, group: Sequence[Fired]) -> tuple[Fired, PgError] | None:
        """The first event of a group that fails."""
        for again in group:
            if isinstance(again, Recheck) and again.index.is_twice(again.values):
                return again, again.index.duplicate(again.values)
        events = [event for event in group if isinstance(event, Event)]
        if not events:
            return None
        if events[0].kind is EventKind.CHECK:
            return self._missing(events)
        return self._still_referenced(events, restrict=events[0].action == RESTRICT)

    def _missing(self, events: Sequence[Event]) -> tuple[Event, PgError] | None:
        """The first row whose key does not exist (RI_FKey_check)."""
        session, key = self.session, events[0].key
        values = [key_values(event.row, key.columns) for event in events]
        whole = [value for value in dict.fromkeys(values) if None not in value]
        if session.transaction.locks_rows:
            lookup.lock_referenced(session, key, whole)
        there = lookup.present(session, key, whole)
        existing = {value for number, value in enumerate(whole) if number in there}
        gone: set[Any] | None = None
        for event, value in zip(events, values, strict=True):
            if value in existing:
                continue
            if None in value:
                return event, mixed_nulls(key, relation(session, event.table))
            if gone is None:  # a row that has changed again is not checked
                missing = [one for one in whole if one not in existing]
                alive = lookup.has_rows(session, key, missing)
                gone = {one for number, one in enumerate(missing) if number not in alive}
            if value not in gone:
                return event, not_present(session, key, relation(session, event.table), event.row)
        return None

    def _still_referenced(self, events: Sequence[Event], *, restrict: bool) -> tuple[Event, PgError] | None:
        """The first deleted or updated key that is still referenced (ri_restrict)."""
        session, key = self.session, events[0].key
        values = [key_values(event.row, key.referenced_columns) for event in events]
        if session.transaction.locks_rows:  # the keys are locked: transactions that reference them have committed
            session.beside.wait_for_writers()
            session.transaction.refresh()
        while used := lookup.references(session, key, values, restrict=restrict):
            first = min(used)
            if session.transaction.locks_rows and lookup.lock_referencing(session, key, used[first]):
                continue
            return events[first], still_referenced(session, key, events[first].row, restrict=restrict)
        return None


def _group(event: Fired) -> tuple[int, EventKind | None]:
    assert not isinstance(event, TriggerCall)
    return (event.index.info.oid, None) if isinstance(event, Recheck) else (event.key.oid, event.kind)
