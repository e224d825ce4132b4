"""The writer of Debezium's events: the envelope of its connector for PostgreSQL, with decimal.handling.mode and
interval.handling.mode = string and the defaults otherwise.

An UPDATE that changes the key is one event. What Debezium's forms cannot hold is PostgreSQL's text.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgrepl import __version__
from pgrepl.replication.formats.debezium_values import INFINITE, INFINITE_DAYS, interval_text
from pgrepl.replication.formats.json_text import Number
from pgrepl.replication.formats.written import (
    SourceFacts,
    check_phase,
    commit_time,
    compact,
    json_line,
    old_places,
    parsed,
)
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    UNCHANGED,
    UPDATE,
    Row,
    SentColumn,
    SentRelation,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import base_type_and_typmod, element_type
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text
from pgrepl.types.times.dates import INFINITY, UNIX_EPOCH_DAYS, UNIX_EPOCH_USECS
from pgrepl.types.times.interval import is_finite

FieldType = Mapping[str, Any]

PLACEHOLDER = "__debezium_unavailable_value"
_MILLIS_DIGITS = 3
_INTEGERS = {oids.INT2: "int16", oids.INT4: "int32", oids.INT8: "int64", oids.OID: "int64"}
_FLOATS = {oids.FLOAT4: "float", oids.FLOAT8: "double"}
_NUMBER = re.compile(r"-?\d[\d.]*(e[+-]?\d+)?\Z")
_FIELDS: dict[int, tuple[str, str | None]] = {  # the types of fields, and their semantic types
    **{typoid: (kind, None) for typoid, kind in (_INTEGERS | _FLOATS).items()},
    oids.BOOL: ("boolean", None),
    oids.BIT: ("boolean", None),  # of one bit
    oids.BYTEA: ("bytes", None),
    oids.DATE: ("int32", "io.debezium.time.Date"),
    oids.TIME: ("int64", "io.debezium.time.MicroTime"),
    oids.TIMESTAMP: ("int64", "io.debezium.time.MicroTimestamp"),
    oids.JSON: ("string", "io.debezium.data.Json"),
    oids.JSONB: ("string", "io.debezium.data.Json"),
    oids.UUID: ("string", "io.debezium.data.Uuid"),
    oids.XML: ("string", "io.debezium.data.Xml"),
    oids.TIMESTAMPTZ: ("string", "io.debezium.time.ZonedTimestamp"),
    oids.TIMETZ: ("string", "io.debezium.time.ZonedTime"),
    oids.INTERVAL: ("string", "io.debezium.time.Interval"),
}
_MILLIS = {oids.TIME: ("int32", "io.debezium.time.Time"), oids.TIMESTAMP: ("int64", "io.debezium.time.Timestamp")}
_INFINITE_ZONED = {INFINITY: "+294247-01-10T04:00:25.2Z", -INFINITY: "-290308-12-21T19:59:27.6Z"}
_BC = re.compile(r"(\d{4,})-(.*) BC\Z")
_OFFSET = re.compile(r"([+-]\d\d)(:\d\d)?(:\d\d)?\Z")


def _has_millis(typmod: int) -> bool:
    return 0 <= typmod <= _MILLIS_DIGITS


def field_type(typoid: int, typmod: int) -> FieldType:
    """The schema of a column's field."""
    typoid, typmod = base_type_and_typmod(typoid, typmod)
    element = element_type(typoid)
    if element:
        return {"type": "array", "items": {**field_type(element, typmod), "optional": True}}
    if typoid == oids.BIT and typmod != 1:
        return {"type": "bytes", "name": "io.debezium.data.Bits", "version": 1, "parameters": {"length": str(typmod)}}
    kind, name = _FIELDS.get(typoid, ("string", None))
    if typoid in _MILLIS and _has_millis(typmod):
        kind, name = _MILLIS[typoid]
    return {"type": kind} if name is None else {"type": kind, "name": name, "version": 1}


def encode(value: Any, column: SentColumn, style: TextStyle, *, is_unchanged: bool) -> Any:
    """A value for JSON. `is_unchanged`: it was not sent."""
    if is_unchanged:
        return PLACEHOLDER
    return None if value is None else _encoded(value, column.type, column.typmod, style)


def _encoded(value: Any, typoid: int, typmod: int, style: TextStyle) -> Any:
    typoid, typmod = base_type_and_typmod(typoid, typmod)
    if isinstance(value, PgArray) and element_type(typoid):
        return _array(value, typoid, typmod, style)
    if typoid == oids.BOOL:
        return bool(value)
    if typoid == oids.BYTEA:
        return base64.b64encode(value).decode()
    if typoid == oids.DATE:
        return INFINITE_DAYS.get(value, value - UNIX_EPOCH_DAYS)
    if typoid == oids.TIME:
        return value // 1000 if _has_millis(typmod) else value
    if typoid == oids.TIMESTAMP:
        if abs(value) == INFINITY:
            return next(number for number, infinity in INFINITE.items() if infinity == value)
        usecs = value - UNIX_EPOCH_USECS
        return usecs // 1000 if _has_millis(typmod) else usecs
    if typoid == oids.INTERVAL:
        return interval_text(value) if is_finite(value) else write_text(value, typoid, style)
    text = write_text(value, typoid, style)
    if typoid in _INTEGERS or (typoid in _FLOATS and _NUMBER.match(text)):
        return Number(text)
    if typoid == oids.BIT:
        return text == "1" if typmod == 1 else _bits(text)
    if typoid == oids.VARBIT:
        return f"B'{text}'"
    if typoid == oids.TIMESTAMPTZ:
        return _INFINITE_ZONED.get(value) or _zoned(text)
    if typoid == oids.TIMETZ:
        return _offset(text)
    return text


def _array(value: PgArray, typoid: int, typmod: int, style: TextStyle) -> Any:
    """Nested lists; a text where there are other lower bounds."""
    if any(lower != 1 for lower in value.lbounds):
        return write_text(value, typoid, style)
    items = [None if item is None else _encoded(item, value.elemtype, typmod, style) for item in value.items]
    for size in reversed(value.dims[1:]):
        items = [items[start : start + size] for start in range(0, len(items), size)]
    return items


def _bits(text: str) -> str:
    """Bits as bytes, the last bits first."""
    return base64.b64encode(int(text, 2).to_bytes((len(text) + 7) // 8, "little")).decode()


def _zoned(text: str) -> str:
    """PostgreSQL's ISO text of a moment in UTC as ISO 8601."""
    before_christ = _BC.match(text)
    if before_christ is not None:
        year = 1 - int(before_christ[1])
        text = f"{'-' if year else ''}{abs(year):04}-{before_christ[2]}"
    elif text.index("-") > 4:
        text = f"+{text}"
    return _offset(text.replace(" ", "T", 1))


def _offset(text: str) -> str:
    match = _OFFSET.search(text)
    if match is None:
        return text
    shown = f"{match[1]}{match[2] or ':00'}{match[3] or ''}"
    return text[: match.start()] + ("Z" if shown == "+00:00" else shown)


# --- debezium written -------------------------------------------------------------------------------------------------


_OPS = {INSERT: "c", UPDATE: "u", DELETE: "d"}
_TRUNCATE = "t"
_SOURCE = (
    ("version", "string", False), ("connector", "string", False), ("name", "string", False), ("ts_ms", "int64", False),
    ("snapshot", "string", True), ("db", "string", False), ("sequence", "string", True), ("ts_us", "int64", True),
    ("ts_ns", "int64", True), ("schema", "string", False), ("table", "string", False), ("txId", "int64", True),
    ("lsn", "int64", True), ("xmin", "int64", True),
)  # fmt: skip


class DebeziumWriter:
    def __init__(self, context: SourceFacts) -> None:
        self._context = context
        self._last: int | None = None  # the commit before
        self._schemas: dict[SentRelation, str] = {}

    def lines(self, transaction: WireTransaction) -> Iterator[bytes]:
        check_phase(transaction)
        for message in transaction.messages:
            if isinstance(message, TruncateMessage):
                for relation in message.relations:
                    yield self._line(transaction, relation, None, None, _TRUNCATE)
                continue
            old = new = None
            if message.old is not None:
                old = self._row(message.relation, message.old, old_places(message))
            if message.new is not None:
                new = self._row(message.relation, message.new, range(len(message.relation.columns)))
            yield self._line(transaction, message.relation, old, new, _OPS[message.operation])
        self._last = transaction.finish_lsn

    def _row(self, relation: SentRelation, row: Row, places: Sequence[int]) -> Mapping[str, Any]:
        fields = {}
        for at in places:
            column, value = relation.columns[at], row[at]
            fields[column.name] = encode(None if value is UNCHANGED else value, column, self._context.style,
                                        is_unchanged=value is UNCHANGED)  # fmt: skip
        return fields

    def _line(
        self,
        transaction: WireTransaction,
        relation: SentRelation,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        op: str,
    ) -> bytes:
        now = self._context.clock()
        payload = {
            "before": before,
            "after": after,
            "source": self._source(transaction, relation),
            "transaction": None,
            "op": op,
            "ts_ms": now // 1000,
            "ts_us": now,
            "ts_ns": now * 1000,
        }
        if not self._context.with_schema:
            return json_line(payload)
        return f'{{"schema":{self._schema(relation)},"payload":{compact(payload)}}}\n'.encode()

    def _source(self, transaction: WireTransaction, relation: SentRelation) -> dict[str, Any]:
        at, lsn = commit_time(transaction), transaction.finish_lsn
        last = None if self._last is None else str(self._last)
        return {
            "version": __version__,
            "connector": "postgresql",
            "name": self._context.database,
            "ts_ms": at // 1000,
            "snapshot": "false",
            "db": self._context.database,
            "sequence": json.dumps([last, str(lsn)], separators=(",", ":")),
            "ts_us": at,
            "ts_ns": at * 1000,
            "schema": relation.schema,
            "table": relation.name,
            "txId": transaction.xid,
            "lsn": lsn,
            "xmin": None,
        }

    def _schema(self, relation: SentRelation) -> str:
        if relation not in self._schemas:
            self._schemas[relation] = compact(self._envelope(relation))
        return self._schemas[relation]

    def _envelope(self, relation: SentRelation) -> dict[str, Any]:
        name = f"{self._context.database}.{relation.schema}.{relation.name}"
        row = [_field(field_type(column.type, column.typmod), column.name, True) for column in relation.columns]
        value = {"type": "struct", "fields": row, "optional": True, "name": f"{name}.Value"}
        source = [{"type": kind, "optional": optional, "field": field} for field, kind, optional in _SOURCE]
        return {
            "type": "struct",
            "fields": [
                {**value, "field": "before"},
                {**value, "field": "after"},
                {
                    "type": "struct", "fields": source, "optional": False,
                    "name": "io.debezium.connector.postgresql.Source", "field": "source",
                },
                {
                    "type": "struct", "optional": True, "name": "event.block", "version": 1, "field": "transaction",
                    "fields": [
                        {"type": "string", "optional": False, "field": "id"},
                        {"type": "int64", "optional": False, "field": "total_order"},
                        {"type": "int64", "optional": False, "field": "data_collection_order"},
                    ],
                },
                {"type": "string", "optional": False, "field": "op"},
                {"type": "int64", "optional": True, "field": "ts_ms"},
                {"type": "int64", "optional": True, "field": "ts_us"},
                {"type": "int64", "optional": True, "field": "ts_ns"},
            ],
            "optional": False,
            "name": f"{name}.Envelope",
            "version": 2,
        }  # fmt: skip

    def position(self, line: bytes) -> int | None:
        event = parsed(line)
        source = event.get("payload", event).get("source") if isinstance(event.get("payload", event), dict) else None
        lsn = source.get("lsn") if isinstance(source, dict) else None
        return lsn if isinstance(lsn, int) else None


def _field(kind: FieldType, name: str, optional: bool) -> dict[str, Any]:
    return {**kind, "optional": optional, "field": name}
