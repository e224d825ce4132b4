"""pgrepl's own JSON lines, read and written: `{"op": "update", "schema": …, "table": …, "xid": …, "lsn": …, "at": …,
"new": {…}, "old": {…}}`. Values are PostgreSQL's text or null; a transaction stands between `begin` and `commit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from pgrepl.ground.errors import PgError
from pgrepl.replication.formats.event import BEGIN, COMMIT, BadRecord, ChangeEvent, ColumnTypes, RecordPlace
from pgrepl.replication.formats.json_text import events, value_text
from pgrepl.replication.formats.written import SourceFacts, check_phase, json_line, old_places, parsed, texts
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    OPERATIONS,
    TRUNCATE,
    UPDATE,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.types import oids
from pgrepl.types.plain import lsn_text, parse_lsn
from pgrepl.types.text import read_text, write_text
from pgrepl.types.times.dates import UNIX_EPOCH_USECS

KINDS = (*OPERATIONS, BEGIN, COMMIT)


def is_own(record: Mapping[str, Any]) -> bool:
    """Whether an object is an event of this form."""
    op = record.get("op")
    return op in (BEGIN, COMMIT, TRUNCATE) or (op in KINDS and ("new" in record or "old" in record))


class JsonLinesRecords:
    def __init__(self, types: ColumnTypes | None) -> None:
        self._types = types

    def events(self, file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
        for found in events(file, name, self._event, (ValueError, PgError)):
            yield found if isinstance(found, BadRecord) else found[0]

    def _event(self, record: dict[str, Any], place: RecordPlace) -> ChangeEvent:
        if not is_own(record):
            raise ValueError('it has no "op" with "new" or "old"; if its columns are a row, name the others with op=…')
        kind, schema, table = record["op"], record.get("schema"), record.get("table")
        types = (self._types and self._types(schema, table)) or {}
        new = _row(record, "new", types) if kind in (INSERT, UPDATE) else None
        old = _row(record, "old", types) if kind in (UPDATE, DELETE) and record.get("old") is not None else None
        lsn, at = record.get("lsn"), record.get("at")
        return ChangeEvent(
            kind,
            schema,
            table,
            new,
            old,
            value_text(record.get("xid")),
            None if lsn is None else parse_lsn(str(lsn)),
            None if at is None else int(read_text(str(at), oids.TIMESTAMPTZ)) - UNIX_EPOCH_USECS,
            place,
        )


def _row(record: Mapping[str, Any], name: str, types: Mapping[str, tuple[int, int]]) -> dict[str, str | None]:
    row = record.get(name)
    if not isinstance(row, dict):
        raise ValueError(f'"{name}" is no object')
    return {column: value_text(value, types.get(column, (0, -1))[0]) for column, value in row.items()}


class JsonLinesWriter:
    def __init__(self, context: SourceFacts) -> None:
        self._style = context.style

    def lines(self, transaction: WireTransaction) -> Iterator[bytes]:
        check_phase(transaction)
        xid, lsn = str(transaction.xid), lsn_text(transaction.finish_lsn)
        about = {"xid": xid, "lsn": lsn, "at": write_text(transaction.committed_at, oids.TIMESTAMPTZ, self._style)}
        yield json_line({"op": BEGIN, **about})
        for message in transaction.messages:
            if isinstance(message, TruncateMessage):
                for relation in message.relations:
                    names = {"schema": relation.schema, "table": relation.name}
                    yield json_line({"op": TRUNCATE, **names, "xid": xid, "lsn": lsn})
                continue
            relation = message.relation
            line: dict[str, Any] = {"op": message.operation, "schema": relation.schema, "table": relation.name}
            line |= {"xid": xid, "lsn": lsn}
            if message.old is not None:
                known = {relation.columns[at].name for at in old_places(message)}
                old = texts(relation, message.old, self._style)
                line["old"] = {name: text for name, text in old if name in known}
            if message.new is not None:
                line["new"] = dict(texts(relation, message.new, self._style))
            yield json_line(line)
        yield json_line({"op": COMMIT, **about})

    def position(self, line: bytes) -> int | None:
        try:
            return parse_lsn(str(parsed(line).get("lsn")))
        except PgError:
            return None
