"""Changes as text, in the words of test_decoding: all tables, all columns, all operations, without a publication."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.changes.changes import RowChange, in_order
from pgrepl.lake.changes.history import COMMIT, PREPARE, ROLLBACK, LogicalMessage, Snapshot, TwoPhase
from pgrepl.replication.publisher.lake.transactions import (
    Changed,
    LakeTransaction,
    class_row,
    is_plain,
    phases,
    prepared_changes,
    read,
    read_changes,
)
from pgrepl.replication.publisher.plan import ReplicaIdentity
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.sql.location import get_boolean, get_streaming
from pgrepl.sql.nodes import DefElem
from pgrepl.types import oids
from pgrepl.types.names import format_type
from pgrepl.types.numbers import parse_bool
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


Given = Sequence[tuple[str, str]]
_OLDEST_VERSION = 1  # of the protocol
_NEWEST_VERSION = 4


@dataclass
class TextOptions:
    """The options of test_decoding."""

    include_xids: bool = True
    include_timestamp: bool = False
    skip_empty_xacts: bool = False
    only_local: bool = False
    force_binary: bool = False
    include_rewrites: bool = False  # no effect: rewrites of tables are not decoded
    stream_changes: bool = False  # no effect: a transaction is decoded only after its commit


def text_options(given: Given) -> TextOptions:
    """Read the options of test_decoding (pg_decode_startup)."""
    options = TextOptions()
    for name, value in given:
        attribute = name.replace("-", "_")
        if "_" in name or not hasattr(options, attribute):
            raise PgError("22023", f'option "{name}" = "{value}" is unknown')
        flag = parse_bool(value)
        if flag is None:
            raise PgError("22023", f'could not parse value "{value}" for parameter "{name}"')
        setattr(options, attribute, flag)
    return options


@frozen
class ProtocolOptions:
    """The options of pgoutput."""

    publications: tuple[str, ...]
    local_only: bool
    messages: bool
    two_phase: bool
    binary: bool  # values in their types' binary format
    definitions: bool  # the definitions of tables, too, as schema_changes = all follows them; PostgreSQL has no such


def protocol_options(given: Given) -> ProtocolOptions:
    """Read and check the options of pgoutput (parse_output_parameters, pgoutput_startup). `streaming` allows large
    transactions to be sent before their end; the protocol leaves it to the publisher, and here none is."""
    seen: dict[str, str] = {}
    version = 0
    flags = dict.fromkeys(("two_phase", "messages", "binary", "definitions"), False)
    publications: list[str] | None = None
    streaming = "f"
    for name, value in given:
        if name not in ("proto_version", "publication_names", "streaming", "origin", *flags):
            raise PgError("XX000", f"unrecognized pgoutput option: {name}")
        if name in seen:
            raise PgError("42601", "conflicting or redundant options")
        seen[name] = value
        if name == "proto_version":
            parsed = _unsigned(value)
            if parsed is None:
                raise PgError("22023", "invalid proto_version")
            if parsed > 0xFFFF_FFFF:
                raise PgError("22023", f'proto_version "{value}" out of range')
            version = parsed
        elif name == "publication_names":
            publications = split_identifiers(value)
            if publications is None:
                raise PgError("42602", "invalid publication_names syntax")
        elif name == "origin":
            if value.lower() not in ("none", "any"):
                raise PgError("22023", f'unrecognized origin value: "{value}"')
        elif name == "streaming":
            streaming = get_streaming(DefElem(name, value))
        else:
            flags[name] = get_boolean(DefElem(name, value))
    for required in ("proto_version", "publication_names"):
        if required not in seen:
            raise PgError("22023", f'option "{required}" missing')
    _check_version(version, streaming, two_phase=flags["two_phase"])
    local_only = seen.get("origin", "any").lower() == "none"
    return ProtocolOptions(tuple(publications or ()), local_only, **flags)


def _unsigned(text: str) -> int | None:
    """The number that strtoul() reads: there may be blanks before it and a sign, and a negative one counts from the
    end of 64 bits. None: it is no number, or has more than 64 bits."""
    found = re.fullmatch(r"[ \t\n\v\f\r]*([+-]?)([0-9]*)", text)
    if found is None or (not found[2] and text):
        return None
    number = int(found[2] or 0)
    if number >= 2**64:
        return None
    return -number % 2**64 if found[1] == "-" else number


def _check_version(version: int, streaming: str, *, two_phase: bool) -> None:
    """Raise unless the protocol of this version has what is asked for."""
    sent = f"client sent proto_version={version} but server only supports protocol"
    if version > _NEWEST_VERSION:
        raise PgError("0A000", f"{sent} {_NEWEST_VERSION} or lower")
    if version < _OLDEST_VERSION:
        raise PgError("0A000", f"{sent} {_OLDEST_VERSION} or higher")
    for is_asked, what, least in (
        (streaming == "p", "parallel streaming", 4),
        (streaming != "f", "streaming", 2),
        (two_phase, "two-phase commit", 3),
    ):
        if is_asked and version < least:
            raise PgError("22023", f"requested proto_version={version} does not support {what}, need {least} or higher")


# --- all changes ------------------------------------------------------------------------------------------------------


Row = tuple[object, ...]


@frozen
class DecodedTable:
    """A table as of a change."""

    relation: Relation
    identity: ReplicaIdentity


@frozen
class DecodedChange:
    """One change, or with `truncated` a TRUNCATE of tables, or a logical message."""

    lsn: int
    table: DecodedTable | None = None
    change: RowChange | None = None
    truncated: tuple[Relation, ...] = ()
    cascade: bool = False
    restart_identity: bool = False
    emitted: LogicalMessage | None = None


@frozen
class DecodedTransaction:
    xid: int
    first_lsn: int
    end_lsn: int
    committed_at: int
    changes: tuple[DecodedChange, ...]
    phase: TwoPhase | None = None  # None: it is committed


def decoded(
    session: Session, start: int, end: int, *, local_only: bool, two_phase_at: int | None = None
) -> Iterator[DecodedTransaction]:
    """The transactions that finish at `start` or later and before `end`, empty ones included."""
    transactions, _ = read(session, start, end)
    known = _Tables(session)
    changed = read_changes(session, [s for transaction in transactions for s in transaction.snapshots], known.has)
    for transaction in transactions:
        last, said = transaction.last, transaction.two_phase
        if local_only and last.origin:
            continue
        if not is_plain(transaction, two_phase_at, filters=True):
            yield from _in_phases(session, transaction, two_phase_at)
        elif transaction.is_of(session.database_oid, known.has) and (said is None or said.statements):
            parts = [part for s in transaction.snapshots for part in _of_snapshot(session, s, changed, known)]
            yield DecodedTransaction(transaction.xid, transaction.first, last.id + 1, last.time, tuple(parts))


def _in_phases(
    session: Session, transaction: LakeTransaction, two_phase_at: int | None
) -> Iterator[DecodedTransaction]:
    """The phases of a prepared transaction: PREPARE with its changes, and how it ended."""
    last, said = transaction.last, transaction.two_phase
    assert said is not None
    for kind in phases(session, transaction, two_phase_at, filters=True):
        phase = replace(said, kind=kind)
        if kind != PREPARE:
            yield DecodedTransaction(said.xid, last.id, last.id + 1, last.time, (), phase)
            continue
        with prepared_changes(session, said, at_prepare=said.kind == PREPARE) as (there, snapshots):
            known = _Tables(there)
            changed = read_changes(there, snapshots, known.has)
            parts = [part for snapshot in snapshots for part in _of_snapshot(there, snapshot, changed, known)]
        parts = [replace(part, lsn=said.xid) for part in parts]
        yield DecodedTransaction(said.xid, said.xid, said.xid + 1, said.prepared_at, tuple(parts), phase)


class _Tables:
    """The tables of the session's database, as of each change."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[int, int], DecodedTable | None] = {}

    def at(self, stretch: int, oid: int) -> DecodedTable | None:
        key = (stretch, oid)
        if key not in self._known:
            past = self._session.at(stretch)
            row = class_row(past, oid)
            table = relation(past, oid) if row is not None and row.relpersistence == "p" else None
            self._known[key] = None if table is None else DecodedTable(table, ReplicaIdentity.of(past, table))
        return self._known[key]

    def has(self, stretch: int, oid: int) -> bool:
        return self.at(stretch, oid) is not None


def _of_snapshot(session: Session, snapshot: Snapshot, changed: Changed, known: _Tables) -> Iterator[DecodedChange]:
    for message in snapshot.emitted:
        if message.database == session.database_oid:
            yield DecodedChange(snapshot.id, emitted=message)
    emptied = [known.at(snapshot.stretch, table) for table in snapshot.truncated]
    relations = tuple([table.relation for table in emptied if table is not None])
    if relations:
        yield DecodedChange(
            snapshot.id, truncated=relations, cascade=snapshot.cascade, restart_identity=snapshot.restart_identity
        )
    here = {oid: changed.get((snapshot.id, oid), ()) for oid in snapshot.tables}
    for oid, change in in_order(snapshot, here):
        table = known.at(snapshot.stretch, oid)
        if table is not None:
            yield DecodedChange(snapshot.id, table, change)


# --- text -------------------------------------------------------------------------------------------------------------


_BARE = frozenset(
    (oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC)
)  # types whose values are not quoted

_ENDS = {PREPARE: "PREPARE TRANSACTION", COMMIT: "COMMIT PREPARED", ROLLBACK: "ROLLBACK PREPARED"}

Line = tuple[int, int, str]  # lsn, xid, data


def lines(transaction: DecodedTransaction, options: TextOptions, style: TextStyle) -> Iterator[Line]:
    """A transaction's lines; none for an empty one that is to be skipped."""
    xid = transaction.xid
    at = f" (at {write_text(transaction.committed_at, oids.TIMESTAMPTZ, style)})" if options.include_timestamp else ""
    phase = transaction.phase
    if phase is not None:
        end = f", txid {xid}" if options.include_xids else ""
        end = f"{_ENDS[phase.kind]} {quote_literal(phase.gid)}{end}{at}"
        if phase.kind != PREPARE:
            yield transaction.end_lsn, xid, end
            return
    changes = []
    for change in transaction.changes:
        if change.emitted is not None and not change.emitted.transactional:
            yield change.lsn + 1, 0, _emitted(change.emitted)
        else:
            changes.append(change)
    if not changes and (options.skip_empty_xacts or transaction.changes):
        return
    number = f" {xid}" if options.include_xids else ""
    yield transaction.first_lsn, xid, f"BEGIN{number}"
    for change in changes:
        yield change.lsn, xid, _change(change, style)
    yield transaction.end_lsn, xid, f"COMMIT{number}{at}" if phase is None else end


def _emitted(message: LogicalMessage) -> str:
    """The line of a logical message (pg_decode_message). The content ends at its first zero byte, as a C string."""
    content = message.content.partition(b"\0")[0].decode("utf-8", "replace")
    about = f"transactional: {message.transactional:d} prefix: {message.prefix}, sz: {len(message.content)}"
    return f"message: {about} content:{content}"


def _change(part: DecodedChange, style: TextStyle) -> str:
    if part.emitted is not None:
        return _emitted(part.emitted)
    if part.truncated:
        return _truncate(part)
    assert part.table is not None and part.change is not None
    table, old, new = part.table, part.change.old, part.change.new
    name = f"table {_name(table.relation)}:"
    if old is None:
        assert new is not None
        return f"{name} INSERT:{_row(table.relation, new, style)}"
    if new is None:
        known = table.identity.image(old, None)
        shown = " (no-tuple-data)" if known is None else _row(table.relation, known, style, skip_nulls=True)
        return f"{name} DELETE:{shown}"
    known = table.identity.image(old, new)
    before = "" if known is None else f" old-key:{_row(table.relation, known, style, skip_nulls=True)} new-tuple:"
    return f"{name} UPDATE:{before}{_row(table.relation, new, style)}"


def _truncate(part: DecodedChange) -> str:
    names = ", ".join(_name(relation) for relation in part.truncated)
    flags = f"{' restart_seqs' if part.restart_identity else ''}{' cascade' if part.cascade else ''}"
    return f"table {names}: TRUNCATE:{flags or ' (no-flags)'}"


def _name(relation: Relation) -> str:
    return quote_qualified(relation.schema, relation.name)


def _row(relation: Relation, row: Row, style: TextStyle, *, skip_nulls: bool = False) -> str:
    """The columns of a row, with names and types (tuple_to_stringinfo)."""
    parts = []
    for column in relation.columns:
        value = row[column.num - 1] if column.num <= len(row) else None
        if value is None and skip_nulls:
            continue
        text = "null" if value is None else _literal(column.type, write_text(value, column.type, style))
        parts.append(f" {quote_identifier(column.name)}[{format_type(column.type)}]:{text}")
    return "".join(parts)


def _literal(typoid: int, text: str) -> str:
    """A value as a literal; numbers are not quoted (print_literal)."""
    if typoid in _BARE:
        return text
    if typoid == oids.BOOL:
        return "true" if text == "t" else "false"
    if typoid in (oids.BIT, oids.VARBIT):
        return f"B'{text}'"
    return "'" + text.replace("'", "''") + "'"
