"""The messages of a batch for one target table: their net effect, the places of the old rows, and the new rows to
write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.statistics import count_index_scans
from pgrepl.engine import Declined
from pgrepl.expr.rowfilter import check_replica_identity
from pgrepl.lake.table import LakeTable
from pgrepl.lake.table_rows import rows_within
from pgrepl.lake.write import Write
from pgrepl.replication.subscriber.apply.columns.convert import Conversion
from pgrepl.replication.subscriber.apply.columns.decide import decide, leaving
from pgrepl.replication.subscriber.apply.columns.described import MOST_BYTES, TableKeys
from pgrepl.replication.subscriber.apply.columns.fold import Folded
from pgrepl.replication.subscriber.apply.columns.key_columns import described, table_keys
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Places
from pgrepl.replication.subscriber.apply.columns.other_keys import KeptKeys
from pgrepl.replication.subscriber.apply.columns.sent import SentColumns, sent_columns
from pgrepl.replication.subscriber.apply.roles import check_target_privilege
from pgrepl.replication.wire.batch import AT, DELETE, INSERT, UPDATE, RelationChanges
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.checks_table_spark import SparkChecks
from pgrepl.rows.unique import unique_indexes

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session

    Numbers = npt.NDArray[Any]

ROW = "__row"  # the row id that a new version keeps
_CHUNK = 16  # bits of a message's number within its chunk


class TableApply:
    """The changes of a batch to one table or leaf partition. `truncates` are sequence numbers."""

    def __init__(
        self,
        session: Session,
        table: Relation,
        changes: RelationChanges,
        since: int,
        truncates: Sequence[int],
        write: Write,
        *,
        routed: bool = False,
        keys: TableKeys | None = None,
        kept: KeptKeys | None = None,
    ) -> None:
        """Changes with sequence numbers below `since` do not concern the table. `write` takes deleted rows and new
        files. `routed`: the rows are known to satisfy the partition constraint. `keys` are given where the changes are
        one part of all; `kept` then takes the new rows' values of other unique indexes."""
        self.relation = table
        self.table: LakeTable = write.table
        self.write = write
        assert write.snapshot is not None, "rows are looked for before the write lock is held"
        self._snapshot: int = write.snapshot
        self._session = session
        self._changes = changes
        self._since = since
        self._truncates = sorted(truncates)
        self._routed = routed
        self._keys, self._kept = keys, kept
        self._conversion = Conversion(session, table, changes.relation)

    def decide(self) -> None:
        """Raises NotClean with the sequence number of a message that cannot be carried out."""
        changes, keys = self._changes, self._keys
        chosen = changes.seq >= self._since
        inserts, updates, deletes = (bool((chosen & (changes.op == each)).any()) for each in (INSERT, UPDATE, DELETE))
        check_rights(self._session, self.relation, inserts, updates, deletes)
        if keys is None:
            needed = updates or deletes
            keys = table_keys(self._session, self.relation, self._conversion, changes.unchanged, needed=needed)
        self.described = described(self._session, self.relation, self._conversion, keys, routed=self._routed)
        self._decided = decide(
            self.described,
            changes,
            rows_within(self._session, self.table, self._snapshot),
            since=self._since,
            truncates=self._truncates,
            kept=self._kept,
            again=self._keys is None,
        )
        for attnums, count in self._decided.looked_up.items():
            count_index_scans(self._session, self.table.oid, attnums, count)
        self._changes = self._decided.changes

    # --- carrying out -------------------------------------------------------------------------------------------------

    @property
    def folded(self) -> Folded:
        return self._decided.folded

    @property
    def _places(self) -> Places | None:
        return self._decided.places

    def leave(self) -> None:
        """Enter the deleted and the replaced rows into the write."""
        if self._truncates:
            self.write.truncate()
            return
        files, inlined = leaving(self._decided)
        for file_id, positions in files:
            self.write.delete_positions(file_id, positions)
        self.write.delete_inlined(inlined)

    def columns(self) -> list[SentColumns] | None:
        """The new rows to write without Spark. None: they are not stored as they were sent, or are too large."""
        if not self.described.is_plain:
            return None
        changes, places = self._changes, self.described.sent_places
        if self._places is None:
            changes.prepare(places, MOST_BYTES)
        if not changes.fits(places, MOST_BYTES):
            return None
        return sent_columns(self.described, self._decided)

    def frames(self) -> list[tuple[DataFrame, str | None]]:
        """The rows that Spark has to write: new rows, and new versions with the name of their row id column."""
        import numpy as np

        folded = self.folded
        found: list[tuple[DataFrame, str | None]] = []
        if len(folded.inserted):
            found.append((self._checked(self._conversion.new_rows(self._rows(folded.inserted))), None))
        if len(folded.updated):
            assert self._places is not None
            ids = np.full(self._changes.count, NOT_THERE, np.int64)
            ids[folded.updated] = self._places.row_id[folded.replaced]
            rows = _with_numbers(self._rows(folded.updated), ids)
            if self._conversion.unsent:
                rows = self._with_kept(self._conversion.sent_rows(rows, [AT, ROW])).orderBy(AT)
            else:
                rows = self._conversion.sent_rows(rows, [ROW])
            found.append((self._checked(rows), ROW))
        return found

    def passing(self) -> DataFrame | None:
        """New rows that do not last, to be computed and checked; None if they cannot break a constraint."""
        rules = table_rules(self._session, self.relation)
        known = {n for info in unique_indexes(self._session, self.relation) for n in info.columns}
        plain = (
            all(a.num in known for a in rules.not_null)
            and not rules.checks
            and not rules.generated
            and not rules.bound
            and all(self._conversion.same_type(n) for n, place in enumerate(self._conversion.places, 1) if place >= 0)
        )
        if plain or not len(self.folded.passing):
            return None
        if self._conversion.unsent and (rules.checks or rules.generated):
            raise Declined("rules over columns that are not sent")
        return self._checked(self._conversion.new_rows(self._rows(self.folded.passing, ordered=False)))

    def _rows(self, messages: Numbers, *, ordered: bool = True) -> DataFrame:
        import numpy as np

        chosen = np.zeros(self._changes.count, np.bool_)
        chosen[messages] = True
        return self._changes.rows(self._conversion.sent_places, chosen=chosen, ordered=ordered)

    def _checked(self, rows: DataFrame) -> DataFrame:
        checks = SparkChecks(self._session, self.relation, self.relation, frozenset())
        return checks.checked(checks.complete(rows), bound=self.relation.is_partition)

    def _with_kept(self, rows: DataFrame) -> DataFrame:
        """Add the columns that are not sent, with their values in the table."""
        from pyspark.sql import functions as F

        from pgrepl.lake import scan

        attnums = [a.num for a in self._conversion.unsent]
        old = scan.frame(self._session, self.table, attnums, self._snapshot, places=True)
        old = old.select(F.col("place.row").alias("__kept"), *[f"c{n}" for n in attnums])
        return rows.join(old, F.col(ROW) == F.col("__kept")).drop("__kept")


def _with_numbers(rows: DataFrame, numbers: Numbers) -> DataFrame:
    """Add a column ROW with each row's number, found by the column AT. The numbers are broadcast as one list for each
    chunk."""
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import functions as F

    from pgrepl.lake.scan import arrow_frame

    size = 1 << _CHUNK
    padded = np.full(-(-len(numbers) // size) * size, NOT_THERE, np.int64)
    padded[: len(numbers)] = numbers
    chunks = len(padded) // size
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, len(padded) + 1, size), pa.int32()), pa.array(padded))
    known = arrow_frame(pa.table({"__chunk": pa.array(range(chunks), pa.int64()), "__numbers": lists}))
    joined = rows.join(F.broadcast(known), F.shiftright(F.col(AT), _CHUNK) == F.col("__chunk"))
    number = F.expr(f"__numbers[CAST({AT} & {size - 1} AS INT)]").alias(ROW)
    return joined.select(*[F.col(name) for name in rows.columns], number)


def check_rights(session: Session, table: Relation, inserts: bool, updates: bool, deletes: bool) -> None:
    """Check the privileges of the role that applies changes of these kinds, and the table's replica identity."""
    for privilege, wanted in (("INSERT", inserts), ("UPDATE", updates), ("DELETE", deletes)):
        if wanted:
            check_target_privilege(session, table, privilege)
            if privilege != "INSERT":
                check_target_privilege(session, table, "SELECT")
                check_replica_identity(session, table, privilege)
