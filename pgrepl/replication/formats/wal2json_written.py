"""The writer of wal2json's format version 2, with XIDs, timestamps and LSNs.

A special number (NaN, Infinity), for which wal2json writes null, is written as a string, as wal2json writes numbers
with numeric-data-types-as-string. The LSN of all lines is that of the commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pgrepl.errors import PgError
from pgrepl.replication.formats.json_text import Number
from pgrepl.replication.formats.written import SourceFacts, check_phase, json_line, old_places, parsed
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    UNCHANGED,
    UPDATE,
    Message,
    Row,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.types import oids
from pgrepl.types.lsn import lsn_text, parse_lsn
from pgrepl.types.names import format_type
from pgrepl.types.text import write_text

_ACTIONS = {INSERT: "I", UPDATE: "U", DELETE: "D"}
_NUMBERS = frozenset({oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC})
_NUMBER = re.compile(r"-?\d[\d.]*(e[+-]?\d+)?\Z")


class Wal2jsonWriter:
    def __init__(self, context: SourceFacts) -> None:
        self._style = context.style

    def lines(self, transaction: WireTransaction) -> Iterator[bytes]:
        check_phase(transaction)
        lsn = lsn_text(transaction.finish_lsn)
        about = {
            "xid": transaction.xid,
            "timestamp": write_text(transaction.committed_at, oids.TIMESTAMPTZ, self._style),
            "lsn": lsn,
            "nextlsn": lsn_text(transaction.end_lsn),
        }
        yield json_line({"action": "B", **about})
        del about["nextlsn"]
        for message in transaction.messages:
            if isinstance(message, TruncateMessage):
                for relation in message.relations:
                    yield json_line({"action": "T", **about, "schema": relation.schema, "table": relation.name})
                continue
            yield json_line(self._change(message, about))
        yield json_line({"action": "C", **about, "nextlsn": lsn_text(transaction.end_lsn)})

    def _change(self, message: Message, about: dict[str, Any]) -> dict[str, Any]:
        relation = message.relation
        line = {"action": _ACTIONS[message.operation], **about, "schema": relation.schema, "table": relation.name}
        if message.new is not None:
            line["columns"] = self._columns(message, message.new, range(len(relation.columns)))
        if message.old is not None:
            line["identity"] = self._columns(message, message.old, old_places(message))
        elif message.new is not None and message.operation == UPDATE:
            keys = [at for at, column in enumerate(relation.columns) if column.is_key]
            line["identity"] = self._columns(message, message.new, keys)
        return line

    def _columns(self, message: Message, row: Row, places: Sequence[int]) -> list[dict[str, Any]]:
        found = []
        for at in places:
            column, value = message.relation.columns[at], row[at]
            if value is not UNCHANGED:
                kind = format_type(column.sent_as, column.typmod)
                found.append({"name": column.name, "type": kind, "value": self._value(value, column.type)})
        return found

    def _value(self, value: Any, typoid: int) -> Any:
        if value is None:
            return None
        text = write_text(value, typoid, self._style)
        if typoid in _NUMBERS:
            return Number(text) if _NUMBER.match(text) else text
        if typoid == oids.BOOL:
            return text == "t"
        return text[2:] if typoid == oids.BYTEA else text

    def position(self, line: bytes) -> int | None:
        try:
            return parse_lsn(str(parsed(line).get("lsn")))
        except PgError:
            return None
