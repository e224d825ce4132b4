"""The numbers that a transaction gives out: OIDs, snapshots (which are the LSNs), and DuckLake's own ids.

OIDs come from one counter of the instance, which is stored when the transaction commits; a session gives no OID twice,
even after a rollback. Each statement that changes data or definitions is one snapshot; a transaction's snapshots become
visible together.

`ducklake_snapshot_changes` says what a snapshot did: `changes_made` in DuckLake's own words, which every reader knows;
`commit_extra_info` in pgrepl's JSON, or NULL:

* `"transaction": n`: the snapshot is one of several of a transaction, whose first snapshot is n;
* `"last": true`: and the last of them. A snapshot without `transaction` is a transaction by itself;
* `"messages": [[transactional, prefix, content in base64, database], …]`: logical messages;
* `"order": [[table, row id, …], …]`: its changes in the order in which they were made, where that is not the order in
  which they are found: by the OIDs of the tables, each row once;
* what `note` adds about the statement (the tables that it truncated, its replication origin).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.session import context
from pgrepl.catalog.session.context import Block, CatalogSession
from pgrepl.catalog.store import sql
from pgrepl.catalog.store.declarative import DefinitionChanges
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import Origin, TransactionState


class Defining(CatalogSession, Protocol):
    """A session that writes its definitions into the lake, and adopts those of other writers."""

    @property
    def origin(self) -> Origin | None: ...

    def define_in_lake(self) -> None: ...

    def adopt_from_lake(self) -> None: ...


@frozen
class CatalogState:
    """The state of the catalog when a transaction reads it first."""

    definitions: tuple[object, ...]  # differs after a change of a definition
    snapshot: int | None  # the newest
    next_catalog_id: int
    next_file_id: int
    schema_version: int  # of DuckLake's definitions
    adopted_version: int | None  # the schema_version with which the system tables agree
    in_recovery: bool

    @property
    def is_behind(self) -> bool:
        """Have other writers of the lake changed definitions that the system tables do not show yet?"""
        return self.adopted_version != self.schema_version


class _Statement:
    """The running statement's changes of the lake so far."""

    __slots__ = (
        "altered",
        "changes",
        "definition_changes",
        "extra",
        "next_catalog_id",
        "next_file_id",
        "schema_changed",
    )

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.extra: dict[str, Any] = {}
        self.schema_changed = False
        self.altered: list[int] = []  # DuckLake tables whose columns or name changed
        self.next_catalog_id: int | None = None
        self.next_file_id: int | None = None
        self.definition_changes = DefinitionChanges()


class Numbering:
    def __init__(self, transaction: TransactionState, session: Defining) -> None:
        self._transaction = transaction
        self._session = session
        self._next_oid = 0
        self._oids_taken = False
        self._last: int | None = None  # the newest snapshot, while no other session can make one
        self._made: int | None = None  # by the running statement
        self._first: int | None = None  # of this transaction
        self._group: int | None = None  # the first snapshot of what others see as one transaction
        self._grouped = False  # snapshots say that they are of this transaction
        self.begun = 0  # snapshots so far, those included that were undone
        self._here = _Statement()
        self.imported: int | None = None  # the snapshot of another transaction, which this one reads
        self._state: CatalogState | None = None  # until the transaction makes a snapshot
        self.has_defined = False  # this transaction has changed definitions, which other sessions remember
        self.is_heartbeat = False  # this transaction only tells that a worker is alive

    # --- what there is --------------------------------------------------------------------------------------------

    def read_state(self) -> CatalogState:
        """Read the catalog's state anew."""
        link = self._session.link
        question = sql.STATE_IN_SQLITE if link.is_sqlite else sql.STATE_ON_SERVER
        *definitions, snapshot, catalog_id, file_id, version, standby = link.execute(question, (context.STANDBY,))[0]
        if snapshot is None and not standby:
            raise self._without_snapshots()
        adopted = definitions[-1]
        self._state = CatalogState(tuple(definitions), snapshot, catalog_id, file_id, version, adopted, bool(standby))
        return self._state

    def invalidate(self) -> None:
        """Have the sessions that remember definitions read them again after the commit (CacheInvalidate…)."""
        self.has_defined = True

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
        """Store the OID counter before the commit, and count a change of definitions, for other sessions to notice; in
        PostgreSQL every change counts but heartbeats."""
        link = self._session.link
        if self._oids_taken:
            link.execute("UPDATE pgrepl_instance SET next_oid = ?, change_count = change_count + 1", (self._next_oid,))
        elif self.has_defined or not (link.is_sqlite or self.is_heartbeat):
            link.execute("UPDATE pgrepl_instance SET change_count = change_count + 1")
        self._oids_taken = self.has_defined = False

    # --- snapshots ------------------------------------------------------------------------------------------------

    def last_snapshot(self) -> int:
        """The snapshot this transaction sees last; pg_current_wal_lsn() is the next."""
        if self._made is not None:
            return self._made
        if self._last is not None:
            return self._last
        last = self.committed_snapshot()
        if self._transaction.is_writing:
            self._last = last
        elif self._transaction.pending is not None:
            last = max(last, self._transaction.pending.last_snapshot)
        return last

    def committed_snapshot(self) -> int:
        """The catalog's last snapshot as the transaction sees it, without its pending changes."""
        if self.imported is not None:
            return self.imported
        self._transaction.require_read()
        snapshot = (self._state or self.read_state()).snapshot
        if snapshot is None:
            raise self._without_snapshots()
        return snapshot

    def _without_snapshots(self) -> PgError:
        return PgError("XX001", f'catalog "{self._session.catalog.name}" is damaged: it has no snapshot')

    def snapshot(self) -> int:
        """The snapshot that the running statement makes."""
        if self._made is None:
            self._transaction.require_write()
            self._made = self.last_snapshot() + 1
            self.begun += 1
            if self._first is None:
                self._first = self._made
            if self._group is None:
                self._group = self._made
        return self._made

    def pending_snapshot(self) -> int:
        """The snapshot of the running statement's pending changes, which the commit numbers anew."""
        if self._made is None:
            self._made = self.last_snapshot() + 1
            self.begun += 1
        return self._made

    def is_settled(self, snapshot: int) -> bool:
        """Is the snapshot complete: will the running transaction add nothing to it?"""
        transaction = self._transaction
        return transaction.pending is None and not transaction.collects and snapshot != self._made

    def catch_up(self) -> None:
        """Number the running statement's pending snapshot behind those that others have committed since."""
        if self._made is not None and self._transaction.pending is not None:
            self._made = max(self._made, self.committed_snapshot() + 1)

    @property
    def first_snapshot(self) -> int | None:
        """The first snapshot that this transaction has made."""
        return self._first

    # --- what DuckLake's readers are told -------------------------------------------------------------------------

    @property
    def definition_changes(self) -> DefinitionChanges:
        """The relations and schemas whose definition the running statement has changed."""
        return self._here.definition_changes

    def note_change(self, change: str) -> None:
        """Add a word to `changes_made`, such as `inserted_into_table:7`; an unknown one makes catalogs unreadable."""
        if change not in self._here.changes:
            self._here.changes.append(change)

    @property
    def changes(self) -> tuple[str, ...]:
        """The running statement's words for `changes_made`."""
        return tuple(self._here.changes)

    def note(self, key: str, value: Any) -> None:
        """Add an entry to `commit_extra_info`; lists are joined."""
        extra = self._here.extra
        if isinstance(value, list) and key in extra:
            value = extra[key] + [v for v in value if v not in extra[key]]
        extra[key] = value

    def note_message(self, *, transactional: bool, prefix: str, content: bytes, database: int) -> None:
        """Add a logical message to `commit_extra_info`."""
        self.snapshot()
        text = b64encode(content).decode("ascii")
        self._here.extra.setdefault("messages", []).append([transactional, prefix, text, database])

    def note_definition(self, table: int | None = None) -> None:
        """Raise `schema_version`, by which DuckLake's readers notice new definitions, and list the table as altered."""
        self.snapshot()
        self._here.schema_changed = True
        if table is not None and table not in self._here.altered:
            self._here.altered.append(table)

    @property
    def altered_tables(self) -> list[int]:
        """The DuckLake tables that the running statement has defined anew."""
        return self._here.altered

    @property
    def schema_version(self) -> int:
        """DuckLake's number for the definitions as the running statement leaves them."""
        return self._previous("schema_version") + self._here.schema_changed

    def next_catalog_id(self) -> int:
        """The id of a new DuckLake schema, table, view or column mapping."""
        here = self._here
        if here.next_catalog_id is None:
            here.next_catalog_id = self._previous("next_catalog_id")
        here.next_catalog_id += 1
        return here.next_catalog_id - 1

    def is_new(self, catalog_id: int) -> bool:
        """Has the running statement given out this id?"""
        return self._here.next_catalog_id is not None and catalog_id >= self._previous("next_catalog_id")

    def next_file_id(self, count: int = 1) -> int:
        """The id of a new data or delete file; of several the first."""
        here = self._here
        if here.next_file_id is None:
            here.next_file_id = self._previous("next_file_id")
        here.next_file_id += count
        return here.next_file_id - count

    def _previous(self, column: str) -> int:
        snapshot = self.snapshot()
        now = self._state
        if now is not None and now.snapshot == snapshot - 1:
            return int(getattr(now, column))
        link = self._session.link
        return int(link.execute(sql.number_of_snapshot(column), (snapshot - 1,))[0][0])

    def store_snapshot(self) -> None:
        """Write the statement's snapshot, if it has made one, at its end."""
        if self.definition_changes:
            self._session.define_in_lake()
        snapshot = self._made
        if snapshot is None:
            return
        here = self._here
        if self._transaction.collects or not self._transaction.is_writing:
            assert self._transaction.pending is not None, "a snapshot without the write lock has pending changes"
            self._transaction.pending.end_statement(snapshot, here.extra)
            self._made = None
            self._here = _Statement()
            return
        link = self._session.link
        if self._session.origin is not None:
            here.extra.setdefault("origin", self._session.origin.name)
            here.extra.setdefault("origin_lsn", self._session.origin.remote_lsn)
        if snapshot != self._group or self._transaction.block is not Block.NONE:
            self._grouped = True
            here.extra["transaction"] = self._group
        now = datetime.now(timezone.utc).isoformat(sep=" ").removesuffix(":00")  # as DuckDB writes it: +00
        link.execute(
            sql.INSERT_SNAPSHOT,
            (snapshot, now, int(here.schema_changed), here.next_catalog_id, here.next_file_id, snapshot - 1),
        )
        link.execute(sql.INSERT_CHANGES, (snapshot, ",".join(here.changes), _json(here.extra)))
        if here.schema_changed:
            version = self.schema_version
            link.execute("UPDATE pgrepl_instance SET lake_schema_version = ?", (version,))
            if here.altered:
                link.execute_many(sql.INSERT_SCHEMA_VERSION, [(snapshot, version, table) for table in here.altered])
        self._last = snapshot
        self._made = self._state = None
        self._here = _Statement()

    def begin_group(self) -> None:
        """Begin another transaction for readers of changes, though both commit together."""
        self.close_group()
        self._group = None
        self._grouped = False

    def close_group(self) -> None:
        """Mark the transaction's last snapshot as such, before the commit."""
        if not self._grouped or self._group is None:
            return
        first, last = self._group, self.last_snapshot()
        if last < first:  # savepoints have undone everything
            return
        with self._extra(last) as extra:
            if last == first:
                del extra["transaction"]
            else:
                extra["last"] = True
        if last != first:
            with self._extra(first) as extra:
                extra["transaction"] = first

    @contextmanager
    def _extra(self, snapshot: int) -> Iterator[dict[str, Any]]:
        """A snapshot's commit_extra_info, which the caller changes."""
        link = self._session.link
        text = link.execute(sql.EXTRA_INFO, (snapshot,))[0][0]
        extra = json.loads(text or "{}")
        before = dict(extra)
        yield extra
        if extra != before:
            link.execute(sql.SET_EXTRA_INFO, (_json(extra), snapshot))

    # --- what others have defined in the lake ---------------------------------------------------------------------

    def lake_is_new(self) -> bool:
        """Was the catalog made without a lake (format 1), so that DuckLake has no definitions yet?"""
        return self._session.link.execute("SELECT lake_schema_version FROM pgrepl_instance")[0][0] is None

    def adopt(self) -> None:
        """Bring the system tables in line with DuckLake's definitions."""
        link = self._session.link
        if not self.lake_is_new():
            link.execute("INSERT INTO pgrepl_adopted (snapshot_id) VALUES (?)", (self.snapshot(),))
        self._session.adopt_from_lake()
        self.store_snapshot()
        link.execute(sql.ADOPT_SCHEMA_VERSION)
        self._state = None

    @contextmanager
    def adopting(self, snapshot: int) -> Iterator[None]:
        """Write versions of definitions as of another writer's snapshot."""
        self._made = snapshot
        try:
            yield
        finally:
            self._made = None
            self._here = _Statement()

    # --- the end of it --------------------------------------------------------------------------------------------

    def committed(self) -> None:
        self._last = self._first = self._group = None
        self._grouped = False

    def rolled_back(self) -> None:
        self.rolled_back_to_savepoint()
        self._first = self._group = None
        self._grouped = False
        self._oids_taken = self.has_defined = False
        self._state = None

    def begin_replay(self) -> None:
        """Number the pending snapshots by the catalog from now on."""
        self._last = self._first = None

    def rolled_back_to_savepoint(self) -> None:
        """Forget the snapshots behind the savepoint. OIDs given out behind it are not given out again."""
        self._last = self._made = self._state = None
        self._here = _Statement()


def _json(extra: dict[str, Any]) -> str | None:
    if not extra:
        return None
    return json.dumps(extra)


def current_lsn(session: CatalogSession) -> int:
    """The LSN of the next snapshot (pg_current_wal_lsn)."""
    transaction = session.transaction
    numbering = transaction.numbering
    return (numbering.last_snapshot() if transaction.is_writing else numbering.committed_snapshot()) + 1
