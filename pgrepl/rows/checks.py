"""The checks of the rows that a statement writes, in PostgreSQL's order.

A statement makes a `RowChecks` for the relation it names and hands its changes over; the changes returned are ready to
be written:

    checks = prepare(session, relation, ModifyKind.UPDATE, modified=frozenset({2}))
    changes = checks.local(changes)      # routes, computes generated columns; NOT NULL, CHECK, bounds, unique keys
    write_changes(session, changes)      # one lake.write.Write for each table
    fire_triggers(session, checks, changes)  # foreign keys on both sides, CASCADE and its like

For each row, in the order of the rows: routing to a partition, BEFORE triggers, generated columns, NOT NULL, CHECK, the
partition's bound, unique indexes (ExecInsert, ExecUpdate, ExecConstraints). Foreign keys come after the last row, as
the triggers that they are in PostgreSQL.

With BEFORE triggers each row is done before the next is looked at; and it is written at once if a trigger's function
reads or writes tables (Session.settle).

Rows are tuples by attribute number: column n of a table stands at n - 1, dropped columns hold None. A stored generated
column need not be filled in: `local` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_of_index, inheritors
from pgrepl.catalog.facts.triggers import BEFORE, ROW, fires_recheck
from pgrepl.catalog.session.session import Session
from pgrepl.expr.row_filter_checks import check_replica_identity
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.ground.memory import OUT_OF_MEMORY
from pgrepl.rows.changes import ConflictAction, ModifiedRow, ModifyKind, Row
from pgrepl.rows.checks_table import Router, TableChecks, converter
from pgrepl.rows.locking import lock_conflicting, lock_keys, lock_new_keys, wait_for_changes
from pgrepl.rows.triggers import (
    RelationTriggers,
    TriggerEvent,
    TriggerLevel,
    TriggerWhen,
    enabled_triggers,
    relation_triggers,
)
from pgrepl.rows.unique import UniqueChecks
from pgrepl.rows.unwritten import Materialize, Recheck, Unwritten

if TYPE_CHECKING:
    from pgrepl.lake.read.data_file import RowPlace


class RowChecks:
    """The checks of the rows of one statement on one relation."""

    def __init__(self, session: Session, named: Relation, kind: ModifyKind, modified: frozenset[int]) -> None:
        self.relation = named
        self.kind = kind
        self.modified = modified
        self.failed: int | None = None  # after an error of `local`: the number of the row it is about, from 0
        self.updates = False  # ON CONFLICT DO UPDATE
        self.events: tuple[TriggerEvent, ...] = ()  # in the order of BEFORE triggers
        if kind is not ModifyKind.MERGE:
            self.events = (TriggerEvent(kind.value),)
        self.begun: set[tuple[int, TriggerEvent]] = set()  # statements whose BEFORE triggers have fired
        self.together = False  # with the other statements of a WITH list, row by row
        self._session = session
        self._router: Router | None = None
        self._tables: dict[tuple[int, bool], TableChecks] = {}
        self._unwritten = Unwritten(session)
        self._statement = self._unwritten.new_statement()
        self._set: frozenset[int] | None = None  # the columns that ON CONFLICT DO UPDATE, or MERGE, sets
        self._merged: set[tuple[int, RowPlace]] = set()  # rows that a MERGE has changed
        self._triggers: dict[int, RelationTriggers | None] = {}
        self._by_row = False  # there are BEFORE triggers
        self._updatable: set[int] = set()  # leaves whose replica identity allows UPDATE
        self._numbers: dict[int, int] = {}  # by number of a change given to `local`: its position in the result
        self._converters: dict[int, Callable[[Row], Row]] = {}

    def local(
        self,
        changes: Iterable[ModifiedRow],
        conflict: ConflictAction | None = None,
        entered: Callable[[int], int] | None = None,
    ) -> list[ModifiedRow]:
        """The changes, ready to be written. Raises the first violation in the order of the rows. An error that
        `changes` itself raises comes after the violations of the rows before it, unless it ends the statement at once.
        COPY inserts rows into unique indexes in batches: `entered` gives, for the number of a failing row, how many
        rows have been inserted by then."""
        if conflict is not None:
            self._note_conflict(conflict)
        if self.has_before_triggers():
            return self._all_one_by_one(changes, conflict, reads_tables=entered is None)
        prepared: list[ModifiedRow] = []
        failure: PgError | None = None
        try:
            for change in changes:
                ready = self._prepared(change)
                assert ready is not None
                prepared.append(ready)
        except PgError as error:
            check_for_interrupts()
            if error.sqlstate == OUT_OF_MEMORY:  # checking the keys of the collected rows would take as much again
                raise
            failure = error
        stopped = len(prepared)
        if failure is not None and entered is not None:
            del prepared[entered(stopped) :]
        done = self._enter(dict(enumerate(prepared)), conflict)
        if failure is not None:
            self.failed = stopped
            raise failure
        self.failed = None
        self._numbers = {number: position for position, number in enumerate(done)}
        return list(done.values())

    def _note_conflict(self, conflict: ConflictAction) -> None:
        self._set = conflict.modified
        self.modified |= conflict.modified
        self.updates = conflict.update is not None

    def merges(self, events: Collection[TriggerEvent], updated: frozenset[int]) -> None:
        """Note what the actions of a MERGE do, and the columns that its UPDATEs set."""
        self.events = tuple(event for event in TriggerEvent if event in events)
        self._set = updated

    def join(self, others: Unwritten, begun: set[tuple[int, TriggerEvent]]) -> None:
        """Run together with the other statements of a WITH list, row by row."""
        self._unwritten, self._statement = others, others.new_statement()
        self.begun = begun
        self.together = True
        self.has_before_triggers()

    def take_written(self, numbers: Iterable[int]) -> None:
        """Note the numbers of changes that have been made already."""
        for number in numbers:
            self._numbers[number] = len(self._numbers)
            self._unwritten.written[self._statement] += 1

    @property
    def written(self) -> int:
        """The number of changes that have been written already, as a trigger's function had to see them."""
        return self._unwritten.written[self._statement]

    @property
    def kept(self) -> list[int]:
        """The numbers of the changes given to `local` that are among those it returned."""
        return list(self._numbers)

    def rechecks(self) -> dict[int, list[Recheck]]:
        """The keys of deferrable unique constraints to check again after the write, by the positions of the changes
        that `local` returned."""
        by_table: dict[int, list[Recheck]] = {}
        for number, index, values in self._unwritten.late(self._statement):
            if fires_recheck(self._session, constraint_of_index(self._session, index.info.oid)):
                by_table.setdefault(self._numbers[number], []).append(Recheck(index, values))
        return by_table

    def set_columns(self, rel: Relation) -> frozenset[int]:
        """The columns that the statement's UPDATE sets, by the numbers of a table of its tree."""
        wanted = self.modified if self._set is None else self._set
        if rel.oid == self.relation.oid:
            return wanted
        names = {a.name for a in self.relation.columns if a.num in wanted}
        return frozenset(a.num for a in rel.columns if a.name in names)

    def named(self, change: ModifiedRow) -> Row:
        """The row for RETURNING: the new one (of a DELETE the old one) in the layout of the relation that the statement
        names."""
        row, table = (change.new, change.to) if change.new is not None else (change.old, change.table)
        assert row is not None
        convert = self._converters.get(table)
        if convert is None:
            convert = self._converters[table] = converter(relation(self._session, table), self.relation)
        return convert(row)

    # --- one row ------------------------------------------------------------------------------------------------------

    def _table(self, rel: Relation, *, partly: bool = False) -> TableChecks:
        """`partly`: the row exists, and only the columns the statement names have changed."""
        checks = self._tables.get((rel.oid, partly))
        if checks is None:
            changed = self._changed(rel) if partly else None
            checks = TableChecks(self._session, rel, self.relation, self.modified, changed)
            self._tables[rel.oid, partly] = checks
        return checks

    def _changed(self, rel: Relation) -> frozenset[int] | None:
        """The modified columns by the numbers of another table, with the generated columns."""
        if not self.modified:
            return None
        names = {a.name for a in self.relation.columns if a.num in self.modified}
        return frozenset(a.num for a in rel.columns if a.name in names or a.generated)

    def _prepared(self, change: ModifiedRow) -> ModifiedRow | None:
        """The change as BEFORE triggers leave it; None: one leaves the row out."""
        if change.new is None:
            triggers = self._triggers_of(relation(self._session, change.table))
            if triggers is not None:
                self._check_once(change)
                if triggers.before(TriggerEvent.DELETE, change.old, None) is None:
                    return None
            self._note_merged(change)
            return change
        if change.old is None:
            return self._inserted(change, change.new)
        return self._updated(change, change.new)

    def _inserted(self, change: ModifiedRow, row: Row) -> ModifiedRow | None:
        named = self.relation
        if named.kind != "p":
            given = self._before_insert(named, row)
            if given is None:
                return None
            checks = self._table(named)
            row = checks.complete(given)
            checks.constraints(row)
            checks.bound(row)
            return replace(change, new=row, to=named.oid)
        leaf, row = self._routed(row)
        if self.updates and leaf.oid not in self._updatable:  # as ExecInitPartitionInfo
            check_replica_identity(self._session, leaf, "UPDATE")
            self._updatable.add(leaf.oid)
        arrived = self._arrived(leaf, row)
        return None if arrived is None else replace(change, new=arrived, to=leaf.oid)

    def _arrived(self, leaf: Relation, row: Row) -> Row | None:
        """The row as its partition gets it; None: a BEFORE trigger leaves it out."""
        given = self._before_insert(leaf, row)
        if given is None:
            return None
        checks = self._table(leaf)
        row = checks.complete(given)
        checks.constraints(row)
        if self._triggers_of(leaf) is not None:
            checks.bound(row)
        return row

    def _before_insert(self, rel: Relation, row: Row) -> Row | None:
        triggers = self._triggers_of(rel)
        return row if triggers is None else triggers.before(TriggerEvent.INSERT, None, row)

    def _routed(self, row: Row) -> tuple[Relation, Row]:
        if self.relation.is_partition:
            self._table(self.relation).bound(row)
        if self._router is None:
            self._router = Router(self._session, self.relation)
        return self._router.route(row)

    def _updated(self, change: ModifiedRow, row: Row) -> ModifiedRow | None:
        rel = relation(self._session, change.table)
        triggers = self._triggers_of(rel)
        if triggers is not None:
            self._check_once(change)
            given = triggers.before(TriggerEvent.UPDATE, change.old, row, self.set_columns(rel))
            if given is None:
                return None
            row = given
        checks = self._table(rel, partly=triggers is None)
        row = checks.complete(row)
        if checks.in_bound(row):
            checks.constraints(row)
            self._note_merged(change)
            return replace(change, new=row, to=rel.oid)
        if rel.oid == self.relation.oid:
            raise checks.out_of_bound(row)
        return self._moved(change, rel, row)

    def _moved(self, change: ModifiedRow, rel: Relation, row: Row) -> ModifiedRow | None:
        """The row goes to another partition: it is deleted and inserted (ExecCrossPartitionUpdate)."""
        self._note_merged(change)
        triggers = self._triggers_of(rel)
        if triggers is not None and triggers.before(TriggerEvent.DELETE, change.old, None) is None:
            return None
        leaf, row = self._routed(converter(rel, self.relation)(row))
        arrived = self._arrived(leaf, row)
        return replace(change, new=None) if arrived is None else replace(change, new=arrived, to=leaf.oid)

    def _check_once(self, change: ModifiedRow) -> None:
        """As ExecMergeMatched does when it meets a row that the statement has changed."""
        if change.place is not None and (change.table, change.place) in self._merged:
            raise affected_twice()

    def _note_merged(self, change: ModifiedRow) -> None:
        if self.kind is ModifyKind.MERGE and change.place is not None:
            self._check_once(change)
            self._merged.add((change.table, change.place))

    # --- unique keys --------------------------------------------------------------------------------------------------

    def _enter(
        self, prepared: Mapping[int, ModifiedRow], conflict: ConflictAction | None, *, one_by_one: bool = False
    ) -> dict[int, ModifiedRow]:
        """Enter the keys of changes, by their numbers. `one_by_one`: other changes may have been done that are not
        written yet."""
        work = self._unwritten
        rows: dict[int, list[Row]] = {}
        whole: set[int] = set()  # tables that get rows, not only new versions: all their keys are new
        for change in prepared.values():
            if change.new is not None:
                rows.setdefault(change.to, []).append(change.new)
                if change.table != change.to or change.old is None:
                    whole.add(change.to)
        locking = self._session.transaction.locks_rows
        while True:
            if locking:
                lock_keys(self._session, list(prepared.values()), None if conflict is None else conflict.arbiters)
            for table, new in rows.items():
                rel = relation(self._session, table)
                unique = work.unique.get(table) if one_by_one else None
                if unique is None:
                    changed = None if table in whole or one_by_one else self._changed(rel)
                    unique = work.unique[table] = UniqueChecks(self._session, rel, changed)
                    work.enter_again(unique)
                unique.load(new, [] if conflict is None else [a.num for a in rel.kept])
            if not locking or not self._have_changed(rows, conflict):
                break
            work.unique.clear()
        done: dict[int, ModifiedRow] = {}
        for number, change in prepared.items():
            self.failed = number
            if change.new is not None and conflict is not None and change.old is None:
                resolved = self._resolve_conflict(change, change.new, number, conflict)
                if resolved is not None:
                    done[number] = resolved
                continue
            work.enter(change, work.name(self._statement, number))
            done[number] = change
        return done

    def _have_changed(self, tables: Iterable[int], conflict: ConflictAction | None) -> bool:
        """Whether other transactions have changed rows that have the keys of new ones, while this statement waited for
        them or locked them for DO UPDATE."""
        for table in tables:
            places = self._unwritten.unique[table].places
            if wait_for_changes(self._session, table, places):
                return True
            if conflict is not None and conflict.update is not None and lock_conflicting(self._session, table, places):
                return True
        return False

    def _resolve_conflict(
        self, change: ModifiedRow, row: Row, number: int, conflict: ConflictAction
    ) -> ModifiedRow | None:
        """Insert the row, update the row that has its key, or do nothing (ExecOnConflictUpdate)."""
        unique = self._unwritten.unique[change.to]
        name = self._unwritten.name(self._statement, number)
        rival = unique.conflict(row, conflict.arbiters)
        if rival is None:
            unique.enter(row, name)
            return change
        if rival.holder in unique.unseen:  # ExecCheckTupleVisible
            raise PgError("40001", "could not serialize access due to concurrent update")
        if conflict.update is None:
            return None
        if isinstance(rival.holder, int) or self._is_touched(change.to, rival.holder):
            raise PgError(
                "21000",
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
                hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained "
                "values.",
            )
        rel, old = unique.relation, rival.row
        new = conflict.update(rel, old, row)
        if new is None:
            return None
        triggers = self._triggers_of(rel)
        if triggers is not None:
            new = triggers.before(TriggerEvent.UPDATE, old, new, self.set_columns(rel))
            if new is None:
                return None
        checks = self._table(rel)
        new = checks.complete(new)
        if not checks.in_bound(new):
            raise PgError(
                "0A000",
                "invalid ON UPDATE specification",
                detail="The result tuple would appear in a different partition than the original tuple.",
            )
        checks.constraints(new)
        updated = ModifiedRow(rel.oid, rival.holder, old, new, rel.oid)
        if self._session.transaction.locks_rows:
            lock_new_keys(self._session, updated)
        unique.load([new], [a.num for a in rel.kept])
        unique.enter(new, name, replaces=rival.holder, old=old)
        return updated

    # --- BEFORE triggers ----------------------------------------------------------------------------------------------

    def _triggers_of(self, rel: Relation) -> RelationTriggers | None:
        """The triggers of a table, if any of them is a BEFORE trigger of rows."""
        if not self._by_row:
            return None
        if rel.oid not in self._triggers:
            triggers = relation_triggers(self._session, rel)
            of_rows = triggers is not None and any(
                triggers.of(TriggerWhen.BEFORE, TriggerLevel.ROW, event) for event in TriggerEvent
            )
            self._triggers[rel.oid] = triggers if of_rows else None
        return self._triggers[rel.oid]

    def has_before_triggers(self) -> bool:
        """Whether BEFORE triggers fire for rows of these tables."""
        relids = inheritors(self._session, self.relation.oid)
        wanted = BEFORE | ROW
        self._by_row = any(
            trigger.type & wanted == wanted for relid in relids for trigger in enabled_triggers(self._session, relid)
        )
        return self._by_row

    def one_by_one(
        self, changes: Iterable[ModifiedRow], conflict: ConflictAction | None = None
    ) -> Iterator[tuple[int, ModifiedRow]]:
        """The changes with their numbers, each done before the next is looked at."""
        if conflict is not None:
            self._note_conflict(conflict)
        for number, change in enumerate(changes):
            self.failed = number
            if self.together and not self._is_first(change):
                continue
            self._check_stands(change, "updated")
            prepared = self._prepared(change)
            if prepared is None:
                continue
            self._check_stands(change, "deleted" if change.new is None else "updated")
            for entered, done in self._enter({number: prepared}, conflict, one_by_one=True).items():
                self._unwritten.add(self._statement, entered, done)
                self._numbers[entered] = len(self._numbers)
                yield entered, done
        self.failed = None

    def _all_one_by_one(
        self, changes: Iterable[ModifiedRow], conflict: ConflictAction | None, *, reads_tables: bool
    ) -> list[ModifiedRow]:
        """`reads_tables`: the changes come from tables that functions of triggers may change."""
        source = Materialize(changes)
        if reads_tables:
            self._unwritten.source = source
        with self._unwritten.running():
            return [change for _, change in self.one_by_one(source, conflict)]

    def _is_first(self, change: ModifiedRow) -> bool:
        """A row that two statements of a WITH list change is changed by the first."""
        if change.place is None or (change.table, change.place) not in self._unwritten.changed:
            return True
        if self.kind is ModifyKind.MERGE:
            raise affected_twice()
        return False

    def _check_stands(self, change: ModifiedRow, done: str) -> None:
        """A function that a trigger has called may have changed the row."""
        if change.place is not None and self._is_touched(change.table, change.place):
            raise modified_by_trigger(done)

    def _is_touched(self, table: int, place: RowPlace) -> bool:
        """Whether a row has been changed or inserted since the statement began, and written meanwhile."""
        return self._session.touched.get((table, place.row), 0) > self._unwritten.begun


def affected_twice() -> PgError:
    return PgError(
        "21000",
        "MERGE command cannot affect row a second time",
        hint="Ensure that not more than one source row matches any one target row.",
    )


def modified_by_trigger(done: str) -> PgError:
    return PgError(
        "27000",
        f"tuple to be {done} was already modified by an operation triggered by the current command",
        hint="Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
    )


def prepare(
    session: Session, relation: Relation, kind: ModifyKind, modified: frozenset[int] = frozenset()
) -> RowChecks:
    """`modified` are the columns the statement gives values to: error messages show a role without SELECT only
    these."""
    return RowChecks(session, relation, kind, modified)
