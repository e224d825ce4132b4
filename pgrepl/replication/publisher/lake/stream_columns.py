"""What a lake sends, as whole columns: publisher/decision.py's table over many changes at once.

What changed comes as columns; operations, identities and images are decided with numpy, row filters by Spark, which
gives back one truth for each row. Rows are read where the subscriber wants them. What is more than is to be held in
memory (logical_decoding_work_mem) is decided in parts, by ranges of row ids, and kept in files.

A batch ends where a definition changes, and when it is large enough. None of what is undecided here is guessed at: the
stream of single messages has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.engine import choose_job
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.walk import var_attnums
from pgrepl.lake.changes_frame import LEFT_OUT, ChangesFrame
from pgrepl.lake.changes_rows import ALL, ChangedRows, RowIds
from pgrepl.lake.changes_side import prefetch
from pgrepl.lake.history import Snapshot
from pgrepl.replication.publisher.decision import describe, sent_of, truncated
from pgrepl.replication.publisher.identity import differing
from pgrepl.replication.publisher.lake.size import rows_begun
from pgrepl.replication.publisher.lake.transactions import LakeTransaction, changed_tables, class_row, read, wanted
from pgrepl.replication.publisher.plan import SendPlan, check_sendable, send_plan
from pgrepl.replication.wire import messages as operations
from pgrepl.replication.wire.batch import (
    AT,
    CODES,
    DELETE,
    UPDATE,
    BatchTransaction,
    Kept,
    RelationMessages,
    WireBatch,
)
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.key_values import is_equal_as_kept
from pgrepl.replication.wire.message_files import Decoded, MessageFolder, MessageWriter, most_held
from pgrepl.replication.wire.messages import TruncateMessage
from pgrepl.rows.routing_spark import column_names
from pgrepl.types import oids

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.replication.wire.messages import SentRelation

    Numbers = npt.NDArray[Any]

MOST = 8_000_000  # changed rows of a batch, about
_IN_CATALOG = 64  # such rows that what a snapshot has in the catalog counts for: it takes as much memory
_THREADS = 2
_RANKS = 36  # bits of a sequence number that tell the changes of one snapshot apart


def lake_batch(
    session: Session, names: Sequence[str], start: int, end: int, *, local_only: bool, two_phase: bool = False
) -> tuple[WireBatch, int] | None:
    """What is sent of the transactions from `start` on, and before which LSN that ends. `two_phase`: prepared ones are
    told as such, which is done message by message."""
    portion = _portion(session, start, end, two_phase=two_phase)
    if not portion:
        return None
    base = portion[0].first
    here = wanted([snapshot for each in portion for snapshot in each.snapshots], local_only=local_only)
    plans = _Plans(session, names, portion[0].snapshots[0].stretch)
    transactions = [_numbered(each, base) for each in portion]
    with ExitStack() as stack:
        found = _Found(session, transactions, stack)
        try:
            if not found.read(plans, here, base):
                return None
            truncates = list(_truncates(plans, here, base))
        except PgError:
            return None  # what comes before the error has to get through: that is told message by message
        for seq, _ in truncates:
            found.note([seq])
        forget = stack.pop_all().close
    sent = [each for each, sends in zip(transactions, found.sends, strict=True) if sends]
    return WireBatch(tuple(sent), tuple(found.messages), tuple(truncates), forget), portion[-1].last.id + 1


def _portion(session: Session, start: int, end: int, *, two_phase: bool) -> list[LakeTransaction]:
    """The transactions that one stretch of definitions has."""
    found, _ = read(session, start, end)
    sizes = rows_begun(session, start, end)
    taken: list[LakeTransaction] = []
    size = 0
    for transaction in found:
        if any(snapshot.stretch != found[0].snapshots[0].stretch for snapshot in transaction.snapshots):
            break
        if two_phase and transaction.two_phase is not None:
            break
        taken.append(transaction)
        size += sum(sizes.get(snapshot.id, _IN_CATALOG) for snapshot in transaction.snapshots)
        if size > MOST:
            break
    return taken


class _Plans:
    """The plans of one stretch by table."""

    def __init__(self, session: Session, names: Sequence[str], stretch: int) -> None:
        self._session = session
        self._names = names
        self._stretch = stretch
        self.past = session.at(stretch)
        self._known: dict[int, SendPlan | None] = {}

    def of(self, table: int) -> SendPlan | None:
        if table not in self._known:
            here = class_row(self._session, self._stretch, table) is not None
            self._known[table] = send_plan(self.past, self._names, table) if here else None
        return self._known[table]


class _Found:
    """What is sent of the changes of each table."""

    def __init__(self, session: Session, transactions: Sequence[BatchTransaction], stack: ExitStack) -> None:
        """`stack` removes the files at the end."""
        import numpy as np

        self.messages: list[RelationMessages] = []
        self._session = session
        self._folder = MessageFolder(session.catalog.data_path)
        stack.callback(self._folder.close)
        self._stack = stack
        self._last_seqs = np.array([each.last_seq for each in transactions], np.int64)
        self.sends = np.zeros(len(transactions), np.bool_)

    def note(self, seq: Numbers | Sequence[int]) -> None:
        """Messages with these ascending numbers are sent."""
        import numpy as np

        ends = np.searchsorted(seq, self._last_seqs, side="right")
        self.sends |= np.diff(ends, prepend=0) > 0

    def read(self, plans: _Plans, snapshots: Sequence[Snapshot], base: int) -> bool:
        """False: it cannot be had so; two tables may be sent as one."""
        sent_as: set[int] = set()
        for table in sorted({table for s in snapshots for table in changed_tables(s)}):
            plan = plans.of(table)
            if plan is None:
                continue
            if plan.sent_as.oid in sent_as:
                return False
            chosen = [s.id for s in snapshots if table in changed_tables(s)]
            orders = {
                s.id: [n for oid, *row_ids in s.order if oid == table for n in row_ids] for s in snapshots if s.order
            }
            source = TableChanges(self._session, plan, chosen, base, snapshots[-1].id, orders)
            messages = self._of_table(source)
            if messages is None:
                return False
            for operation in sorted(source.made & plan.operations):
                check_sendable(plans.past, plan, operation)
            if messages.count:
                sent_as.add(plan.sent_as.oid)
                self.messages.append(messages)
        return True

    def _of_table(self, source: TableChanges) -> RelationMessages | None:
        if not source.is_sure:
            return None
        ranges = source.ranges()
        if len(ranges) == 1:
            changes = LakeChanges(source, ranges[0])
            self.note(changes.seq)
            return changes if source.is_sure else None
        return self._in_files(source, ranges)

    def _in_files(self, source: TableChanges, ranges: Sequence[RowIds]) -> MessageFiles | None:
        relation = source.relation
        writer = MessageWriter(relation, self._folder.path(relation), 1)
        self._stack.callback(writer.abandon)
        made = partial(_decoded, source)
        # the session of row filters is for one thread
        with closing(prefetch(made, ranges, 0 if source.plan.filters else _THREADS)) as parts:
            for seq, decoded in parts:
                if not source.is_sure:
                    return None
                if len(seq):
                    self.note(seq)
                    writer.write(seq, decoded)
        return MessageFiles(relation, writer.close(), self._folder.new_path)


def _decoded(source: TableChanges, ids: RowIds) -> tuple[Numbers, Decoded]:
    """The messages of rows with these ids."""
    import numpy as np

    found = LakeChanges(source, ids)
    places = range(len(found.relation.columns))
    keys = [place for place in places if found.relation.columns[place].is_key]
    olds = found.pick(keys, np.flatnonzero(found.has_old), old=True)
    news = found.pick(places, np.flatnonzero(found.op != DELETE))
    return found.seq, Decoded(found.op, found.has_old, news, dict(zip(keys, olds, strict=True)), {})


def _truncates(plans: _Plans, snapshots: Sequence[Snapshot], base: int) -> Iterator[tuple[int, TruncateMessage]]:
    for snapshot in snapshots:
        if snapshot.truncated:
            message = truncated(
                [plans.of(table) for table in snapshot.truncated],
                cascade=snapshot.cascade,
                restart_identity=snapshot.restart_identity,
            )
            if message is not None:
                yield (snapshot.id - base) << _RANKS, message


def _numbered(transaction: LakeTransaction, base: int) -> BatchTransaction:
    last = transaction.last
    first_seq, last_seq = (transaction.first - base) << _RANKS, ((last.id - base + 1) << _RANKS) - 1
    return BatchTransaction(last.id, last.id, last.id + 1, last.time, last.origin, first_seq, last_seq)


class TableChanges:
    """What changed in one table, and how it is sent."""

    def __init__(
        self,
        session: Session,
        plan: SendPlan,
        chosen: Sequence[int],
        first: int,
        last: int,
        orders: Mapping[int, Sequence[int]],
    ) -> None:
        """`chosen` are the snapshots whose changes of the table are told, `first` the one that numbers begin at.
        `orders`: see ChangesFrame."""
        self.session = session
        self.plan = plan
        self.relation: SentRelation = describe(plan)
        self.chosen = list(chosen)
        self.first = first
        self.orders = orders
        self.numbers = [plan.from_attnums[column.num - 1] for column in plan.columns]
        self.made: set[str] = set()  # operations on rows that were there, sent or not
        # None of it is told if something cannot be decided here, or is too little to ask Spark about
        identity = [plan.table.attributes[n - 1] for n in plan.identity.columns]
        self.is_sure = all(is_equal_as_kept(a.type, a.typmod) or a.type == oids.BPCHAR for a in identity)
        self.rows = ChangedRows(session, plan.table.oid, first - 1, last)
        self.is_sure &= self.rows.behind < 1 << (_RANKS - 2)
        self.count = 0  # of what has been read, or is about to be

    def ranges(self) -> list[RowIds]:
        """Of row ids, each with as many changes as may be held in memory."""
        found = self.rows.ranges(most_held(self.session, self.rows.width))
        if len(found) > 1:
            self.count = self.rows.estimate
        return found


class LakeChanges:
    """The messages of one table, or of its rows with some row ids: RelationChanges."""

    def __init__(self, source: TableChanges, ids: RowIds = ALL) -> None:
        import numpy as np

        self.plan = source.plan
        self.relation = source.relation
        self.unchanged: Mapping[int, Numbers] = {}  # a lake has all values
        self._source = source
        self._session = source.session
        self._numbers = source.numbers
        self._found = ChangesFrame(source.rows, ids)
        found = self._found
        found.arrange_as(source.orders)
        starts = np.flatnonzero(np.diff(found.snapshot, prepend=-1))
        counts = np.diff(np.append(starts, found.count))
        op = self._operations(np.repeat(np.isin(found.snapshot[starts], source.chosen), counts))
        self._events: Numbers = np.flatnonzero(op)
        whole = len(self._events) == found.count
        self.op: Numbers = op if whole else op[self._events]
        known_old = self._known_old if whole else self._known_old[self._events]
        self.has_old: Numbers = (self.op == DELETE) | ((self.op == UPDATE) & known_old)
        seq = ((found.snapshot - source.first) << _RANKS) + 1
        seq += found.rank
        self.seq: Numbers = seq if whole else seq[self._events]

    @property
    def count(self) -> int:
        return len(self._events)

    def whole(self) -> LakeChanges:
        return self

    def until(self, seq: int) -> LakeChanges:
        """Only the messages before a sequence number."""
        import copy

        part = copy.copy(self)
        end = int(self.seq.searchsorted(seq))
        part._events, part.op, part.has_old = self._events[:end], self.op[:end], self.has_old[:end]
        part.seq = self.seq[:end]
        return part

    # --- what pgoutput decides ----------------------------------------------------------------------------------------

    def _operations(self, told: Numbers) -> Numbers:
        """Of each change the code of what is sent, or 0 for nothing."""
        import numpy as np

        plan, found = self.plan, self._found
        came, went = found.has_new & ~found.has_old & told, found.has_old & ~found.has_new & told
        both = found.has_new & found.has_old & told
        self._source.made |= {
            name for name, rows in ((operations.UPDATE, both), (operations.DELETE, went)) if rows.any()
        }
        op = np.zeros(found.count, np.uint8)
        for name, rows in ((operations.INSERT, came), (operations.UPDATE, both), (operations.DELETE, went)):
            if name in plan.operations:
                op[rows] = CODES[name]
        updated = both if operations.UPDATE in plan.operations else np.zeros(found.count, np.bool_)
        self._known_old = plan.identity.have_image(went, updated, self._key_changed)
        op = sent_of(op, self._known_old, True, True)
        if not plan.filters:
            return op
        if not choose_job(self._session, max(self._source.count, int(np.count_nonzero(op)))).on_spark:
            self._source.is_sure = False
            return op
        after, before = self._passing(op, new=True), self._passing(op, new=False)
        return sent_of(op, self._known_old, before, after)

    def _key_changed(self, updated: Numbers) -> Numbers:
        import numpy as np

        changed = np.zeros(self._found.count, np.bool_)
        at, attnums = np.flatnonzero(updated), sorted(self.plan.identity.columns)
        olds, news = self._found.pick(attnums, at, new=False), self._found.pick(attnums, at, new=True)
        changed[at] = differing(olds, news, len(at))
        return changed

    def _passing(self, op: Numbers, *, new: bool) -> Numbers:
        """Which changes' new or old rows the filters of their operations let through."""
        import numpy as np

        from pgrepl.lake import spark

        found = self._found
        asked = (operations.INSERT, operations.UPDATE) if new else (operations.UPDATE, operations.DELETE)
        wanted = [each for each in asked if each in self.plan.filters]
        passing = np.ones(found.count, np.bool_)
        chosen = np.isin(op, [CODES[each] for each in wanted]) & (found.has_new if new else self._known_old)
        if not wanted or not chosen.any():
            return passing
        rows = self._filter_rows(chosen, wanted, new=new)
        tests = ", ".join(f"{self._test(each)} AS f{CODES[each]}" for each in wanted)
        with spark.pg_errors():
            told = self._statement.run(spark.session(), f"SELECT {AT}, {tests} FROM {{f}}", {"f": rows}).toArrow()
        at = told[AT].to_numpy()
        for each in wanted:
            mine = op[at] == CODES[each]
            passing[at[mine]] = told[f"f{CODES[each]}"].to_numpy()[mine]
        return passing

    def _test(self, operation: str) -> str:
        from pgrepl.expr.spark import to_sql

        tests = [f"({to_sql(expr, column_names, self._statement)}) IS TRUE" for expr in self.plan.filters[operation]]
        return f"({' OR '.join(tests)})"

    def _filter_rows(self, chosen: Numbers, names: Sequence[str], *, new: bool) -> DataFrame:
        """The columns that filters look at, as those of the table that is sent."""
        import numpy as np
        import pyarrow as pa

        from pgrepl.expr.spark import Statement
        from pgrepl.lake.scan import arrow_frame, storage_array
        from pgrepl.types.lake_forms import form

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

    # --- what is sent -------------------------------------------------------------------------------------------------

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        from pgrepl.types.lake_arrays import plain_array
        from pgrepl.types.lake_forms import form

        whole = len(self._events) == self._found.count
        sent = [n for n in self._sent(places) if not old or self.plan.identity.covers(n)]
        found = self._found.pick(sent, messages if whole else self._events[messages], new=not old) if sent else []
        arrays = dict(zip(sent, found, strict=True))
        picked = []
        for place in places:
            array = arrays.get(self._numbers[place])
            if array is None:
                column = self.relation.columns[place]
                array = plain_array(form(column.type, column.typmod).to_array([None] * len(messages)))
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

    def rows(self, places: Sequence[int], *, chosen: Numbers | None = None, ordered: bool = False) -> DataFrame:
        import numpy as np

        numbers = np.full(self._found.count, LEFT_OUT, np.int64)
        left_out = self.op == DELETE if chosen is None else (self.op == DELETE) | ~chosen
        numbers[self._events] = np.where(left_out, LEFT_OUT, np.arange(self.count))
        own = [(place, self._numbers[place]) for place in places]
        rows = self._found.rows(sorted({attnum for _, attnum in own if attnum}), numbers, ordered=ordered)
        names = [
            f"c{attnum} AS s{place}" if attnum else f"CAST(NULL AS {self._spark_type(place)}) AS s{place}"
            for place, attnum in own
        ]
        return rows.selectExpr(AT, *names)

    def _spark_type(self, place: int) -> str:
        from pgrepl.types.lake_forms import form

        column = self.relation.columns[place]
        return form(column.type, column.typmod).spark
