"""Changes as text, in the words of PostgreSQL's plugin test_decoding."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.relation import Relation
from pgrepl.lake.history import COMMIT, PREPARE, ROLLBACK, LogicalMessage
from pgrepl.replication.decoding.all_changes import DecodedChange, DecodedTransaction, Row
from pgrepl.replication.decoding.plugin_options import TextOptions
from pgrepl.sql.quote import quote_identifier, quote_literal, quote_qualified
from pgrepl.types import oids
from pgrepl.types.names import format_type
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

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
