"""The numbers a transaction gives out: object identifiers, snapshots (which are the LSNs), and DuckLake's own ids.

OIDs come from one counter of the instance, kept when the transaction commits; what a session has given out it does not
give again even if that transaction was rolled back. Each statement that changes something replication asks about is one
snapshot; a transaction's snapshots become visible together.

What a snapshot did stands in `ducklake_snapshot_changes`: `changes_made` has DuckLake's own words for it, which every
reader knows; `commit_extra_info` is JSON of ours, absent when there is nothing to say:

* `"transaction": n`: the snapshot is one of several of a transaction, whose first snapshot is n;
* `"last": true`: and the last of them. A snapshot without a transaction is one by itself;
* `"messages": [[transactional, prefix, content in base64, database], …]`: logical messages;
* `"order": [[table, row id, …], …]`: its changes in the order in which they were made, where that is not the order in
  which they are found: by the OIDs of the tables, each row once;
* what else `note` was told about the statement (which tables were truncated, which origin it came from).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog import lake, recovery
from pgrepl.catalog.context import Block, CatalogSession
from pgrepl.errors import PgError
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.context import Origin, TransactionState


class Defining(CatalogSession, Protocol):
    """A session whose definitions other readers of the lake are to see, and theirs it."""

    @property
    def origin(self) -> Origin | None: ...

    def define_in_lake(self) -> None: ...

    def adopt_from_lake(self) -> None: ...


@frozen
class Now:
    """The catalog as a transaction finds it."""

    definitions: tuple[object, ...]  # differs when somebody has changed a definition
    snapshot: int | None  # the newest
    next_catalog_id: int
    next_file_id: int
    schema_version: int  # of DuckLake's definitions
    adopted_version: int | None  # of those with which the system tables agree
    in_recovery: bool

    @property
    def is_behind(self) -> bool:
        """Do the system tables agree with an older version of DuckLake's definitions than there is?"""
        return self.adopted_version != self.schema_version


_NOW = (
    "SELECT i.change_count, i.next_oid, {options}, {inlined}, i.lake_schema_version, s.snapshot_id, s.next_catalog_id,"
    " s.next_file_id, s.schema_version, (SELECT count(*) FROM pgrepl_setting WHERE name = ?)"
    " FROM pgrepl_instance i LEFT JOIN ducklake_snapshot s"
    " ON s.snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)"
)
# What other programs define in a lake without another schema_version. In PostgreSQL every commit counts as a change.
_OPTIONS = (
    "(SELECT group_concat(key || '=' || value || '@' || coalesce(scope || scope_id, ''), ' ') FROM ducklake_metadata)"
)
_INLINED = (
    "(SELECT count(*) || ' ' || total(table_id) || ' ' || total(schema_version) FROM ducklake_inlined_data_tables)"
)


class _Statement:
    """What the running statement has done to the lake so far."""

    __slots__ = ("altered", "changes", "extra", "next_catalog_id", "next_file_id", "schema_changed", "touched")

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.extra: dict[str, Any] = {}
        self.schema_changed = False
        self.altered: list[int] = []  # DuckLake tables whose columns or name changed
        self.next_catalog_id: int | None = None
        self.next_file_id: int | None = None
        self.touched = lake.Touched()


class Numbering:
    def __init__(self, transaction: TransactionState, session: Defining) -> None:
        self._transaction = transaction
        self._session = session
        self._next_oid = 0
        self._oids_taken = False
        self._last: int | None = None  # the newest snapshot, while nobody else can make one
        self._made: int | None = None  # by the running statement
        self._first: int | None = None  # of this transaction
        self._group: int | None = None  # the first snapshot of what others see as one transaction
        self._grouped = False  # snapshots say that they are of this transaction
        self._here = _Statement()
        self._now: Now | None = None  # until the transaction makes a snapshot
        self.has_defined = False  # this transaction has changed what other sessions remember

    # --- what there is --------------------------------------------------------------------------------------------

    def look(self) -> Now:
        """Ask the catalog anew."""
        link = self._session.link
        options, inlined = (_OPTIONS, _INLINED) if link.is_sqlite else ("NULL", "NULL")
        question = _NOW.format(options=options, inlined=inlined)
        *definitions, snapshot, catalog_id, file_id, version, standby = link.execute(question, (recovery.STANDBY,))[0]
        if snapshot is None and not standby:
            raise self._without_snapshots()
        adopted = definitions[-1]
        self._now = Now(tuple(definitions), snapshot, catalog_id, file_id, version, adopted, bool(standby))
        return self._now

    def defines(self) -> None:
        """Who remembers definitions has to read them again."""
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
        """Before the commit. Changes of definitions are counted here, for other sessions to notice; in PostgreSQL all
        changes are."""
        link = self._session.link
        if self._oids_taken:
            link.execute("UPDATE pgrepl_instance SET next_oid = ?, change_count = change_count + 1", (self._next_oid,))
        elif self.has_defined or not link.is_sqlite:
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
        elif self._transaction.aside is not None:
            last = max(last, self._transaction.aside.last_snapshot)
        return last

    def committed_snapshot(self) -> int:
        """The catalog's last one as the transaction sees it, without what it keeps aside."""
        self._transaction.require_read()
        snapshot = (self._now or self.look()).snapshot
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
            if self._first is None:
                self._first = self._made
            if self._group is None:
                self._group = self._made
        return self._made

    def snapshot_aside(self) -> int:
        """The same, by the transaction's own counting: the catalog numbers it anew at the commit."""
        if self._made is None:
            self._made = self.last_snapshot() + 1
        return self._made

    def is_settled(self, snapshot: int) -> bool:
        """Will the running transaction write nothing more of this snapshot?"""
        transaction = self._transaction
        return transaction.aside is None and not transaction.collects and snapshot != self._made

    def catch_up(self) -> None:
        """Others have committed since: what the running statement keeps aside comes behind that."""
        if self._made is not None and self._transaction.aside is not None:
            self._made = max(self._made, self.committed_snapshot() + 1)

    @property
    def first_snapshot(self) -> int | None:
        """The first that this transaction has made."""
        return self._first

    # --- what DuckLake's readers are told -------------------------------------------------------------------------

    @property
    def touched(self) -> lake.Touched:
        """The relations and schemas whose definition the running statement has changed."""
        return self._here.touched

    def note_change(self, change: str) -> None:
        """A word for `changes_made`, such as `inserted_into_table:7`; an unknown one makes catalogs unreadable."""
        if change not in self._here.changes:
            self._here.changes.append(change)

    @property
    def changes(self) -> tuple[str, ...]:
        """The words that were noted of the running statement."""
        return tuple(self._here.changes)

    def note(self, key: str, value: Any) -> None:
        """Something for `commit_extra_info`; lists are put together."""
        extra = self._here.extra
        if isinstance(value, list) and key in extra:
            value = extra[key] + [v for v in value if v not in extra[key]]
        extra[key] = value

    def note_message(self, *, transactional: bool, prefix: str, content: bytes, database: int) -> None:
        """A logical message, for `commit_extra_info`."""
        self.snapshot()
        text = b64encode(content).decode("ascii")
        self._here.extra.setdefault("messages", []).append([transactional, prefix, text, database])

    def note_definition(self, table: int | None = None) -> None:
        """What readers know of definitions is out of date: of this DuckLake table, too."""
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
        """For a DuckLake schema, table, view or column mapping."""
        here = self._here
        if here.next_catalog_id is None:
            here.next_catalog_id = self._previous("next_catalog_id")
        here.next_catalog_id += 1
        return here.next_catalog_id - 1

    def is_new(self, catalog_id: int) -> bool:
        """Has the running statement given it out?"""
        return self._here.next_catalog_id is not None and catalog_id >= self._previous("next_catalog_id")

    def next_file_id(self, count: int = 1) -> int:
        """For a data or delete file; of several the first."""
        here = self._here
        if here.next_file_id is None:
            here.next_file_id = self._previous("next_file_id")
        here.next_file_id += count
        return here.next_file_id - count

    def _previous(self, column: str) -> int:
        snapshot = self.snapshot()
        now = self._now
        if now is not None and now.snapshot == snapshot - 1:
            return int(getattr(now, column))
        link = self._session.link
        sql = f"SELECT {column} FROM ducklake_snapshot WHERE snapshot_id = ?"
        return int(link.execute(sql, (snapshot - 1,))[0][0])

    def store_snapshot(self) -> None:
        """The statement is done."""
        if self.touched:
            self._session.define_in_lake()
        made = self._made
        if made is None:
            return
        here = self._here
        if self._transaction.collects or not self._transaction.is_writing:
            assert self._transaction.aside is not None, "who makes a snapshot without the lock keeps something aside"
            self._transaction.aside.end_statement(made, here.extra)
            self._made = None
            self._here = _Statement()
            return
        link = self._session.link
        if self._session.origin is not None:
            here.extra.setdefault("origin", self._session.origin.name)
            here.extra.setdefault("origin_lsn", self._session.origin.remote_lsn)
        if made != self._group or self._transaction.block is not Block.NONE:
            self._grouped = True
            here.extra["transaction"] = self._group
        now = datetime.now(timezone.utc).isoformat(sep=" ").removesuffix(":00")  # as DuckDB writes it: +00
        link.execute(
            "INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id)"
            " SELECT ?, ?, schema_version + ?, coalesce(?, next_catalog_id), coalesce(?, next_file_id)"
            " FROM ducklake_snapshot WHERE snapshot_id = ?",
            (made, now, int(here.schema_changed), here.next_catalog_id, here.next_file_id, made - 1),
        )
        link.execute(
            "INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made, commit_extra_info) VALUES (?, ?, ?)",
            (made, ",".join(here.changes), _json(here.extra)),
        )
        if here.schema_changed:
            version = self.schema_version
            link.execute("UPDATE pgrepl_instance SET lake_schema_version = ?", (version,))
            if here.altered:
                link.execute_many(
                    "INSERT INTO ducklake_schema_versions (begin_snapshot, schema_version, table_id) VALUES (?, ?, ?)",
                    [(made, version, table) for table in here.altered],
                )
        self._last = made
        self._made = self._now = None
        self._here = _Statement()

    def begin_group(self) -> None:
        """What comes is another transaction for who reads what changed; all of them commit together."""
        self.close_group()
        self._group = None
        self._grouped = False

    def close_group(self) -> None:
        """Before the commit: the transaction's last snapshot says so."""
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
        """What a snapshot's commit_extra_info says, to be changed."""
        import json

        link = self._session.link
        where = "WHERE snapshot_id = ?"
        text = link.execute(f"SELECT commit_extra_info FROM ducklake_snapshot_changes {where}", (snapshot,))[0][0]
        extra = json.loads(text or "{}")
        before = dict(extra)
        yield extra
        if extra != before:
            link.execute(
                f"UPDATE ducklake_snapshot_changes SET commit_extra_info = ? {where}",
                (_json(extra), snapshot),
            )

    # --- what others have defined in the lake ---------------------------------------------------------------------

    def lake_is_new(self) -> bool:
        """Does DuckLake know of no definition yet, because the catalog is from before there was a lake?"""
        return self._session.link.execute("SELECT lake_schema_version FROM pgrepl_instance")[0][0] is None

    def adopt(self) -> None:
        """Bring the system tables in line."""
        link = self._session.link
        if not self.lake_is_new():
            link.execute("INSERT INTO pgrepl_adopted (snapshot_id) VALUES (?)", (self.snapshot(),))
        self._session.adopt_from_lake()
        self.store_snapshot()
        link.execute(
            "UPDATE pgrepl_instance SET lake_schema_version ="
            " (SELECT schema_version FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1)"
        )
        self._now = None

    @contextmanager
    def adopting(self, snapshot: int) -> Iterator[None]:
        """What somebody did at a snapshot is written down as of then."""
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
        self._now = None

    def begin_replay(self) -> None:
        """What was numbered aside gets its numbers from the catalog now."""
        self._last = self._first = None

    def rolled_back_to_savepoint(self) -> None:
        """Snapshots behind it are undone; OIDs given behind it are not given again."""
        self._last = self._made = self._now = None
        self._here = _Statement()


def _json(extra: dict[str, Any]) -> str | None:
    if not extra:
        return None
    import json

    return json.dumps(extra)


def current_lsn(session: CatalogSession) -> int:
    """The end of what has been written: what comes next will have this LSN (pg_current_wal_lsn)."""
    transaction = session.transaction
    numbering = transaction.numbering
    return (numbering.last_snapshot() if transaction.is_writing else numbering.committed_snapshot()) + 1
