"""The rows of one published table, in the snapshot of a slot: all transactions that finish before the slot's LSN.

The slot is made first in a transaction of the walsender, as tablesync.c does, so that the transaction sees exactly the
changes that the slot will not send. No lock is held before that: a writer would wait for it, and the slot for the
writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.published import PublishedRows
from pgrepl.replication.wire.messages import Row, SentColumn, SentRelation
from pgrepl.types.oids import TEXT

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANING = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def copied_relation(rows: PublishedRows, schema: str, name: str) -> SentRelation:
    """The relation with all values as text, which the column here reads."""
    columns = tuple([SentColumn(column.name, TEXT, -1, False, column.type, column.typmod) for column in rows.columns])
    return SentRelation(rows.relid, schema, name, rows.replident, columns)


def selection(link: Link, rows: PublishedRows, schema: str, name: str, expressions: Sequence[str] | None = None) -> str:
    """The query of the copy: of a partitioned table the rows of all partitions, of any other one only its own
    (ONLY)."""
    only = "" if rows.kind == "p" else "ONLY "
    names = [link.identifier(column.name) for column in rows.columns]
    columns = ", ".join(names if expressions is None else expressions)
    where = "" if rows.condition is None else f" WHERE ({rows.condition})"
    return f"SELECT {columns} FROM {only}{link.identifier(schema)}.{link.identifier(name)}{where}"


def copied_rows(link: Link, query: str, width: int) -> Iterator[Row]:
    """The rows that COPY … TO STDOUT sends in its text format."""
    return _rows(link.copy_out(f"COPY ({query}) TO STDOUT"), width)


def _rows(portions: Iterable[Sequence[memoryview]], width: int) -> Iterator[Row]:
    for portion in portions:
        for data in portion:
            line = bytes(data)[:-1]
            yield tuple([_value(field) for field in line.split(b"\t")]) if width else ()


def _value(field: bytes) -> str | None:
    if b"\\" not in field:
        return field.decode()
    if field == b"\\N":
        return None
    return _ESCAPED.sub(lambda found: _MEANING.get(found[1], found[1]), field).decode()
