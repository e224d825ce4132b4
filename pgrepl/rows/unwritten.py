"""Changes done one by one and not written yet, the events they queue, and rows that are read as needed or before what
they are read from changes.

They are written when another statement, inside a trigger or a function, wants to read or write their tables
(Session.settle), or at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.rows.changes import ModifiedRow, Row, next_snapshot, write_changes
from pgrepl.rows.foreign.key import NO_ACTION, RESTRICT, ForeignKey
from pgrepl.rows.triggers import TriggerCall
from pgrepl.rows.unique import UniqueChecks, UniqueIndex

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import RowPlace


class Materialize:
    """An iterator that stores the rest of its rows when what it reads is about to change (ExecMaterial)."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self._read: deque[Any] = deque()
        self._error: PgError | None = None
        self._reading = False

    def __iter__(self) -> Materialize:
        return self

    def __next__(self) -> Any:
        if self._read:
            return self._read.popleft()
        if self._error is not None:
            raise self._error
        self._reading = True
        try:
            return next(self._items)
        finally:
            self._reading = False

    def settle(self, tables: Collection[int] | None, *, writes: bool) -> None:
        if writes:
            self.read()

    def read(self) -> None:
        """Read the rest; its error is raised behind the last item. A function that the iterator itself has called
        leaves it as it is."""
        if self._reading or self._error is not None:
            return
        self._reading = True
        try:
            self._read.extend(self._items)
        except PgError as error:
            self._error = error
        finally:
            self._reading = False


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
        for name, index, values in [*self._late, *(key for unique in self.unique.values() for key in unique.late)]:
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
        self._late += [key for unique in self.unique.values() for key in unique.late]
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


# --- foreign events ---------------------------------------------------------------------------------------------------


class EventKind(Enum):
    CHECK = "check"  # a row of the referencing table was inserted, or its key updated
    UPDATE = "update"  # a key of the referenced table was updated
    DELETE = "delete"  # a row of the referenced table was deleted


@frozen
class Event:
    """The event of one row for one foreign key. `row` is in the layout of `table`: of a CHECK the new row in its own
    table, else the old row as the referenced table of the key has it, with its new version in `new`."""

    key: ForeignKey
    kind: EventKind
    table: int
    row: Row
    new: Row | None = None

    @property
    def action(self) -> str:
        """The action on the referencing rows; empty for a CHECK."""
        if self.kind is EventKind.CHECK:
            return ""
        return self.key.on_update if self.kind is EventKind.UPDATE else self.key.on_delete

    @property
    def acts(self) -> bool:
        return self.action not in ("", NO_ACTION, RESTRICT)

    @property
    def name(self) -> bytes:
        """The trigger's name, which decides about the order."""
        side = "c" if self.kind is EventKind.CHECK else "a"
        return f"RI_ConstraintTrigger_{side}_{self.key.oid}".encode()

    @property
    def can_wait(self) -> bool:
        return self.kind is EventKind.CHECK or self.action == NO_ACTION


@frozen
class Recheck:
    """A key of a deferrable constraint that another row had when the row was written."""

    index: UniqueIndex
    values: tuple[Any, ...]

    @property
    def table(self) -> int:
        return self.index.relation.oid

    @property
    def name(self) -> bytes:
        return f"{'PK' if self.index.info.primary else 'Unique'}_ConstraintTrigger_{self.index.info.oid}".encode()


Fired = Event | Recheck | TriggerCall
