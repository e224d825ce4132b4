"""The checks of the rows that a statement writes, in PostgreSQL's order.

A statement makes a `RowChecks` for the relation it names and hands its changes over; the changes returned are ready to
be written:

    checks = prepare(session, relation, ModifyKind.UPDATE, modified=frozenset({2}))
    changes = checks.local(changes)      # routes, computes generated columns; NOT NULL, CHECK, bounds, unique keys
    write_changes(session, changes)      # one lake.write.Write for each table
    fire_triggers(session, checks, changes)  # foreign keys on both sides, CASCADE and its like

For each row, in the order of the rows: routing to a partition, generated columns, NOT NULL, CHECK, the partition's
bound, unique indexes (ExecInsert, ExecUpdate, ExecConstraints). Foreign keys come after the last row, as the triggers
that they are in PostgreSQL.

Rows are tuples by attribute number: column n of a table stands at n - 1, dropped columns hold None. A stored generated
column need not be filled in: `local` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr.rowfilter import check_replica_identity
from pgrepl.interrupts import check_for_interrupts
from pgrepl.memory import OUT_OF_MEMORY
from pgrepl.rows.changes import ConflictAction, ModifiedRow, ModifyKind, Row
from pgrepl.rows.checks_table import TableChecks
from pgrepl.rows.foreign_events import Recheck
from pgrepl.rows.foreign_modes import fires
from pgrepl.rows.locking import lock_conflicting, lock_keys, lock_new_keys, wait_for_changes
from pgrepl.rows.routing import Router, converter
from pgrepl.rows.unique import UniqueChecks


class RowChecks:
    """The checks of the rows of one statement on one relation."""

    def __init__(self, session: Session, named: Relation, kind: ModifyKind, modified: frozenset[int]) -> None:
        self.relation = named
        self.kind = kind
        self.modified = modified
        self.failed: int | None = None  # after an error of `local`: the number of the row it is about, from 0
        self._session = session
        self._router: Router | None = None
        self._tables: dict[tuple[int, bool], TableChecks] = {}
        self._unique: dict[int, UniqueChecks] = {}
        self._updates = False  # ON CONFLICT DO UPDATE
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
            self.modified |= conflict.modified
            self._updates = conflict.update is not None
        prepared: list[ModifiedRow] = []
        failure: PgError | None = None
        try:
            for change in changes:
                prepared.append(self._prepared(change))
        except PgError as error:
            check_for_interrupts()
            if error.sqlstate == OUT_OF_MEMORY:  # checking the keys of the collected rows would take as much again
                raise
            failure = error
        stopped = len(prepared)
        if failure is not None and entered is not None:
            del prepared[entered(stopped) :]
        done = self._enter(prepared, conflict)
        if failure is not None:
            self.failed = stopped
            raise failure
        self.failed = None
        return done

    def rechecks(self) -> dict[int, list[Recheck]]:
        """The keys of deferrable unique constraints to check again after the write, by the positions of the changes
        that `local` returned."""
        found: dict[int, list[Recheck]] = {}
        for each in self._unique.values() if fires(self._session) else ():
            for number, index, values in each.late:
                found.setdefault(self._numbers[number], []).append(Recheck(index, values))
        return found

    def named(self, change: ModifiedRow) -> Row:
        """For RETURNING: the new row (of a DELETE the old one) in the layout of the relation that the statement
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
        found = self._tables.get((rel.oid, partly))
        if found is None:
            changed = self._changed(rel) if partly else None
            found = TableChecks(self._session, rel, self.relation, self.modified, changed)
            self._tables[rel.oid, partly] = found
        return found

    def _changed(self, rel: Relation) -> frozenset[int] | None:
        """The modified columns by the numbers of another table, with the generated columns."""
        if not self.modified:
            return None
        names = {a.name for a in self.relation.columns if a.num in self.modified}
        return frozenset(a.num for a in rel.columns if a.name in names or a.generated)

    def _prepared(self, change: ModifiedRow) -> ModifiedRow:
        if change.new is None:
            return change
        if change.old is None:
            return self._inserted(change, change.new)
        return self._updated(change, change.new)

    def _inserted(self, change: ModifiedRow, row: Row) -> ModifiedRow:
        named = self.relation
        if named.kind != "p":
            checks = self._table(named)
            row = checks.complete(row)
            checks.constraints(row)
            checks.bound(row)
            return replace(change, new=row, to=named.oid)
        leaf, row = self._routed(row)
        if self._updates and leaf.oid not in self._updatable:  # as ExecInitPartitionInfo
            check_replica_identity(self._session, leaf, "UPDATE")
            self._updatable.add(leaf.oid)
        checks = self._table(leaf)
        row = checks.complete(row)
        checks.constraints(row)
        return replace(change, new=row, to=leaf.oid)

    def _routed(self, row: Row) -> tuple[Relation, Row]:
        if self.relation.is_partition:
            self._table(self.relation).bound(row)
        if self._router is None:
            self._router = Router(self._session, self.relation)
        return self._router.route(row)

    def _updated(self, change: ModifiedRow, row: Row) -> ModifiedRow:
        rel = relation(self._session, change.table)
        checks = self._table(rel, partly=True)
        row = checks.complete(row)
        if not checks.in_bound(row):
            if rel.oid == self.relation.oid:
                raise checks.out_of_bound(checks.shown(row))
            leaf, row = self._routed(converter(rel, self.relation)(row))
            checks = self._table(leaf)
            row = checks.complete(row)
            rel = leaf
        checks.constraints(row)
        return replace(change, new=row, to=rel.oid)

    # --- unique keys --------------------------------------------------------------------------------------------------

    def _enter(self, prepared: Sequence[ModifiedRow], conflict: ConflictAction | None) -> list[ModifiedRow]:
        rows: dict[int, list[Row]] = {}
        whole: set[int] = set()  # tables that get rows, not only new versions: all their keys are new
        for change in prepared:
            if change.new is not None:
                rows.setdefault(change.to, []).append(change.new)
                if change.table != change.to or change.old is None:
                    whole.add(change.to)
        locking = self._session.transaction.locks_rows
        while True:
            if locking:
                lock_keys(self._session, prepared, None if conflict is None else conflict.arbiters)
            for table, new in rows.items():
                rel = relation(self._session, table)
                unique = UniqueChecks(self._session, rel, None if table in whole else self._changed(rel))
                unique.load(new, [] if conflict is None else [a.num for a in rel.columns])
                self._unique[table] = unique
            if not locking or not self._have_changed(rows, conflict):
                break
        done: dict[int, ModifiedRow] = {}
        for number, change in enumerate(prepared):
            self.failed = number
            if change.new is None:
                done[number] = change
            elif conflict is not None and change.old is None:
                resolved = self._resolve_conflict(change, change.new, number, conflict)
                if resolved is not None:
                    done[number] = resolved
            else:
                stays = change.table == change.to
                self._unique[change.to].enter(
                    change.new,
                    number,
                    replaces=change.place if stays else None,
                    old=change.old if stays else None,
                )
                done[number] = change
        self._numbers = {number: position for position, number in enumerate(done)}
        return list(done.values())

    def _have_changed(self, tables: Iterable[int], conflict: ConflictAction | None) -> bool:
        """Whether other transactions have changed rows that have the keys of new ones, while this statement waited for
        them or locked them for DO UPDATE."""
        for table in tables:
            places = self._unique[table].places
            if wait_for_changes(self._session, table, places):
                return True
            if conflict is not None and conflict.update is not None and lock_conflicting(self._session, table, places):
                return True
        return False

    def _resolve_conflict(
        self, change: ModifiedRow, row: Row, number: int, conflict: ConflictAction
    ) -> ModifiedRow | None:
        """Insert the row, update the row that has its key, or do nothing (ExecOnConflictUpdate)."""
        unique = self._unique[change.to]
        found = unique.conflict(row, conflict.arbiters)
        if found is None:
            unique.enter(row, number)
            return change
        if found.holder in unique.unseen:  # ExecCheckTupleVisible
            raise PgError("40001", "could not serialize access due to concurrent update")
        if conflict.update is None:
            return None
        if isinstance(found.holder, int):
            raise PgError(
                "21000",
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
                hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained "
                "values.",
            )
        rel, old = unique.relation, found.row
        new = conflict.update(rel, old, row)
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
        updated = ModifiedRow(rel.oid, found.holder, old, new, rel.oid)
        if self._session.transaction.locks_rows:
            lock_new_keys(self._session, updated)
        unique.load([new], [a.num for a in rel.columns])
        unique.enter(new, number, replaces=found.holder, old=old)
        return updated


def prepare(
    session: Session, relation: Relation, kind: ModifyKind, modified: frozenset[int] = frozenset()
) -> RowChecks:
    """`modified` are the columns the statement gives values to: error messages show a role without SELECT only
    these."""
    return RowChecks(session, relation, kind, modified)


__all__ = ["ConflictAction", "ModifiedRow", "ModifyKind", "Row", "RowChecks", "prepare"]
