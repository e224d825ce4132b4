"""The contract of the formats: a change as a record of a file tells it, one by one or in blocks.

A reader yields ChangeEvents in the file's order; values are text for the column's input function. A record that
cannot be read raises BadRecord from `next()`; the caller may go on behind it. Where a format tells of transactions
the reader yields BEGIN and COMMIT; else events have an `xid` or nothing, and the caller decides.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias, TypeVar

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.ground.threads import ThreadPool, parallelism
from pgrepl.replication.wire import batch
from pgrepl.replication.wire.messages import DELETE, INSERT, UPDATE
from pgrepl.types import oids
from pgrepl.types.text import read_text
from pgrepl.types.times.dates import UNIX_EPOCH_USECS

if TYPE_CHECKING:
    import numpy.typing as npt


BEGIN, COMMIT = "begin", "commit"  # the markers: they have no table and no row
ROWS = (INSERT, UPDATE, DELETE)

# the type and typmod of a table's columns by name, of domains those of the base types; None: no such table. Readers
# ask for values that their format encodes by the column's type without naming it.
ColumnTypes: TypeAlias = "Callable[[str | None, str | None], Mapping[str, tuple[int, int]] | None]"


@frozen
class RecordPlace:
    """The file and number of a record, for errors."""

    file: str
    number: int  # the line, or the number of the row or message, from 1

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@frozen
class ChangeEvent:
    """One change, or the begin or end of a transaction.

    `kind` is an operation as replication/wire/messages.py names it, BEGIN or COMMIT. INSERT has `new`,
    DELETE has `old` (None: the record does not tell the row), UPDATE has `new` and, if the record has it, `old`.
    TRUNCATE has a table only; a record that truncates several tables gives one event for each of them.
    """

    kind: str
    schema: str | None  # None: the record names none
    table: str | None
    new: Mapping[str, str | None] | None  # by column name; a name that is missing was not sent: it is unchanged
    old: Mapping[str, str | None] | None  # the old key or the old row
    xid: str | None
    lsn: int | None  # the position that the record itself has; of BEGIN and COMMIT: of the commit
    at: int | None  # the commit time in microseconds since 1970-01-01 UTC, if it is known
    place: RecordPlace
    snapshot: bool = False  # an INSERT that is a row of an initial copy, not a change


class BadRecord(PgError):
    """A record that cannot be read. The reader goes on behind it, if it is asked for more."""

    def __init__(self, sqlstate: str, reason: str, place: RecordPlace, *, record: bytes | None = None) -> None:
        super().__init__(sqlstate, f"could not read {place.file}, record {place.number}: {reason}")
        self.reason = reason
        self.place = place
        self.record = record  # the record as it stands in the file, for a file of rejects; None: it is no text


class Unfit(Exception):
    """A record that cannot be read; the text is the reason."""


def unix_time(text: str) -> int:
    """The microseconds since 1970 of a timestamp; PgError."""
    return int(read_text(text, oids.TIMESTAMPTZ)) - UNIX_EPOCH_USECS


def told_time(text: Any) -> int | None:
    """The same of a text that a record has; None: it has none. Unfit: it is no timestamp."""
    try:
        return unix_time(text) if isinstance(text, str) else None
    except PgError as problem:
        raise Unfit(problem.message) from None


@frozen
class TableEvents:
    """The events of one table in a block, as columns; all of them INSERT, UPDATE or DELETE."""

    schema: str | None
    table: str | None
    places: npt.NDArray[np.int64]  # of these events in the block, ascending
    op: npt.NDArray[np.uint8]  # replication/wire/batch.py's INSERT, UPDATE, DELETE
    has_old: npt.NDArray[np.bool_]  # whether an event has an old key or an old row; a DELETE without one has none
    new: Mapping[str, pa.Array]  # strings, one for each event; NULL for a DELETE
    old: Mapping[str, pa.Array]  # strings, one for each event; NULL where there is no old row
    unsent: Mapping[str, npt.NDArray[np.bool_]]  # by column: events with a new row that lack the value
    unsent_old: Mapping[str, npt.NDArray[np.bool_]] | None = None  # the same for old rows; None: all have all columns


@frozen
class EventBlock:
    """Events that follow one another in a file, as columns. `number` has the record of each event."""

    file: str
    count: int
    number: npt.NDArray[np.int64]
    tables: tuple[TableEvents, ...]
    xid: pa.Array | None  # strings; None: no event has one
    lsn: npt.NDArray[np.int64] | None  # -1: the record has none
    at: npt.NDArray[np.int64] | None  # microseconds since 1970; NO_TIME: the record has none
    snapshot: npt.NDArray[np.bool_] | None = None  # rows of an initial copy; None: there are none


NO_TIME = -(1 << 63)


Item = TypeVar("Item")
Made = TypeVar("Made")


class Found(Iterator[Item]):
    """What a file has, in its order. `next()` raises BadRecord for a record that cannot be read, and may be called
    again."""

    def __init__(self, items: Iterator[Item | BadRecord]) -> None:
        self._items = items

    def __next__(self) -> Item:
        item = next(self._items)
        if isinstance(item, BadRecord):
            raise item
        return item


Events: TypeAlias = Found[ChangeEvent]  # one by one
Blocks: TypeAlias = "Found[EventBlock | ChangeEvent]"  # as blocks where they can be columns, and one by one


class Reader(Protocol):
    """Reads files of one format. `name` is the file's, for errors and for formats that take the table from it."""

    def read(self, file: BinaryIO, name: str) -> Events: ...

    def blocks(self, file: BinaryIO, name: str) -> Blocks:
        """The events by columns, as far as that is possible; faster for large files."""

    def is_divisible(self, start: bytes) -> bool:
        """Whether a file that begins so has records that are lines, so that it may be read in parts."""

    def some_lines(self, file: BinaryIO, name: str) -> Blocks:
        """The events of some lines of a divisible file, numbered from 1."""


# --- blocks -----------------------------------------------------------------------------------------------------------


_KINDS = {batch.INSERT: INSERT, batch.UPDATE: UPDATE, batch.DELETE: DELETE}


def one_by_one(items: Iterator[EventBlock | ChangeEvent | BadRecord]) -> Iterator[ChangeEvent | BadRecord]:
    for item in items:
        if isinstance(item, EventBlock):
            yield from events_in(item)
        else:
            yield item


def events_in(block: EventBlock) -> Iterator[ChangeEvent]:
    xid = [None] * block.count if block.xid is None else block.xid.to_pylist()
    lsn = [-1] * block.count if block.lsn is None else block.lsn.tolist()
    at = [NO_TIME] * block.count if block.at is None else block.at.tolist()
    snapshot = [False] * block.count if block.snapshot is None else block.snapshot.tolist()
    rows: list[Any] = [None] * block.count
    for table in block.tables:
        for place, row in zip(table.places.tolist(), _rows(table), strict=True):
            rows[place] = row
    for place, number in enumerate(block.number.tolist()):
        schema, name, kind, new, old = rows[place]
        yield ChangeEvent(
            kind, schema, name, new, old, xid[place], lsn[place] if lsn[place] >= 0 else None,
            at[place] if at[place] != NO_TIME else None, RecordPlace(block.file, number), snapshot[place],
        )  # fmt: skip


def _rows(table: TableEvents) -> Iterator[tuple[Any, ...]]:
    new = {name: array.to_pylist() for name, array in table.new.items()}
    old = {name: array.to_pylist() for name, array in table.old.items()}
    unsent = {name: flags.tolist() for name, flags in table.unsent.items()}
    unsent_old = {name: flags.tolist() for name, flags in (table.unsent_old or {}).items()}
    has_old = table.has_old.tolist()
    for at, code in enumerate(table.op.tolist()):
        kind = _KINDS[code]
        row = before = None
        if kind != DELETE:
            row = {name: values[at] for name, values in new.items() if not (name in unsent and unsent[name][at])}
        if has_old[at]:
            before = {
                name: values[at] for name, values in old.items() if not (name in unsent_old and unsent_old[name][at])
            }
        yield table.schema, table.table, kind, row, before


# --- parallel ---------------------------------------------------------------------------------------------------------


def first_then_ahead(function: Callable[[Item], Made], items: Iterator[Item]) -> Iterator[Made]:
    """The results of `function` for each item, in their order: for the first here, for the others in threads, which are
    ahead by one item for each core. numpy and Arrow do the work, without Python's lock. What fails in `items` is raised
    after all that came before."""
    for item in items:
        yield function(item)
        break
    ahead: deque[Future[Made]] = deque()
    problem: Exception | None = None
    with ThreadPool(parallelism(), "pgrepl-decode") as threads:
        try:
            while True:
                try:
                    ahead.append(threads.submit(function, next(items)))
                except StopIteration:
                    break
                except Exception as error:
                    problem = error
                    break
                if len(ahead) > parallelism():
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
    if problem is not None:
        raise problem


class UnknownTable(Exception):
    """The error in another thread than the session's, which alone may ask for the table's types."""


class KnownTypes:
    """The types of tables' columns: the thread that made this asks for them, all threads have the answers."""

    def __init__(self, types: ColumnTypes) -> None:
        self._types = types
        self._known: dict[tuple[str | None, str | None], Mapping[str, tuple[int, int]] | None] = {}
        self._owner = threading.get_ident()

    def __call__(self, schema: str | None, table: str | None) -> Mapping[str, tuple[int, int]] | None:
        key = (schema, table)
        if key not in self._known:
            if threading.get_ident() != self._owner:
                raise UnknownTable
            self._known[key] = self._types(schema, table)
        return self._known[key]
