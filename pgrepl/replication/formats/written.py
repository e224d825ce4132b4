"""The transactions of a publisher as text for writers, and the note of who has written an output of `pgrepl changes`.

A small file beside the output, `.NAME.slot`, says which slot has written all lines from an offset on, and of which
file. It is safe on disk before the first line is. Without it nothing is cut.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from pgrepl.catalog.store import files
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.replication.formats.json_text import Number, encode_string
from pgrepl.replication.wire.messages import UNCHANGED, Message, Row, SentRelation, WireTransaction
from pgrepl.types.plain import parse_lsn
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text
from pgrepl.types.times.dates import UNIX_EPOCH_USECS

PARQUET = "parquet"


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

    def position(self, line: bytes) -> int | None:
        """The LSN of the commit that a line of this format belongs to; None: it is no such line."""
        try:
            return parse_lsn(str(parsed(line).get("lsn")))
        except PgError:
            return None


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
        return "[" + ",".join([compact(item) for item in value]) + "]"
    return "{" + ",".join([f"{encode_string(name)}:{compact(item)}" for name, item in value.items()]) + "}"


def parsed(line: bytes) -> Mapping[str, Any]:
    """A line as an object; empty if it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


# --- sink owner -------------------------------------------------------------------------------------------------------


@frozen
class SinkOwner:
    slot: str
    catalog: str  # its file, or which database of which server: a copied catalog has the same slots

    @property
    def facts(self) -> dict[str, Any]:
        return {"slot": self.slot, "catalog": self.catalog}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> SinkOwner:
        return cls(str(facts["slot"]), str(facts["catalog"]))

    @property
    def text(self) -> bytes:
        return json.dumps(self.facts).encode()

    @classmethod
    def read(cls, text: bytes) -> SinkOwner | None:
        with suppress(ValueError, KeyError, TypeError):
            return cls.of(json.loads(text))
        return None

    def told(self) -> str:
        return f'with replication slot "{self.slot}" of catalog "{self.catalog}"'


@frozen
class Mark:
    owner: SinkOwner
    inode: int
    begin: int  # the offset from which on the lines are the owner's


def mark_path(output: str) -> Path:
    place = Path(os.path.realpath(output))
    return place.with_name(f".{place.name}.slot")


def read_mark(output: str, handle: int) -> Mark | None:
    """The mark of this file; none if it is that of another one, which had its name."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads(mark_path(output).read_bytes())
        mark = Mark(SinkOwner.of(said), int(said["inode"]), int(said["begin"]))
        if mark.inode == os.fstat(handle).st_ino:
            return mark
    return None


def write_mark(output: str, mark: Mark) -> None:
    place = mark_path(output)
    draft = place.with_name(f"{place.name}.{os.getpid()}")
    said = {**mark.owner.facts, "inode": mark.inode, "begin": mark.begin}
    try:
        draft.write_text(json.dumps(said) + "\n")
        files.sync(draft)
        os.replace(draft, place)
        files.sync_folder(place.parent)
    except OSError as problem:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise PgError("58030", f'could not write file "{place}": {problem.strerror}') from None


def locked(handle: int, name: str) -> None:
    """Keep the output for this process, as long as the handle is open. Where files cannot be locked, nothing does."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PgError("55006", f'another process writes changes to "{name}"') from None
    except OSError:
        return
