"""The writer of Debezium's events: the envelope of its connector for PostgreSQL, with or without schemas.

Values are encoded as by a connector with decimal.handling.mode = string, interval.handling.mode = string, and the
defaults otherwise. Unlike a connector's, an UPDATE that changes the key is one event, with the old key as `before`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgrepl import __version__
from pgrepl.replication.formats.debezium_encode import FieldType, encode, field_type
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
    SentRelation,
    TruncateMessage,
    WireTransaction,
)

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
        found = {}
        for at in places:
            column, value = relation.columns[at], row[at]
            found[column.name] = encode(None if value is UNCHANGED else value, column, self._context.style,
                                        is_unchanged=value is UNCHANGED)  # fmt: skip
        return found

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
        source = [{"type": kind, "optional": optional, "field": each} for each, kind, optional in _SOURCE]
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
        found = parsed(line)
        source = found.get("payload", found).get("source") if isinstance(found.get("payload", found), dict) else None
        lsn = source.get("lsn") if isinstance(source, dict) else None
        return lsn if isinstance(lsn, int) else None


def _field(kind: FieldType, name: str, optional: bool) -> dict[str, Any]:
    return {**kind, "optional": optional, "field": name}
