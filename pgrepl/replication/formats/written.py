"""The transactions of a publisher as they are written into files, their values as text.

A writer makes lines of transactions. All that it needs of a session comes with it: the style of values, and names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from pgrepl.errors import unsupported
from pgrepl.frozen import frozen
from pgrepl.replication.formats.json_text import Number, encode_string
from pgrepl.replication.wire.messages import UNCHANGED, Message, Row, SentRelation, WireTransaction
from pgrepl.types.dates import UNIX_EPOCH_USECS
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

LINE_FORMATS = ("debezium", "wal2json", "jsonl")
PARQUET = "parquet"
WRITTEN = (*LINE_FORMATS, PARQUET)


@frozen
class SourceFacts:
    """The facts that lines tell about their source."""

    database: str
    style: TextStyle  # of the values' texts
    clock: Callable[[], int]  # microseconds since 1970
    with_schema: bool = False  # Debezium's events have their schemas


class LineWriter(Protocol):
    def lines(self, transaction: WireTransaction) -> Iterator[bytes]:
        """The lines of a transaction, each with its line feed."""
        ...

    def position(self, line: bytes) -> int | None:
        """The LSN of the commit that a line of this format belongs to; None: it is no such line."""
        ...


def check_phase(transaction: WireTransaction) -> None:
    if transaction.phase is not None:
        raise unsupported("writing prepared transactions to files")


def commit_time(transaction: WireTransaction) -> int:
    """Microseconds since 1970."""
    return transaction.committed_at - UNIX_EPOCH_USECS


def texts(relation: SentRelation, row: Row, style: TextStyle) -> Iterator[tuple[str, str | None]]:
    """The names and texts of a row's values that are sent."""
    for column, value in zip(relation.columns, row, strict=True):
        if value is not UNCHANGED:
            yield column.name, None if value is None else write_text(value, column.type, style)


def old_places(message: Message) -> list[int]:
    """The columns of the old row that are known: all, or those of the key."""
    columns = message.relation.columns
    return [at for at, column in enumerate(columns) if message.whole_old or column.is_key]


def json_line(value: Mapping[str, Any]) -> bytes:
    """A line of JSON without spaces, as most programs write it."""
    return (compact(value) + "\n").encode()


def compact(value: Any) -> str:
    if isinstance(value, Number):
        return str.__str__(value)
    if isinstance(value, str):
        return encode_string(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join([compact(each) for each in value]) + "]"
    return "{" + ",".join([f"{encode_string(name)}:{compact(each)}" for name, each in value.items()]) + "}"


def parsed(line: bytes) -> Mapping[str, Any]:
    """A line as an object; empty if it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
