"""The records of a batch decided by columns, block by block, and their messages in files.

The rules are those of single records and of publisher/plan.py; what columns cannot decide exactly so is
Declined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.replication.formats.event import BadRecord, ChangeEvent, EventBlock, RecordPlace, TableEvents
from pgrepl.replication.publisher.files.cursor import TakesRejects
from pgrepl.replication.publisher.files.declared import Declarations, DeclaredTable, NotSendable, in_column, undeclared
from pgrepl.replication.publisher.files.transactions import NumberedBlock
from pgrepl.replication.publisher.plan import SendPlan, by_columns, describe, differing, passing, sent_of
from pgrepl.replication.wire import messages as operations
from pgrepl.replication.wire.batch import CODES, DELETE, INSERT, UPDATE, is_equal_as_kept
from pgrepl.replication.wire.message_files import Decoded, MessageFile, MessageWriter
from pgrepl.replication.wire.messages import TRUNCATE, SentRelation
from pgrepl.types import oids
from pgrepl.types.input_checks import nul
from pgrepl.types.lake.arrays import storage_type
from pgrepl.types.lake.column_values import values_of
from pgrepl.types.lake.forms import form
from pgrepl.types.names import asks_catalog

if TYPE_CHECKING:
    from pgrepl.types.lake.arrays import Form


Numbers = npt.NDArray[Any]


class TableColumns:
    """One declared table, for records as columns. Once it is made it asks no session: kernels have it, too."""

    def __init__(self, declared: Declarations, table: DeclaredTable, session: Any) -> None:
        self.plan = plan = table.plan
        if table.leaves is not None:
            raise Declined("a partitioned table whose partitions are published")
        self.table = table.relation
        self._ignores_undeclared = declared.ignores_undeclared
        self._style = declared.style
        self._refused: dict[str, PgError] = {}  # by operation, why it cannot be sent
        self.omits_nulls = plan is not None and plan.identity.whole and declared.omits_nulls
        if plan is None:
            return
        self.relation = describe(plan)
        self._tests = by_columns(session, plan)
        if self._tests.keys() != plan.filters.keys():
            raise Declined("a row filter that is not evaluated by columns")
        keys = [plan.table.attributes[n - 1] for n in plan.identity.columns]
        if not all(is_equal_as_kept(key.type, key.typmod) or key.type == oids.BPCHAR for key in keys):
            raise Declined("a key of a type that is not compared by columns")
        self._sent = [plan.from_attnums[column.num - 1] for column in plan.columns]
        self._codes = [CODES[operation] for operation in plan.operations if operation in CODES]
        for name in plan.operations & {operations.UPDATE, operations.DELETE}:
            try:
                declared.check_sendable(plan, name)
            except NotSendable as problem:
                self._refused[name] = problem.error

    @property
    def is_portable(self) -> bool:
        """Whether the columns' values are read without the catalog, as tasks of Spark do."""
        return not any(asks_catalog(column.type) for column in self.table.columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_style": replace(self._style, lookup=None)}

    def decoded(self, events: TableEvents) -> tuple[Numbers, Decoded] | None:
        """The places of the messages among the events, and the messages. None: there are none. PgError: a value or a
        record is wrong."""
        plan = self.plan
        if not self._ignores_undeclared:
            for name in {*events.new, *events.old}:
                if self.table.attribute(name) is None and _is_sent(events, name):
                    raise undeclared(self.table, name)
        if plan is None:
            return None
        op: Numbers = np.where(np.isin(events.op, self._codes), events.op, 0).astype(np.uint8)
        for name, problem in self._refused.items():
            if (op == CODES[name]).any():
                raise NotSendable(problem)
        rows = _Rows(self, events, plan, op, self._style)
        known, before, after = rows.decide(self._tests)
        sent = sent_of(op, known, before, after)
        places = np.flatnonzero(sent)
        if not len(places):
            return None
        return places, rows.messages(places, sent, known, self._sent)


def _is_sent(events: TableEvents, name: str) -> bool:
    """Whether one of the records has the column."""
    if name in events.new:
        lack = events.unsent.get(name)
        has_new = events.op != DELETE
        if (has_new if lack is None else has_new & ~lack).any():
            return True
    return name in events.old and events.old[name].null_count < len(events.op)


class _Rows:
    """Typed columns of the records of one block."""

    def __init__(self, table: TableColumns, events: TableEvents, plan: SendPlan, op: Numbers, style: Any) -> None:

        self._events = events
        self._plan = plan
        self._op = op
        self._style = style
        self._relation = table.relation
        self._omits_nulls = table.omits_nulls
        self._new: dict[int, pa.Array] = {}
        self._old: dict[int, pa.Array] = {}
        self._count = len(op)
        if (op == DELETE).any() and not events.has_old[op == DELETE].all():
            raise PgError("22000", "a delete without the key of its row")
        if plan.identity.whole and not events.has_old[op == UPDATE].all():
            raise Declined("updates without their old rows")

    def decide(self, tests: Mapping[str, Any]) -> tuple[Numbers, Numbers | bool, Numbers | bool]:
        """For each record: is its old row known, and do the old and the new row pass the row filters?"""
        op, plan = self._op, self._plan
        known = plan.identity.have_image(op == DELETE, op == UPDATE, self._key_has_changed)
        if not tests:
            return known, True, True
        before = passing(plan, tests, op, known, self._form, partial(self._pick, self.old), new=False)
        after = passing(plan, tests, op, op != DELETE, self._form, partial(self._pick, self.new), new=True)
        return known, before, after

    @staticmethod
    def _pick(column: Callable[[int], pa.Array], number: int, at: Numbers) -> pa.Array:
        return column(number).take(pa.array(at))

    def _form(self, number: int) -> Form:
        attribute = self._plan.table.attributes[number - 1]
        return form(attribute.type, attribute.typmod)

    def _key_has_changed(self, updated: Numbers) -> Numbers:
        changed = np.zeros(self._count, np.bool_)
        at = np.flatnonzero(updated & self._events.has_old)
        if len(at):
            chosen = pa.array(at)
            keys = sorted(self._plan.identity.columns)
            olds = [self.old(n).take(chosen) for n in keys]
            news = [self.new(n).take(chosen) for n in keys]
            changed[at] = differing(olds, news, len(at))
        return changed

    # --- values -------------------------------------------------------------------------------------------------------

    def _typed(self, texts: pa.Array | None, number: int) -> pa.Array:
        attribute = self._plan.table.attributes[number - 1]
        if texts is None:
            return pa.nulls(self._count, _storage(attribute.type, attribute.typmod))
        try:
            values = values_of(texts, attribute.type, attribute.typmod, self._style)
            if pa.types.is_string(values.type) and pc.any(pc.match_substring(texts, "\0")).as_py():
                raise nul()  # other types refuse it themselves
            return values
        except PgError as error:
            raise in_column(error, attribute.name) from None

    def new(self, number: int) -> pa.Array:
        values = self._new.get(number)
        if values is None:
            name = self._plan.table.attributes[number - 1].name
            values = self._typed(self._events.new.get(name), number)
            unsent = self.unsent(number)
            if self._plan.identity.covers(number) and unsent is not None and unsent.any():
                raise Declined("a key that is not sent with a new row")
            self._new[number] = values
        return values

    def unsent(self, number: int) -> Numbers | None:
        """A mask of the updates without the column's new value; None: all have it."""
        name = self._plan.table.attributes[number - 1].name
        updates: Numbers = self._op == UPDATE
        if name not in self._events.new:
            return updates
        flags = self._events.unsent.get(name)
        return None if flags is None else flags & updates

    def old(self, number: int) -> pa.Array:
        """The old value; where the record does not tell it, the new one: it has not changed."""
        values = self._old.get(number)
        if values is None:
            name = self._plan.table.attributes[number - 1].name
            texts = self._events.old.get(name)
            if texts is None and (self._op == DELETE).any() and not self._omits_nulls:
                raise PgError("22000", f'column "{name}" of the replica identity is missing')
            values = self._typed(texts, number)
            if not self._plan.identity.whole:
                if pc.any(pc.and_(pc.is_null(values), pa.array(self._op == DELETE))).as_py():
                    raise PgError("22000", f'column "{name}" of the replica identity is missing')
                if values.null_count:
                    values = pc.coalesce(values, self.new(number))
            elif texts is None and not self._omits_nulls:
                raise Declined("old rows without some column")
            self._old[number] = values
        return values

    def messages(self, places: Numbers, sent: Numbers, known: Numbers, numbers: list[int]) -> Decoded:
        op = sent[places]
        has_old = (op == DELETE) | ((op == UPDATE) & known[places])
        newly = places[op != DELETE]
        new_at, old_at = pa.array(newly), pa.array(places[has_old])
        entered = places[(op == INSERT) & (self._op[places] == UPDATE)]
        new, unchanged = [], {}
        for place, number in enumerate(numbers):
            column = self._relation.columns[place]
            if not number:
                new.append(pa.nulls(len(newly), _storage(column.type, column.typmod)))
                continue
            new.append(self.new(number).take(new_at))
            unsent = self.unsent(number)
            if unsent is None:
                continue
            if unsent[entered].any() or (self._plan.identity.whole and unsent.any()):
                raise Declined("rows that enter a row filter without all values")
            flags = unsent[newly] & (sent[newly] == UPDATE)
            if flags.any():
                unchanged[place] = flags
        keys = [place for place, column in enumerate(self._relation.columns) if column.is_key]
        old = {place: self.old(numbers[place]).take(old_at) for place in keys if numbers[place]} if len(old_at) else {}
        if not len(old_at):
            old = {place: new[place].slice(0, 0) for place in keys}
        return Decoded(op, has_old, new, old, unchanged)


def _storage(typoid: int, typmod: int) -> pa.DataType:
    return storage_type(form(typoid, typmod).arrow())


# --- decided ----------------------------------------------------------------------------------------------------------


IN_FILE = 250_000  # messages of a relation


class DecidedMessages:
    """`tables`: what a table's name in the records means; PgError, if there is none; None: it is not known, and its
    records are left out. `path`: the prefix of the names of
    a relation's files."""

    def __init__(
        self,
        tables: Callable[[str | None, str | None], TableColumns | None],
        rejects: TakesRejects,
        path: Callable[[SentRelation], str],
    ) -> None:
        self._tables_of = tables
        self._rejects = rejects
        self._path = path
        self._tables: dict[tuple[str | None, str | None], TableColumns | None] = {}
        self._writers: dict[int, MessageWriter] = {}  # by relid
        self.owners: dict[int, int] = {}  # by relid, the declared table that is sent so
        self.truncations: list[tuple[int, ChangeEvent]] = []  # with their sequence numbers
        self.sends: list[Numbers] = []  # sequence numbers of messages

    def abandon(self) -> None:
        for writer in self._writers.values():
            writer.abandon()

    def close(self) -> Iterator[tuple[SentRelation, tuple[MessageFile, ...]]]:
        for writer in self._writers.values():
            yield writer.relation, writer.close()

    def mask(self, lasts: Numbers, truncated: Iterable[int]) -> Numbers:
        """Which of the transactions with these last sequence numbers have messages; `truncated`: the numbers of
        truncations."""
        sends = np.zeros(len(lasts) + 1, np.bool_)
        for seq in [*self.sends, *[np.array([seq]) for seq in truncated]]:
            sends[np.searchsorted(lasts, seq)] = True
        return sends[:-1]

    def take(self, block: NumberedBlock) -> None:
        item = block.located.item
        if isinstance(item, EventBlock):
            for events in item.tables:
                rows = np.flatnonzero(events.places >= block.skipped)
                if len(rows):
                    self._decide(block, item, events if len(rows) == len(events.places) else _some(events, rows))
        elif item.kind == TRUNCATE:
            self.truncations.append((block.first_seq, item))

    def _decide(self, block: NumberedBlock, item: EventBlock, events: TableEvents) -> None:
        """Decide records at once; a wrong one among them is found by halving, if rejects are written."""
        try:
            self._write(block, events, self._table(events))
        except PgError as error:
            if not self._rejects.are_written:
                raise Declined(error.message) from error
            if len(events.places) > 1:
                half = len(events.places) // 2
                self._decide(block, item, _some(events, np.arange(half)))
                self._decide(block, item, _some(events, np.arange(half, len(events.places))))
                return
            number = int(item.number[events.places[0]]) + block.located.before
            place = RecordPlace(block.located.file.file.shown, number)
            event = _single(events, place)
            self._rejects.take(BadRecord(error.sqlstate, error.message, place), block.located.file.lsn(number), event)

    def _table(self, events: TableEvents) -> TableColumns | None:
        key = events.schema, events.table
        if key not in self._tables:
            table = self._tables_of(*key)
            if table is not None and table.plan is not None:
                check_owner(self.owners, table.relation.relid, table.table.oid)
            self._tables[key] = table
        return self._tables[key]

    def _write(self, block: NumberedBlock, events: TableEvents, table: TableColumns | None) -> None:
        changes = None if table is None else table.decoded(events)
        if table is None or changes is None:
            return
        places, decoded = changes
        seq = block.first_seq + events.places[places].astype(np.int64)
        relid = table.relation.relid
        if relid not in self._writers:
            self._writers[relid] = MessageWriter(table.relation, self._path(table.relation), IN_FILE)
        self._writers[relid].write(seq, decoded)
        self.sends.append(seq)


def check_owner(owners: dict[int, int], relid: int, table: int) -> None:
    """Note which declared table is sent as `relid`; there may be only one."""
    if owners.setdefault(relid, table) != table:
        raise Declined("several tables that are sent as one")


def _some(events: TableEvents, rows: Numbers) -> TableEvents:
    at = pa.array(rows)
    return TableEvents(
        events.schema,
        events.table,
        events.places[rows],
        events.op[rows],
        events.has_old[rows],
        {name: array.take(at) for name, array in events.new.items()},
        {name: array.take(at) for name, array in events.old.items()},
        {name: flags[rows] for name, flags in events.unsent.items()},
    )


def _single(events: TableEvents, place: RecordPlace) -> ChangeEvent:
    """The only one of the events, for a file of rejects."""
    kind = {code: name for name, code in CODES.items()}[int(events.op[0])]
    unsent = {name for name, flags in events.unsent.items() if flags[0]}
    new = {name: array[0].as_py() for name, array in events.new.items() if name not in unsent}
    old = {name: array[0].as_py() for name, array in events.old.items()} if events.has_old[0] else None
    return ChangeEvent(
        kind, events.schema, events.table, None if kind == "delete" else new, old, None, None, None, place
    )
