"""The messages of a batch for one target table: their net effect, the places of the old rows, and the new rows to
write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.statistics import count_index_scans
from pgrepl.errors import Declined
from pgrepl.expr.rowfilter import check_replica_identity
from pgrepl.lake.table import LakeTable
from pgrepl.lake.table_rows import rows_within
from pgrepl.lake.write import Write
from pgrepl.replication.subscriber.apply.columns.decide import decide, leaving
from pgrepl.replication.subscriber.apply.columns.describe import described
from pgrepl.replication.subscriber.apply.columns.described import MOST_BYTES
from pgrepl.replication.subscriber.apply.columns.key_columns import table_keys
from pgrepl.replication.subscriber.apply.columns.missed import missed_messages
from pgrepl.replication.subscriber.apply.columns.rows_to_write import RowsToWrite, rows_to_write
from pgrepl.replication.subscriber.apply.roles import check_target_privilege
from pgrepl.replication.subscriber.convert import MatchedColumns
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, RelationChanges

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session import Session
    from pgrepl.replication.subscriber.row_origins import Foreign

    Numbers = npt.NDArray[Any]


class TableApply:
    """The changes of a batch to one table or leaf partition. `truncates` are sequence numbers."""

    def __init__(
        self,
        session: Session,
        target: Relation,
        table: Relation,
        changes: RelationChanges,
        since: int,
        truncates: Sequence[int],
        write: Write,
        *,
        left: Numbers | None = None,
        foreign: Foreign | None = None,
    ) -> None:
        """Changes with sequence numbers below `since` do not concern the table. `write` takes deleted rows and new
        files. The `target` is the table, or the partitioned table whose rows are routed to it. `left`: which changes
        delete a row that goes to another leaf. `foreign`: what other origins have written, if conflicts are kept."""
        self.relation = table
        self.table: LakeTable = write.table
        self.write = write
        assert write.snapshot is not None, "rows are looked for before the write lock is held"
        self._snapshot: int = write.snapshot
        self._session = session
        self._changes = changes
        self._since = since
        self._truncates = sorted(truncates)
        self._target = target
        self._left = left
        self._foreign = foreign

    def decide(self) -> None:
        """Raises NotClean with the sequence number of a message that cannot be carried out."""
        session, table, changes = self._session, self.relation, self._changes
        chosen = changes.seq >= self._since
        inserts, updates, deletes = (bool((chosen & (changes.op == each)).any()) for each in (INSERT, UPDATE, DELETE))
        check_rights(session, table, inserts, updates, deletes)
        matched = MatchedColumns(table, changes.relation)
        keys = table_keys(session, table, matched, changes.unchanged, needed=updates or deletes)
        self.described = described(session, self._target, table, matched, keys, inserts=inserts)
        self._decided = decide(
            self.described,
            changes,
            rows_within(self._session, self.table, self._snapshot),
            since=self._since,
            truncates=self._truncates,
            left=self._left,
            looks=self._foreign is not None,
        )
        self.missed = missed_messages(self._decided, self._foreign, self._left)
        for attnums, count in self._decided.looked_up.items():
            count_index_scans(self._session, self.table.oid, attnums, count)
        self._changes = self._decided.changes

    # --- carrying out -------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Enter the deleted and the replaced rows into the write."""
        if self._truncates:
            self.write.truncate()
            return
        files, inlined = leaving(self._decided)
        for file_id, positions in files:
            self.write.delete_positions(file_id, positions)
        self.write.delete_inlined(inlined)

    def columns(self) -> list[RowsToWrite]:
        """The new rows, to be written."""
        changes, places = self._changes, self.described.new_places
        if self._decided.places is None:
            changes.prepare(places, MOST_BYTES)
        if not changes.fits(places, MOST_BYTES):
            raise Declined("many large values")
        return rows_to_write(self.described, self._decided)


def check_rights(session: Session, table: Relation, inserts: bool, updates: bool, deletes: bool) -> None:
    """Check the privileges of the role that applies changes of these kinds, and the table's replica identity."""
    for privilege, wanted in (("INSERT", inserts), ("UPDATE", updates), ("DELETE", deletes)):
        if wanted:
            check_target_privilege(session, table, privilege)
            if privilege != "INSERT":
                check_target_privilege(session, table, "SELECT")
                check_replica_identity(session, table, privilege)
