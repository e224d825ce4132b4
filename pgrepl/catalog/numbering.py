"""The numbers a transaction gives out: object identifiers, and snapshots, which are the LSNs.

OIDs come from one counter of the instance, kept when the transaction commits; what a session has given out it does not
give again even if that transaction was rolled back. Each statement that changes something replication asks about is one
snapshot; a transaction's snapshots become visible together.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.transaction import Transaction


class Numbering:
    def __init__(self, transaction: Transaction, session: Session) -> None:
        self._transaction = transaction
        self._session = session
        self._next_oid = 0
        self._oids_taken = False
        self._last: int | None = None  # the newest snapshot, while nobody else can make one
        self._made: int | None = None  # by the running statement

    # --- object identifiers ---------------------------------------------------------------------------------------

    def next_oid(self) -> int:
        self._transaction.require_write()
        if not self._oids_taken:
            stored = self._session.link.execute("SELECT next_oid FROM pgrepl_instance")[0][0]
            self._next_oid = max(int(stored), self._next_oid)
            self._oids_taken = True
        oid = self._next_oid
        self._next_oid += 1
        return oid

    def store_oids(self) -> None:
        """Before the commit. A catalog in PostgreSQL counts its changes here, for other sessions to notice."""
        link = self._session.link
        if self._oids_taken:
            link.execute(
                f"UPDATE pgrepl_instance SET next_oid = {link.mark}, change_count = change_count + 1", (self._next_oid,)
            )
        elif not link.is_sqlite:
            link.execute("UPDATE pgrepl_instance SET change_count = change_count + 1")
        self._oids_taken = False

    # --- snapshots ------------------------------------------------------------------------------------------------

    def last_snapshot(self) -> int:
        """The snapshot this transaction sees last; pg_current_wal_lsn() is the next."""
        if self._made is not None:
            return self._made
        if self._last is not None:
            return self._last
        self._transaction.require_read()
        last = int(self._session.link.execute("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0])
        if self._transaction.is_writing:
            self._last = last
        return last

    def snapshot(self) -> int:
        """The snapshot that the running statement makes."""
        if self._made is None:
            self._transaction.require_write()
            self._made = self.last_snapshot() + 1
        return self._made

    def store_snapshot(self) -> None:
        """The statement is done."""
        made = self._made
        if made is None:
            return
        link = self._session.link
        mark = link.mark
        now = datetime.now(timezone.utc).isoformat(sep=" ")
        link.execute(
            "INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id)"
            f" SELECT {mark}, {mark}, schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot"
            f" WHERE snapshot_id = {mark}",
            (made, now, made - 1),
        )
        link.execute(
            f"INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made) VALUES ({mark}, {mark})", (made, "")
        )
        self._last = made
        self._made = None

    # --- the end of it --------------------------------------------------------------------------------------------

    def committed(self) -> None:
        self._last = None

    def rolled_back(self) -> None:
        self._last = self._made = None
        self._oids_taken = False

    def rolled_back_to_savepoint(self) -> None:
        """Snapshots behind it are undone; OIDs given behind it are not given again."""
        self._last = self._made = None
