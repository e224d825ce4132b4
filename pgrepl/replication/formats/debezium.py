"""Debezium's and Maxwell's change events as JSON, one on each line.

Debezium: the envelope with and without its schema, and rows flattened by ExtractNewRecordState. Tombstones,
heartbeats and metadata are passed over. Maxwell: `data` is the new or the deleted row, `old` what an update has
changed; a column in `old` alone became NULL. A MySQL database is a schema here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa
from pgrepl.replication.formats.debezium_values import (
    Convert,
    Unavailable,
    Undecodable,
    ValueModes,
    base64_bytea,
    by_schema,
    by_type,
)
from pgrepl.replication.formats.event import BEGIN, COMMIT, BadRecord, ChangeEvent, ColumnTypes, RecordPlace
from pgrepl.replication.formats.json_text import INVALID, bad_json, events, lines, raw_json, read_json, value_text
from pgrepl.replication.wire.messages import DELETE, INSERT, TRUNCATE, UPDATE
from pgrepl.types import oids

OPERATIONS = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE, "t": TRUNCATE}
READ = "r"
_MESSAGE = "m"
SNAPSHOT = frozenset({"true", "first", "first_in_data_collection", "last_in_data_collection", "last",
                       "incremental"})  # fmt: skip

Row = Mapping[str, "str | None"]


@frozen
class EventSource:
    """The `source` block of an event."""

    schema: str | None
    table: str | None
    xid: str | None
    lsn: int | None
    at: int | None
    snapshot: bool


class Columns:
    """The conversion of one table's columns to text."""

    def __init__(self, converters: Mapping[str, Convert], unavailable: Unavailable) -> None:
        self.converters = converters
        self._unavailable = unavailable

    def placeholders(self) -> pa.Array:
        """The texts that stand for an unchanged value."""
        return pa.array(sorted(self._unavailable.texts))

    def row(self, values: Any) -> Row:
        """A row without the values that were not sent."""
        if not isinstance(values, dict):
            raise Undecodable("a row is no object")
        row: dict[str, str | None] = {}
        convert, unavailable = self.converters, self._unavailable
        for name, value in values.items():
            kind = type(value)
            if value is None:
                row[name] = None
            elif (kind is str or kind is list or kind is dict) and unavailable.is_it(value):
                continue
            elif name in convert:
                try:
                    row[name] = convert[name](value)
                except Undecodable as problem:
                    raise Undecodable(f'column "{name}": {problem}') from None
            else:
                row[name] = value if kind is str else value_text(value)
        return row


class DebeziumRecords:
    """Reads single events."""

    def __init__(self, modes: ValueModes, types: ColumnTypes | None, prefix: str) -> None:
        self.modes = modes
        self.unavailable = Unavailable(modes.placeholder)
        self._types = types
        self._prefix = prefix  # of the fields that flattening adds
        self._known: dict[tuple[str | None, str | None], Columns] = {}
        self._schema: tuple[bytes, dict[str, Any]] | None = None  # the start of the last line with a schema, and that
        self._by_schema: dict[tuple[str, str | None, str | None], Columns] = {}

    def events(self, file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
        for number, line in lines(file, name):
            if line and not line.isspace():
                yield from self.of_line(line, RecordPlace(name, number))

    def of_line(self, line: bytes, place: RecordPlace) -> Iterator[ChangeEvent | BadRecord]:
        """The event of a line, if it has one."""
        try:
            schema, payload = self._payload(line)
            if payload is not None:
                event = self._event(payload, schema, place)
                if event is not None:
                    yield event
        except Undecodable as problem:
            yield BadRecord(INVALID, str(problem), place, record=line)
        except (ValueError, RecursionError) as problem:
            yield bad_json(problem, place, line)

    def _payload(self, line: bytes) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The schema, if there is one, and the event. The schema is the same on many lines: it is parsed once."""
        if self._schema is not None and line.startswith(self._schema[0]):
            text = line[len(self._schema[0]) :].decode()
            payload, end = raw_json(text, len(text) - len(text.lstrip()))
            if text[end:].strip() == "}":
                return self._schema[1], _payload_of(payload)
        record = read_json(line.decode())
        if record is None:
            return None, None
        if not isinstance(record, dict):
            raise Undecodable("it is no JSON object")
        if "payload" not in record or not ("schema" in record or len(record) == 1):
            return None, record
        schema, payload = record.get("schema"), _payload_of(record["payload"])
        if schema is not None and not isinstance(schema, dict):
            raise Undecodable("its schema is no object")
        start = line.find(b'"payload":') + len(b'"payload":')
        if schema is not None and list(record) == ["schema", "payload"] and line.count(b'"payload":') == 1:
            self._schema = (line[:start], schema)
            self._by_schema = {}
        return schema, payload

    def schema_front(self, line: bytes) -> bytes | None:
        """The start of a line that has a schema, up to its payload."""
        try:
            self._payload(line)
        except (Undecodable, ValueError, RecursionError):
            return None
        return None if self._schema is None or not line.startswith(self._schema[0]) else self._schema[0]

    def schema_of(self, front: bytes) -> dict[str, Any] | None:
        return None if self._schema is None or self._schema[0] != front else self._schema[1]

    def _event(self, payload: dict[str, Any], schema: dict[str, Any] | None, place: RecordPlace) -> ChangeEvent | None:
        if "op" in payload and ("after" in payload or "before" in payload or "source" in payload):
            return self._of_envelope(payload, schema, place)
        if _carries_no_change(payload):
            return None
        return self._flattened(payload, schema, place)

    def _of_envelope(
        self, payload: dict[str, Any], schema: dict[str, Any] | None, place: RecordPlace
    ) -> ChangeEvent | None:
        op = payload["op"]
        if op == _MESSAGE:
            return None
        kind = OPERATIONS.get(op) if isinstance(op, str) else None
        if kind is None:
            raise Undecodable(f'unrecognized operation {value_text(op)}: "op" is one of c, r, u, d, t')
        source = source_of(payload.get("source") or {}, payload.get("transaction"))
        before, after = payload.get("before"), payload.get("after")
        new = old = None
        if kind in (INSERT, UPDATE):
            if after is None:
                raise Undecodable(f'the event has no "after", but "op" is {op}')
            new = self.columns_of(schema, "after", source).row(after)
        if kind in (UPDATE, DELETE) and before is not None:
            old = self.columns_of(schema, "before", source).row(before)
        return ChangeEvent(
            kind, source.schema, source.table, new, old, source.xid, source.lsn, source.at, place,
            snapshot=op == READ or (kind == INSERT and source.snapshot),
        )  # fmt: skip

    def columns_of(self, schema: dict[str, Any] | None, side: str | None, source: EventSource) -> Columns:
        if schema is None:
            return self.columns(source.schema, source.table)
        if self._schema is None or self._schema[1] is not schema:
            return self._schema_columns(schema, side, source)
        key = (side or "", source.schema, source.table)
        if key not in self._by_schema:
            self._by_schema[key] = self._schema_columns(schema, side, source)
        return self._by_schema[key]

    def _schema_columns(self, schema: dict[str, Any], side: str | None, source: EventSource) -> Columns:
        """`side`: the field of the envelope that the row is in; None: the schema is the row's."""
        fields = schema.get("fields")
        if side is not None and isinstance(fields, list):
            fields = next((field.get("fields") for field in fields if field.get("field") == side), None)
        if not isinstance(fields, list):
            return self.columns(source.schema, source.table)
        types = self.types(source.schema, source.table)
        converters = {}
        for field in fields:
            convert = by_schema(field, self.modes, *types.get(field.get("field"), (0, -1)))
            if convert is not None:
                converters[field["field"]] = convert
        return Columns(converters, self.unavailable)

    def columns(self, schema: str | None, table: str | None) -> Columns:
        """The conversion of a table's columns, by the types of the declared table."""
        key = (schema, table)
        if key not in self._known:
            converters = {name: by_type(*kind, self.modes) for name, kind in self.types(schema, table).items()}
            known = {name: convert for name, convert in converters.items() if convert is not None}
            self._known[key] = Columns(known, self.unavailable)
        return self._known[key]

    def types(self, schema: str | None, table: str | None) -> Mapping[str, tuple[int, int]]:
        return (self._types and self._types(schema, table)) or {}

    def _flattened(
        self, payload: dict[str, Any], schema: dict[str, Any] | None, place: RecordPlace
    ) -> ChangeEvent | None:
        prefix = self._prefix
        added = {name[len(prefix) :]: value for name, value in payload.items() if name.startswith(prefix)}
        row = {name: value for name, value in payload.items() if not name.startswith(prefix)}
        op = added.get("op")
        if op is None and str(added.get("deleted")).lower() == "true":
            op = "d"
        if op == _MESSAGE:
            return None
        kind = OPERATIONS.get(op) if isinstance(op, str) else None
        if kind is None:
            raise Undecodable(
                "the record does not say its operation; add op to the add.fields of ExtractNewRecordState"
                if op is None
                else f"unrecognized operation {value_text(op)}: {prefix}op is one of c, r, u, d, t"
            )
        about = {name.removeprefix("source_"): value for name, value in added.items() if name != "ts_ms"}
        source = source_of(about, None)
        values = None if kind == TRUNCATE else self.columns_of(schema, None, source).row(row)
        new, old = (None, values) if kind == DELETE else (values, None)
        return ChangeEvent(
            kind, source.schema, source.table, new, old, source.xid, source.lsn, source.at, place, snapshot=op == READ
        )


def _payload_of(value: Any) -> dict[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise Undecodable("its payload is no object")
    return value


def _carries_no_change(payload: Mapping[str, Any]) -> bool:
    """Whether a record is transaction metadata or a heartbeat."""
    if payload.get("status") in ("BEGIN", "END") and "id" in payload and "event_count" in payload:
        return True
    return bool(payload) and set(payload) <= {"ts_ms", "ts_us", "ts_ns"}


def source_of(source: Mapping[str, Any], transaction: Any) -> EventSource:
    """The contents of a `source` block. A binary log's file and position make an LSN."""
    xid = source.get("txId", source.get("gtid"))
    if xid is None and isinstance(transaction, dict) and transaction.get("id") is not None:
        xid = str(transaction["id"]).partition(":")[0]
    return EventSource(
        _word(source.get("schema")) or _word(source.get("db")),
        _word(source.get("table")),
        None if xid is None else value_text(xid),
        _position(source),
        _time(source),
        str(source.get("snapshot")).lower() in SNAPSHOT,
    )


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _position(source: Mapping[str, Any]) -> int | None:
    lsn = source.get("lsn")
    if isinstance(lsn, str) and lsn.isascii() and lsn.isdigit():
        return int(lsn)
    file, pos = source.get("file"), source.get("pos")
    if isinstance(file, str) and isinstance(pos, str) and pos.isdigit():
        number = file.rpartition(".")[2]
        if number.isascii() and number.isdigit():
            return int(number) << 32 | int(pos)
    return None


def _time(source: Mapping[str, Any]) -> int | None:
    scales: tuple[tuple[str, Callable[[int], int]], ...] = (
        ("ts_us", lambda n: n), ("ts_ns", lambda n: n // 1000), ("ts_ms", lambda n: n * 1000),
    )  # fmt: skip
    for name, scale in scales:
        value = source.get(name)
        if isinstance(value, str) and value.removeprefix("-").isdigit():
            return scale(int(value))
    return None


# --- maxwell ----------------------------------------------------------------------------------------------------------


_KINDS = {"insert": INSERT, "update": UPDATE, "delete": DELETE, "bootstrap-insert": INSERT}
_WITHOUT_ROW = frozenset({"bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "table-drop",
                          "database-create", "database-alter", "database-drop", "heartbeat"})  # fmt: skip


class MaxwellRecords:
    def __init__(self, types: ColumnTypes | None) -> None:
        self._types = types

    def events(self, file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
        begun: str | None = None  # the transaction whose events come now
        for decoded in events(file, name, self._event, Undecodable):
            if isinstance(decoded, BadRecord):
                yield decoded
                continue
            event, record = decoded
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
            kind, schema, table, new, old, value_text(record.get("xid")), _maxwell_position(record.get("position")),
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
        typoid, _ = types.get(column, (0, -1))
        is_encoded = typoid == oids.BYTEA and value is not None
        row[column] = base64_bytea(value) if is_encoded else value_text(value, typoid)
    return row


def _maxwell_position(text: Any) -> int | None:
    """A binary log's `file.number:offset` as an LSN."""
    if not isinstance(text, str):
        return None
    file, _, offset = text.rpartition(":")
    number = file.rpartition(".")[2]
    if not (number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit()):
        return None
    return int(number) << 32 | int(offset)
