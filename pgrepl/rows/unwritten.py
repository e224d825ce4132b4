"""Changes that are done one by one and not written yet, and the keys that they have entered: those of one statement, or
of all statements of a WITH list and of the one that it belongs to.

They are written when another statement, inside a trigger or a function, wants to read or write their tables
(Session.settle), or at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgrepl.rows.changes import ModifiedRow
from pgrepl.rows.materialize import Materialize
from pgrepl.rows.unique import UniqueChecks, UniqueIndex
from pgrepl.rows.write import next_snapshot, write_changes

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.ctid import RowPlace

_Late = tuple[int, UniqueIndex, tuple[Any, ...]]
_MOST = 1 << 40  # changes of one statement


class Unwritten:
    """A change is named by the number of its statement and its own: a holder of keys (`UniqueChecks`)."""

    def __init__(self, session: Session) -> None:
        self.unique: dict[int, UniqueChecks] = {}  # by table
        self.written: list[int] = []  # for each statement, how many of its changes are written
        self.changed: set[tuple[int, RowPlace]] = set()  # stored rows that have been changed
        self.source = Materialize(())  # the changes that a statement has yet to do
        self.begun = session.touches  # rows that were touched before count as they are now
        self._session = session
        self._changes: list[tuple[int, int, ModifiedRow]] = []  # their statements, names, and the changes
        self._tables: set[int] = set()
        self._late: list[_Late] = []  # keys to check again, of changes that are written

    def new_statement(self) -> int:
        self.written.append(0)
        return len(self.written) - 1

    @staticmethod
    def name(statement: int, number: int) -> int:
        return statement * _MOST + number

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let other statements that run meanwhile see the changes."""
        session = self._session
        session.unsettled.append(self)
        try:
            yield
        finally:
            session.unsettled.remove(self)
            if not session.unsettled:
                session.touched.clear()

    def add(self, statement: int, number: int, change: ModifiedRow) -> None:
        """Note a change that is done."""
        self._changes.append((statement, self.name(statement, number), change))
        self._tables.update((change.table, change.to or change.table))
        if change.place is not None:
            self.changed.add((change.table, change.place))

    def enter(self, change: ModifiedRow, name: int) -> None:
        """Enter the keys of the new row, where the keys of its table are known, and remove those of the old one."""
        _enter(self.unique, change, name)

    def enter_again(self, unique: UniqueChecks) -> None:
        """Enter the keys of changes that were done before the keys of their table were looked up."""
        table = unique.relation.oid
        for _, name, change in self._changes:
            if table in (change.table, change.to):
                _enter({table: unique}, change, name)

    def late(self, statement: int) -> Iterator[_Late]:
        """The keys of a statement's changes to check again: number of the change, index, values."""
        for name, index, values in [*self._late, *(each for unique in self.unique.values() for each in unique.late)]:
            if name // _MOST == statement:
                yield name % _MOST, index, values

    def settle(self, tables: Collection[int] | None, *, writes: bool) -> None:
        """Write the changes, if they are of these tables (Session.settle)."""
        if writes:
            self.source.read()
        if not self._changes or (tables is not None and self._tables.isdisjoint(tables)):
            return
        changes, self._changes = self._changes, []
        self._tables.clear()
        self._late += [each for unique in self.unique.values() for each in unique.late]
        self.unique.clear()
        for statement, _, _ in changes:
            self.written[statement] += 1
        write_changes(self._session, [change for _, _, change in changes])
        next_snapshot(self._session)


def _enter(tables: Mapping[int, UniqueChecks], change: ModifiedRow, name: int) -> None:
    stays = change.new is not None and change.table == change.to
    if not stays and change.place is not None and change.table in tables:
        tables[change.table].leave(change.place)
    if change.new is not None and change.to in tables:
        replaced, old = (change.place, change.old) if stays else (None, None)
        tables[change.to].enter(change.new, name, replaces=replaced, old=old)
