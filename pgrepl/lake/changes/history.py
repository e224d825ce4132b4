"""The history of snapshots: the tables that each changed, and pgrepl's notes about it.

DuckLake's `changes_made` names the tables whose rows changed; `commit_extra_info` has pgrepl's notes: the tables of a
TRUNCATE, the replication origin, the order of changes, the snapshots of one transaction, logical messages. A snapshot
of another writer is a transaction by itself.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

ROW_CHANGES = ("inserted_into_table", "deleted_from_table", "inlined_insert", "inlined_delete")
_COMPACTION = ("merge_adjacent", "rewrite_delete", "compacted_table", "inline_flush", "flushed_inlined")
_MESSAGES = "messages"
_TWO_PHASE = "two_phase"
PREPARE, COMMIT, ROLLBACK = "prepare", "commit", "rollback"  # of a prepared transaction
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


@frozen
class LogicalMessage:
    """A message of pg_logical_emit_message(). One that is not transactional does not depend on the end of its
    transaction."""

    transactional: bool
    prefix: str
    content: bytes
    database: int


@frozen
class TwoPhase:
    """PREPARE, COMMIT or ROLLBACK of a prepared transaction (prepared.py)."""

    kind: str  # prepare, commit, rollback
    gid: str
    xid: int  # the snapshot of its PREPARE
    database: int
    prepared_at: int  # microseconds since 2000-01-01 UTC
    statements: int  # that have changed rows


@frozen
class Snapshot:
    id: int
    time: int  # of the commit at its origin: microseconds since 2000-01-01 UTC
    tables: tuple[int, ...]  # OIDs of the tables whose rows changed, in the order of the changes
    stretch: int  # the first snapshot since which no definition has changed
    first: int  # of its transaction
    is_last: bool  # of its transaction
    truncated: tuple[int, ...] = ()
    cascade: bool = False
    restart_identity: bool = False
    origin: str | None = None  # of changes that were replicated
    origin_lsn: int = 0  # the end of its transaction at the origin
    order: tuple[tuple[int, ...], ...] = ()  # (table, row id, …), …, if that is not the order of `changes`
    emitted: tuple[LogicalMessage, ...] = ()
    two_phase: TwoPhase | None = None
    compacted: tuple[int, ...] = ()  # DuckLake tables whose files were only rearranged
    is_rewrite: bool = False  # rows were rewritten for a new definition

    def rearranges(self, table_id: int) -> bool:
        """Did rows of the table only move?"""
        return self.is_rewrite or table_id in self.compacted


def snapshots(session: Session, after: int, upto: int) -> list[Snapshot]:
    """The snapshots behind `after` up to `upto` that changed rows or end a transaction, in order."""
    session.transaction.require_read()
    link = session.link
    rows = link.execute(sql.HISTORY, (after, upto))
    parsed = [(number, when, _words(changes), json.loads(extra or "{}")) for number, when, changes, extra in rows]
    oids = _oids(session, {table for _, _, words, _ in parsed for word, table in words if word in ROW_CHANGES})
    kept = []
    stretch, defined = 0, True
    for number, when, words, extra in parsed:
        data = list(dict.fromkeys([oids[table] for word, table in words if word in ROW_CHANGES and table in oids]))
        defines = any(word not in ROW_CHANGES and word not in _COMPACTION for word, _ in words)
        defines = defines or (not words and _MESSAGES not in extra and _TWO_PHASE not in extra)
        if defines or defined:
            stretch = number
        defined = defines
        compacted = tuple([table for word, table in words if word in _COMPACTION])
        kept.append(_made(number, when, data, stretch, extra, compacted))
    return kept


def _made(
    number: int, when: Any, data: list[int], stretch: int, extra: dict[str, Any], compacted: tuple[int, ...]
) -> Snapshot:
    truncate = extra.get("truncate", {})
    return Snapshot(
        number,
        extra.get("committed_at") or _microseconds(when),
        () if extra.get("rewrite") else tuple(data),
        stretch,
        extra.get("transaction", number),
        "transaction" not in extra or bool(extra.get("last")),
        tuple(truncate.get("tables", ())),
        bool(truncate.get("cascade")),
        bool(truncate.get("restart_identity")),
        extra.get("origin"),
        extra.get("origin_lsn", 0),
        tuple([tuple(part) for part in extra.get("order", ())]),
        tuple([LogicalMessage(t, prefix, b64decode(content), d) for t, prefix, content, d in extra.get(_MESSAGES, ())]),
        TwoPhase(*extra[_TWO_PHASE]) if _TWO_PHASE in extra else None,
        compacted,
        bool(extra.get("rewrite")),
    )


def compactions(session: Session, table_id: int, after: int, upto: int) -> frozenset[int]:
    """The snapshots that only rearranged the files of a table, or rewrote its rows for a new definition."""
    link = session.link
    rows = link.execute(sql.CHANGES_BETWEEN, (after, upto))
    numbers = set()
    for number, changes, extra in rows:
        rewritten = extra is not None and "rewrite" in extra and json.loads(extra).get("rewrite")
        if rewritten or any(word in _COMPACTION and table == table_id for word, table in _words(changes)):
            numbers.add(number)
    return frozenset(numbers)


def committed_since(session: Session, snapshot: int) -> datetime | None:
    """The time at which the first snapshot from this one on was committed; None: there is none."""
    ((when,),) = session.link.execute(sql.SNAPSHOT_TIME_FROM, (snapshot,))
    return None if when is None else _EPOCH + timedelta(microseconds=_microseconds(when))


def changes_after(session: Session, snapshot: int) -> Iterator[tuple[str, int]]:
    """The words of `changes_made` of all snapshots behind this one, each with its DuckLake table, or 0."""
    for (changes,) in session.link.execute(sql.CHANGES_AFTER, (snapshot,)):
        yield from _words(changes)


def _words(changes_made: str | None) -> list[tuple[str, int]]:
    """The words of `changes_made`, each with its DuckLake table, or 0."""
    words = []
    for part in (changes_made or "").split(","):
        word, _, about = part.strip().partition(":")
        if word:
            words.append((word, int(about) if about.isdigit() else 0))
    return words


def _oids(session: Session, table_ids: set[int]) -> dict[int, int]:
    """The relations of DuckLake's tables, dropped ones included."""
    link = session.link
    oids: dict[int, int] = {}
    for table_id in table_ids:
        key = ("oid", table_id)
        if key not in session.derived:
            rows = link.execute(sql.RELATION_OF_TABLE, (table_id,))
            if rows:
                session.derived[key] = rows[0][0]
        if key in session.derived:
            oids[table_id] = session.derived[key]
    return oids


def _microseconds(when: Any) -> int:
    moment = when if isinstance(when, datetime) else datetime.fromisoformat(_normal(str(when)))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _normal(text: str) -> str:
    """The time in a form that Python 3.10 reads: DuckDB writes a short zone (+00) and any number of fraction digits."""
    day, _, rest = text.strip().partition(" ")
    cut = max(rest.find("+"), rest.find("-"))
    clock, zone = (rest[:cut], rest[cut:]) if cut > 0 else (rest, "+00:00")
    whole, _, fraction = clock.partition(".")
    zone = zone if ":" in zone else zone + ":00"
    return f"{day}T{whole}.{fraction.ljust(6, '0')[:6]}{zone}"
