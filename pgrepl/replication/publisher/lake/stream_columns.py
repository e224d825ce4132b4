"""What a lake sends, as whole columns: the decisions of publisher/decision.py over many changes at once.

What changed comes as columns; operations, identities and images are decided with numpy, row filters by Spark, which
gives back one truth for each row. Rows are read where the subscriber wants them.

A batch ends where a definition changes, and when it is large enough. None of what
is undecided here is guessed at: the stream of single messages has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import tables
from pgrepl.catalog.store import one
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.walk import var_attnums
from pgrepl.lake.changes_frame import LEFT_OUT, ChangesFrame
from pgrepl.lake.history import Snapshot, snapshots
from pgrepl.replication.publisher.decision import describe, truncated
from pgrepl.replication.publisher.plan import SendPlan, check_sendable, send_plan
from pgrepl.replication.size import is_for_spark
from pgrepl.replication.wire import messages as operations
from pgrepl.replication.wire.batch import AT, DELETE, INSERT, UPDATE, BulkTransaction, Kept, WireBatch
from pgrepl.replication.wire.key_values import is_equal_as_kept
from pgrepl.replication.wire.keys import NOT_THERE
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
_RANKS = 32  # bits of a sequence number that tell the changes of one snapshot apart


def changed_rows(session: Session, start: int, end: int) -> int:
    """About how many rows came from LSN `start` on and before `end`, or went; reads no file. Those inlined in the
    catalog are few: one a snapshot."""
    link = session.link
    mark = link.mark
    found = max(end - start, 0)
    for table, column in (("ducklake_data_file", "record_count"), ("ducklake_delete_file", "delete_count")):
        at = "begin_snapshot" if table == "ducklake_data_file" else "coalesce(partial_max, begin_snapshot)"
        rows = link.execute(
            f"SELECT coalesce(sum({column}), 0) FROM {table} WHERE {at} >= {mark} AND {at} < {mark}", (start, end)
        )
        found += int(rows[0][0])
    return found


def lake_batch(
    session: Session, names: Sequence[str], start: int, end: int, *, local_only: bool, two_phase: bool = False
) -> tuple[WireBatch, int] | None:
    """What is sent of the transactions from `start` on, and before which LSN that ends. `two_phase`: prepared ones are
    told as such, which is done message by message."""
    portion = _portion(session, start, end, two_phase=two_phase)
    if not portion:
        return None
    wanted = [s for s in portion if not (local_only and s.origin)]
    plans = _Plans(session, names, portion[0].stretch)
    try:
        changes = _changes(session, plans, wanted, portion[0].id)
        truncates = list(_truncates(plans, wanted, portion[0].id))
    except PgError:
        return None  # what comes before the error has to get through: that is told message by message
    if changes is None:
        return None
    transactions = [t for t in _transactions(portion) if _sends(t, changes, truncates)]
    return WireBatch(tuple(transactions), tuple(changes), tuple(truncates)), portion[-1].id + 1


def _portion(session: Session, start: int, end: int, *, two_phase: bool) -> list[Snapshot]:
    """Whole transactions of one stretch."""
    found = snapshots(session, start - 1, end - 1)
    if found and found[0].first < start:
        found = snapshots(session, found[0].first - 1, end - 1)
    sizes = _sizes(session, start, end)
    taken: list[Snapshot] = []
    group: list[Snapshot] = []
    size = 0
    for snapshot in found:
        if snapshot.stretch != found[0].stretch:
            break
        group.append(snapshot)
        size += sizes.get(snapshot.id, 0)
        if snapshot.is_last:
            if two_phase and snapshot.two_phase is not None:
                break
            taken += group
            group = []
            if size > MOST:
                break
    return taken


def _sizes(session: Session, start: int, end: int) -> dict[int, int]:
    link = session.link
    rows = link.execute(
        "SELECT begin_snapshot, sum(record_count) FROM ducklake_data_file"
        f" WHERE begin_snapshot >= {link.mark} AND begin_snapshot < {link.mark} GROUP BY begin_snapshot",
        (start, end),
    )
    return {snapshot: int(count) for snapshot, count in rows}


class _Plans:
    """The plans of one stretch by table."""

    def __init__(self, session: Session, names: Sequence[str], stretch: int) -> None:
        self._session = session
        self._names = names
        self.past = session.at(stretch)
        self._known: dict[int, SendPlan | None] = {}

    def of(self, table: int) -> SendPlan | None:
        if table not in self._known:
            row = one(self.past, tables.pg_class, oid=table)
            here = row is not None and row.datid == self._session.database.oid
            self._known[table] = send_plan(self.past, self._names, table) if here else None
        return self._known[table]


def _changes(session: Session, plans: _Plans, wanted: Sequence[Snapshot], base: int) -> list[LakeChanges] | None:
    """None: two tables are sent as one."""
    found: list[LakeChanges] = []
    for table in sorted({table for s in wanted for table in s.tables if table not in s.truncated}):
        plan = plans.of(table)
        if plan is None:
            continue
        if any(plan.sent_as.oid == other.plan.sent_as.oid for other in found):
            return None
        chosen = [s.id for s in wanted if table in s.tables and table not in s.truncated]
        orders = {s.id: [n for oid, *row_ids in s.order if oid == table for n in row_ids] for s in wanted if s.order}
        changes = LakeChanges(session, plan, chosen, base, wanted[-1].id, orders)
        if not changes.is_sure:
            return None
        for operation in sorted(changes.made & plan.operations):
            check_sendable(plans.past, plan, operation)
        if changes.count:
            found.append(changes)
    return found


def _truncates(plans: _Plans, wanted: Sequence[Snapshot], base: int) -> Iterator[tuple[int, TruncateMessage]]:
    for snapshot in wanted:
        if snapshot.truncated:
            message = truncated(
                [plans.of(table) for table in snapshot.truncated],
                cascade=snapshot.cascade,
                restart_identity=snapshot.restart_identity,
            )
            if message is not None:
                yield (snapshot.id - base) << _RANKS, message


def _transactions(portion: Sequence[Snapshot]) -> Iterator[BulkTransaction]:
    base = portion[0].id
    for snapshot in portion:
        if snapshot.is_last:
            first, last = (snapshot.first - base) << _RANKS, ((snapshot.id - base + 1) << _RANKS) - 1
            yield BulkTransaction(
                snapshot.id, snapshot.id, snapshot.id + 1, snapshot.time, snapshot.origin, max(first, 0), last
            )


def _sends(
    transaction: BulkTransaction, changes: Sequence[LakeChanges], truncates: Sequence[tuple[int, TruncateMessage]]
) -> bool:
    import numpy as np

    if any(transaction.first_seq <= seq <= transaction.last_seq for seq, _ in truncates):
        return True
    edges = [transaction.first_seq, transaction.last_seq + 1]
    return any(int(np.diff(np.searchsorted(each.seq, edges))[0]) > 0 for each in changes)


class LakeChanges:
    """The messages of one table: RelationChanges."""

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
        import numpy as np

        self.plan = plan
        self.relation: SentRelation = describe(plan)
        self.unchanged: Mapping[int, Numbers] = {}  # a lake has all values
        # None of it is told if something cannot be decided here, or is too little to ask Spark about
        identity = [plan.table.attributes[n - 1] for n in plan.identity]
        self.is_sure = all(is_equal_as_kept(a.type, a.typmod) or a.type == oids.BPCHAR for a in identity)
        self._session = session
        self._numbers = [plan.from_attnums[column.num - 1] for column in plan.columns]
        self._found = ChangesFrame(session, plan.table.oid, first - 1, last)
        found = self._found
        found.arrange_as(orders)
        starts = np.flatnonzero(np.diff(found.snapshot, prepend=NOT_THERE))
        counts = np.diff(np.append(starts, found.count))
        of_each = found.snapshot[starts]
        op = self._operations(np.repeat(np.isin(of_each, list(chosen)), counts))
        self._events: Numbers = np.flatnonzero(op)
        whole = len(self._events) == found.count
        self.op: Numbers = op if whole else op[self._events]
        known_old = self._known_old if whole else self._known_old[self._events]
        self.has_old: Numbers = (self.op == DELETE) | ((self.op == UPDATE) & known_old)
        seq = np.repeat(((of_each - first) << _RANKS) - starts + 1, counts)
        seq += np.arange(found.count)
        self.seq: Numbers = seq if whole else seq[self._events]

    @property
    def count(self) -> int:
        return len(self._events)

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
        """Of each change what is sent: INSERT, UPDATE, DELETE, or 0 for nothing."""
        import numpy as np

        plan, found = self.plan, self._found
        came, went = found.has_new & ~found.has_old & told, found.has_old & ~found.has_new & told
        both = found.has_new & found.has_old & told
        self._known_old = (went | both) if plan.whole_old_rows else went & bool(plan.identity)
        if not plan.whole_old_rows and operations.UPDATE in plan.operations:
            self._known_old = self._known_old | (both & self._key_changed(both))
        self.made = {name for name, rows in ((operations.UPDATE, both), (operations.DELETE, went)) if rows.any()}
        op = np.zeros(found.count, np.uint8)
        if operations.INSERT in plan.operations:
            op[came] = INSERT
        if operations.DELETE in plan.operations:
            op[went & self._known_old] = DELETE
        if operations.UPDATE in plan.operations:
            op[both] = UPDATE
        if not plan.filters:
            return op
        if not is_for_spark(self._session, int(np.count_nonzero(op))):
            self.is_sure = False
            return op
        return self._filtered(op)

    def _key_changed(self, both: Numbers) -> Numbers:
        import numpy as np
        import pyarrow.compute as pc

        changed = np.zeros(self._found.count, np.bool_)
        at, attnums = np.flatnonzero(both), sorted(self.plan.identity)
        olds, news = self._found.pick(attnums, at, new=False), self._found.pick(attnums, at, new=True)
        for old, new in zip(olds, news, strict=True):
            if old.equals(new):
                continue
            differs = pc.fill_null(pc.not_equal(old, new), True).to_numpy(zero_copy_only=False)
            if old.null_count and new.null_count:
                nothing = pc.and_(pc.is_null(old), pc.is_null(new)).to_numpy(zero_copy_only=False)
                differs = differs & ~nothing
            changed[at[differs]] = True
        return changed

    def _filtered(self, op: Numbers) -> Numbers:
        filters = self.plan.filters
        fresh = self._passing(op, new=True)
        insert, update, delete = (op == each for each in (INSERT, UPDATE, DELETE))
        if operations.INSERT in filters:
            op[insert & ~fresh[INSERT]] = 0
        old = self._passing(op, new=False)
        if operations.DELETE in filters:
            op[delete & ~old[DELETE]] = 0
        if operations.UPDATE in filters:
            known = self._known_old
            before, after = old[UPDATE] & known, fresh[UPDATE]
            op[update & ~known & ~after] = 0
            op[update & known & ~before & ~after] = 0
            op[update & known & ~before & after] = INSERT
            op[update & known & before & ~after] = DELETE
        return op

    def _passing(self, op: Numbers, *, new: bool) -> dict[int, Numbers]:
        """By operation, which changes' new or old rows its filters let through."""
        import numpy as np

        from pgrepl.lake import spark

        found = self._found
        names = {INSERT: operations.INSERT, UPDATE: operations.UPDATE, DELETE: operations.DELETE}
        asked = (INSERT, UPDATE) if new else (UPDATE, DELETE)
        wanted = [each for each in asked if names[each] in self.plan.filters]
        passing = {each: np.ones(found.count, np.bool_) for each in names}
        chosen = np.isin(op, wanted) & (found.has_new if new else self._known_old)
        if not wanted or not chosen.any():
            return passing
        rows = self._filter_rows(chosen, [names[each] for each in wanted], new=new)
        tests = ", ".join(f"{self._test(names[each])} AS f{each}" for each in wanted)
        with spark.pg_errors():
            told = self._statement.run(spark.session(), f"SELECT {AT}, {tests} FROM {{f}}", {"f": rows}).toArrow()
        at = told[AT].to_numpy()
        for each in wanted:
            passing[each] = np.zeros(found.count, np.bool_)
            passing[each][at] = told[f"f{each}"].to_numpy()
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
            seen = plan.whole_old_rows or n in plan.identity
            values = self._found.pick([n], at, new=False)[0] if seen else kind.to_array([None] * len(at))
            arrays.append(storage_array(values))
            kinds.append(kind.spark)
        return arrow_frame(pa.table(arrays, names=[AT, *[f"c{number}" for number in own]]), kinds)

    # --- what is sent -------------------------------------------------------------------------------------------------

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        from pgrepl.types.lake_arrays import plain_array
        from pgrepl.types.lake_forms import form

        whole = len(self._events) == self._found.count
        sent = [n for n in self._sent(places) if not old or self.plan.whole_old_rows or n in self.plan.identity]
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
