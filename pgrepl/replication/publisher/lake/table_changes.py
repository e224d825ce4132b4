"""The messages of one table's changes as whole columns: the rules of publisher/plan.py for many at once.

Row filters are computed by Arrow; what it cannot, by Spark SQL where it is worth a job, else row by row. The kernel
for a range of row ids writes messages to a file.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark
from pgrepl.engine.changes_frame import ALL, LEFT_OUT, ChangedRows, ChangesFrame, RowIds
from pgrepl.engine.choice import changes_held, choose_job
from pgrepl.engine.result_spark import column_names
from pgrepl.engine.scan_spark import arrow_frame, storage_array
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.walk import var_attnums
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.storage import uuid7
from pgrepl.replication.publisher.plan import SendPlan, are_columnar, by_columns, describe, differing, passing, sent_of
from pgrepl.replication.wire import messages as operations
from pgrepl.replication.wire.batch import AT, CODES, DELETE, UPDATE, Kept, is_equal_as_kept
from pgrepl.replication.wire.message_files import Decoded, MessageFile, MessageWriter, most_held
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form, is_row_type

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.part import PartWatch
    from pgrepl.replication.wire.messages import SentRelation

    Numbers = npt.NDArray[Any]

RANK_BITS = 36  # of a sequence number: the order of the changes of one snapshot


class TableChanges:
    """The changes of one table, and the plan by which they are sent."""

    def __init__(
        self,
        session: Session,
        plan: SendPlan,
        chosen: Sequence[int],
        first: int,
        last: int,
        orders: Mapping[int, Mapping[int, int]],
    ) -> None:
        """`chosen` are the snapshots whose changes of the table are sent, `first` the one at which sequence numbers
        begin. `orders`: as for ChangesFrame."""
        self.session: Session | None = session  # None: in a kernel
        self.plan = plan
        described = describe(plan)
        self.chosen = list(chosen)
        self.first = first
        self.orders = orders
        self.begins: Mapping[int, tuple[int, int]] = {}  # by snapshot, what ranks of deletes, and of others, begin at
        self.numbers = [plan.from_attnums[column.num - 1] for column in plan.columns]
        self.made: set[str] = set()  # UPDATE and DELETE, if there are any, sent or not
        # False: a change cannot be decided by columns, or there are too few for a job of Spark
        identity = [plan.table.attributes[n - 1] for n in plan.identity.columns]
        self.is_sure = all(is_equal_as_kept(a.type, a.typmod) or a.type == oids.BPCHAR for a in identity)
        self.rows = ChangedRows(session, plan.table.oid, first - 1, last)
        self.relation = self._as_kept(described)
        self.is_sure &= 2 * self.rows.behind < 1 << (RANK_BITS - 1)
        self.count = 0  # of all changes, if they are read in ranges
        self.tests = by_columns(session, plan)  # row filters by operation
        self.is_portable = self.tests.keys() == plan.filters.keys()  # changes can be read without the session
        self.is_columnar = self.is_portable and are_columnar(self.tests.values())

    def _as_kept(self, relation: SentRelation) -> SentRelation:
        """The relation, with how rows are kept in columns of row types."""
        columns = [
            replace(column, kept=self.rows.table.column(number).kept_alike)
            if number and is_row_type(column.type)
            else column
            for column, number in zip(relation.columns, self.numbers, strict=True)
        ]
        return replace(relation, columns=tuple(columns))

    def alone(self) -> TableChanges:
        """A copy for one range, with the session: ranges are read at once, and each tells what it has met."""
        own = object.__new__(TableChanges)
        own.__dict__ = {**self.__dict__, "made": set()}
        return own

    def __getstate__(self) -> dict[str, Any]:
        assert self.is_portable, "row filters ask the session"
        return {**self.__dict__, "session": None}

    def ranges(self) -> list[RowIds]:
        """Ranges of row ids, each with as many changes as memory may hold."""
        assert self.session is not None, "a kernel is told its range"
        ranges = self.rows.ranges(changes_held(self.session, most_held(self.session, self.rows.width)))
        if len(ranges) > 1:
            self.count = self.rows.estimate
        return ranges


class LakeChanges:
    """The messages of one table, or of its rows with some row ids (wire/batch.py: RelationMessages)."""

    def __init__(self, source: TableChanges, ids: RowIds = ALL) -> None:
        self.plan = source.plan
        self.relation = source.relation
        self.unchanged: Mapping[int, Numbers] = {}  # a lake has all values
        self._source = source
        self._session = source.session
        self._numbers = source.numbers
        self._found = ChangesFrame(source.rows, ids)
        frame = self._found
        frame.arrange_as(source.orders)
        starts = np.flatnonzero(np.diff(frame.snapshot, prepend=-1))
        counts = np.diff(np.append(starts, frame.count))
        snapshots = frame.snapshot[starts]
        op = self._operations(np.repeat(np.isin(snapshots, source.chosen), counts))
        self._events: Numbers = np.flatnonzero(op)
        whole = len(self._events) == frame.count
        self.op: Numbers = op if whole else op[self._events]
        known_old = self._known_old if whole else self._known_old[self._events]
        self.has_old: Numbers = (self.op == DELETE) | ((self.op == UPDATE) & known_old)
        seq = ((frame.snapshot - source.first) << RANK_BITS) + 1
        seq += frame.rank
        if source.begins:
            begins = np.array([source.begins.get(at, (0, 0)) for at in snapshots.tolist()], np.int64).reshape(-1, 2)
            deletes, others = np.repeat(begins, counts, axis=0).T
            seq += np.where(frame.has_new, others, deletes)
        self.seq: Numbers = seq if whole else seq[self._events]

    @property
    def count(self) -> int:
        return len(self._events)

    def whole(self) -> LakeChanges:
        return self

    def until(self, seq: int) -> LakeChanges:
        """The messages before a sequence number."""
        part = copy.copy(self)
        end = int(self.seq.searchsorted(seq))
        part._events, part.op, part.has_old = self._events[:end], self.op[:end], self.has_old[:end]
        part.seq = self.seq[:end]
        return part

    # --- pgoutput's decision ------------------------------------------------------------------------------------------

    def _operations(self, told: Numbers) -> Numbers:
        """The codes of the operations that are sent, one for each change, or 0; `told`: the changes of wanted
        snapshots."""
        plan, frame = self.plan, self._found
        inserted, deleted = frame.has_new & ~frame.has_old & told, frame.has_old & ~frame.has_new & told
        updated = frame.has_new & frame.has_old & told
        self._source.made |= {
            name for name, rows in ((operations.UPDATE, updated), (operations.DELETE, deleted)) if rows.any()
        }
        op = np.zeros(frame.count, np.uint8)
        for name, rows in ((operations.INSERT, inserted), (operations.UPDATE, updated), (operations.DELETE, deleted)):
            if name in plan.operations:
                op[rows] = CODES[name]
        if operations.UPDATE not in plan.operations:
            updated = np.zeros(frame.count, np.bool_)
        self._known_old = plan.identity.have_image(deleted, updated, self._key_changed)
        op = sent_of(op, self._known_old, True, True)
        if not plan.filters:
            return op
        asks_spark = self._asks_spark(int(np.count_nonzero(op)))
        if not asks_spark and not self._source.is_portable:
            self._source.is_sure = False
            return op
        decide = self._passing_on_spark if asks_spark else self._passing
        after = decide(op, new=True)
        before = decide(op, new=False)
        return sent_of(op, self._known_old, before, after)

    def _asks_spark(self, count: int) -> bool:
        """Whether Spark SQL evaluates the row filters. A kernel has no session, and does it itself."""
        source = self._source
        if source.is_columnar or source.session is None:
            return False
        return choose_job(source.session, max(source.count, count)).on_spark

    def _key_changed(self, updated: Numbers) -> Numbers:
        changed = np.zeros(self._found.count, np.bool_)
        at, attnums = np.flatnonzero(updated), sorted(self.plan.identity.columns)
        olds, news = self._found.pick(attnums, at, new=False), self._found.pick(attnums, at, new=True)
        changed[at] = differing(olds, news, len(at))
        return changed

    def _passing(self, op: Numbers, *, new: bool) -> Numbers:
        """A mask of the changes whose new, or old, rows pass the row filters of their operations."""
        frame = self._found
        return passing(
            self.plan,
            self._source.tests,
            op,
            frame.has_new if new else self._known_old,
            lambda attnum: frame.table.column(attnum).form,
            lambda attnum, at: frame.pick([attnum], at, new=new)[0],
            new=new,
        )

    def _passing_on_spark(self, op: Numbers, *, new: bool) -> Numbers:
        asked = (operations.INSERT, operations.UPDATE) if new else (operations.UPDATE, operations.DELETE)
        wanted = [operation for operation in asked if operation in self.plan.filters]
        passes = np.ones(self._found.count, np.bool_)
        chosen = np.isin(op, [CODES[name] for name in wanted]) & (self._found.has_new if new else self._known_old)
        if wanted and chosen.any():
            self._ask_spark(passes, op, chosen, wanted, new=new)
        return passes

    def _ask_spark(self, into: Numbers, op: Numbers, chosen: Numbers, wanted: Sequence[str], *, new: bool) -> None:
        rows = self._filter_rows(chosen, wanted, new=new)
        tests = ", ".join(f"{self._test(operation)} AS f{CODES[operation]}" for operation in wanted)
        with spark.pg_errors():
            told = self._statement.run(spark.session(), f"SELECT {AT}, {tests} FROM {{f}}", {"f": rows}).toArrow()
        at = told[AT].to_numpy()
        for kind in wanted:
            mine = op[at] == CODES[kind]
            into[at[mine]] = told[f"f{CODES[kind]}"].to_numpy()[mine]

    def _test(self, operation: str) -> str:
        from pgrepl.expr.exchange import to_sql

        tests = [f"({to_sql(expr, column_names, self._statement)}) IS TRUE" for expr in self.plan.filters[operation]]
        return f"({' OR '.join(tests)})"

    def _filter_rows(self, chosen: Numbers, names: Sequence[str], *, new: bool) -> DataFrame:
        """The columns that row filters read, with the attribute numbers of the table that the changes are sent as."""

        from pgrepl.expr.exchange import Statement

        plan = self.plan
        self._statement = Statement(Context(self._session))
        read = sorted(set().union(*(var_attnums(expr) for name in names for expr in plan.filters[name])))
        own = {number: plan.from_attnums[number - 1] for number in read}
        if new:
            numbers = np.where(chosen, np.arange(self._found.count), LEFT_OUT)
            rows = self._found.rows(sorted({n for n in own.values() if n}), numbers)
            return rows.selectExpr(AT, *[f"c{n} AS c{number}" for number, n in own.items()])
        at = np.flatnonzero(chosen)
        arrays, kinds = [pa.array(at)], ["BIGINT"]
        for number, n in own.items():
            attribute = plan.sent_as.attributes[number - 1]
            kind = form(attribute.type, attribute.typmod)
            seen = plan.identity.covers(n)
            values = self._found.pick([n], at, new=False)[0] if seen else kind.to_array([None] * len(at))
            arrays.append(storage_array(values))
            kinds.append(kind.spark)
        return arrow_frame(pa.table(arrays, names=[AT, *[f"c{number}" for number in own]]), kinds)

    # --- values -------------------------------------------------------------------------------------------------------

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        whole = len(self._events) == self._found.count
        sent = [n for n in self._sent(places) if not old or self.plan.identity.covers(n)]
        values = self._found.pick(sent, messages if whole else self._events[messages], new=not old) if sent else []
        arrays = dict(zip(sent, values, strict=True))
        picked = []
        for place in places:
            array = arrays.get(self._numbers[place])
            if array is None:
                column = self.relation.columns[place]
                array = plain_array(column.form.to_array([None] * len(messages)))
            picked.append(array)
        return picked

    def prepare(self, places: Sequence[int], most: int) -> None:
        self._found.prepare(self._sent(places), most)

    def fits(self, places: Sequence[int], most: int) -> bool:
        return self._found.fits(self._sent(places), most)

    def with_kept(self, kept: Mapping[int, Kept]) -> LakeChanges:
        assert not kept, "all values are sent"
        return self

    def _sent(self, places: Sequence[int]) -> list[int]:
        return [self._numbers[place] for place in places if self._numbers[place]]


# --- range part -------------------------------------------------------------------------------------------------------


@frozen
class RangeToRead:
    """`path`: the prefix of the files' names. `last_seqs`: the last sequence number of each transaction."""

    source: TableChanges
    ids: RowIds
    path: str
    last_seqs: Numbers


@frozen
class ReadRange:
    """`sends`: the places of the transactions that have messages. `made`: UPDATE and DELETE, if there are such changes,
    sent or not. `is_sure`: see TableChanges."""

    files: tuple[MessageFile, ...]
    sends: Numbers
    made: frozenset[str]
    is_sure: bool


def read_range(task: RangeToRead, watch: PartWatch) -> ReadRange:
    watch.check()
    source = task.source.alone()
    nothing = np.empty(0, np.int64)
    try:
        changes = LakeChanges(source, task.ids)
        decoded = decode(changes) if changes.count and source.is_sure else None
    except PgError as error:
        if error.is_of_machine:
            raise
        return ReadRange((), nothing, frozenset(), is_sure=False)  # messages before the failed filter must be sent
    if decoded is None:
        return ReadRange((), nothing, frozenset(source.made), source.is_sure)
    writer = MessageWriter(source.relation, f"{task.path}.{uuid7()}", 1)
    try:
        writer.write(changes.seq, decoded)
        files = writer.close()
    except BaseException:
        writer.abandon()
        raise
    sends = np.unique(np.searchsorted(task.last_seqs, changes.seq))
    return ReadRange(files, sends, frozenset(source.made), is_sure=True)


def decode(changes: LakeChanges) -> Decoded:
    places = range(len(changes.relation.columns))
    keys = [place for place in places if changes.relation.columns[place].is_key]
    olds = changes.pick(keys, np.flatnonzero(changes.has_old), old=True)
    news = changes.pick(places, np.flatnonzero(changes.op != DELETE))
    return Decoded(changes.op, changes.has_old, news, dict(zip(keys, olds, strict=True)), {})
