"""Maxwell's change events: a JSON object on each line.

`data` is the new row, or the deleted one; `old` has the old values of columns that an update has changed, so that both
together are the whole old row. With `output_nulls = false` a NULL is left out: a column that is in `old` alone has
become one. A MySQL database is a schema here. Events of definitions (`table-create` …) and the ends
of a bootstrap carry no row; they are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from pgrepl.replication.formats.debezium_values import Undecodable, ValueModes, by_type
from pgrepl.replication.formats.event import BEGIN, COMMIT, BadRecord, ChangeEvent, ColumnTypes, RecordPlace
from pgrepl.replication.formats.json_text import events, value_text
from pgrepl.replication.wire.messages import DELETE, INSERT, UPDATE
from pgrepl.types import oids

_KINDS = {"insert": INSERT, "update": UPDATE, "delete": DELETE, "bootstrap-insert": INSERT}
_WITHOUT_ROW = frozenset({"bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "table-drop",
                          "database-create", "database-alter", "database-drop", "heartbeat"})  # fmt: skip

Row = Mapping[str, "str | None"]


class MaxwellRecords:
    def __init__(self, types: ColumnTypes | None) -> None:
        self._types = types

    def events(self, file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
        begun: str | None = None  # the transaction whose events come now
        for found in events(file, name, self._event, Undecodable):
            if isinstance(found, BadRecord):
                yield found
                continue
            event, record = found
            if begun is not None and event.xid != begun:
                yield _marker(COMMIT, begun, event)
                begun = None
            if begun is None and event.xid is not None:
                begun = event.xid
                yield _marker(BEGIN, begun, event)
            yield event
            if begun is not None and record.get("commit") is True:
                yield _marker(COMMIT, begun, event)
                begun = None

    def _event(self, record: dict[str, Any], place: RecordPlace) -> ChangeEvent | None:
        said = record.get("type")
        if said in _WITHOUT_ROW:
            return None
        kind = _KINDS.get(said) if isinstance(said, str) else None
        if kind is None:
            raise Undecodable(f"unrecognized type {value_text(said)}")
        schema, table = record.get("database"), record.get("table")
        if not isinstance(table, str):
            raise Undecodable('it names no "table"')
        types = (self._types and self._types(schema, table)) or {}
        row = _row(record, "data", types)
        new: Row | None = row
        old: Row | None = None
        if kind == DELETE:
            new, old = None, row
        elif kind == UPDATE and "old" in record:
            before = _row(record, "old", types)
            new = {**dict.fromkeys(before), **row}
            old = {**row, **before}
        at = record.get("ts")
        return ChangeEvent(
            kind, schema, table, new, old, value_text(record.get("xid")), _position(record.get("position")),
            int(at) * 1_000_000 if isinstance(at, str) and at.isdigit() else None, place,
            snapshot=said == "bootstrap-insert",
        )  # fmt: skip


def _marker(kind: str, xid: str, event: ChangeEvent) -> ChangeEvent:
    return ChangeEvent(kind, None, None, None, None, xid, event.lsn, event.at, event.place)


def _row(record: Mapping[str, Any], name: str, types: Mapping[str, tuple[int, int]]) -> Row:
    values = record.get(name)
    if not isinstance(values, dict):
        raise Undecodable("it is encrypted" if "encrypted" in record else f'it has no "{name}"')
    row: dict[str, str | None] = {}
    for column, value in values.items():
        typoid, typmod = types.get(column, (0, -1))
        if typoid == oids.BYTEA:
            convert = by_type(typoid, typmod, ValueModes(binary="base64"))
            row[column] = value_text(value) if convert is None else convert(value)
        else:
            row[column] = value_text(value, typoid)
    return row


def _position(text: Any) -> int | None:
    """A binary log's `file.number:offset` as an LSN."""
    if not isinstance(text, str):
        return None
    file, _, offset = text.rpartition(":")
    number = file.rpartition(".")[2]
    if not (number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit()):
        return None
    return int(number) << 32 | int(offset)
