"""test_decoding's text, as pg_recvlogical or psql write it into a file.

A value may have line feeds in it: a record ends where its last literal ends. Lines of `SELECT * FROM
pg_logical_slot_get_changes(…)` as `psql -At` prints them, with LSN and XID in front, are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from pgrepl.errors import PgError
from pgrepl.replication.formats.event import BEGIN, COMMIT, BadRecord, ChangeEvent, RecordPlace
from pgrepl.replication.formats.json_text import INVALID, json_problem
from pgrepl.replication.formats.opening import MAX_RECORD, read_line
from pgrepl.replication.wire.messages import DELETE, INSERT, TRUNCATE, UPDATE
from pgrepl.types import oids
from pgrepl.types.dates import UNIX_EPOCH_USECS
from pgrepl.types.lsn import parse_lsn
from pgrepl.types.text import read_text

_FRONT = re.compile(r"([0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8})\|(\d+)\|")
_IDENTIFIER = r'(?:"(?:[^"]|"")+"|[^\s".:,\[\]]+)'
_BEGIN = re.compile(r"BEGIN(?: (\d+))?\Z")
_COMMIT = re.compile(r"COMMIT(?: (\d+))?(?: \(at (.+)\))?\Z")
_TABLES = re.compile(rf"table ({_IDENTIFIER}\.{_IDENTIFIER}(?:, {_IDENTIFIER}\.{_IDENTIFIER})*): ([A-Z]+):")
_NAME = re.compile(rf"({_IDENTIFIER})\.({_IDENTIFIER})")
_COLUMN = re.compile(rf'\s({_IDENTIFIER})\[((?:"(?:[^"]|"")*"|[^"])*?)\]:')
_LITERAL = re.compile(r"B?'([^']*(?:''[^']*)*)'(?=\s|\Z)")
_BARE = re.compile(r"[^\s']+")
_MESSAGE = re.compile(r"(?:streaming )?message: transactional: [01] prefix: .*?, sz: (\d+)(?: content:|\Z)", re.DOTALL)
_OLD_KEY, _NEW_TUPLE = " old-key:", " new-tuple:"
_NO_TUPLE = " (no-tuple-data)"
_UNCHANGED = "unchanged-toast-datum"
_KINDS = {"INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE, "TRUNCATE": TRUNCATE}

Row = dict[str, "str | None"]


class _Cut(Exception):
    """The record goes on in the next line."""


class _Unfit(Exception):
    """A record that cannot be read; the text is the reason."""


def events(file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
    number = 0
    xid: str | None = None
    while True:
        record = read_line(file, name, number + 1)
        if not record:
            return
        number += 1
        place = RecordPlace(name, number)
        while True:
            try:
                found = list(_events(record.rstrip(b"\r\n").decode(), xid, place))
            except _Cut:
                more = b"".join(_rest(file, name, number, is_message=b"message: " in record[:80]))
                if more and len(record) + len(more) <= MAX_RECORD:
                    record += more
                    number += more.count(b"\n")
                    continue
                yield BadRecord(INVALID, "a quoted value has no end", place, record=record)
            except _Unfit as problem:
                yield BadRecord(INVALID, str(problem), place, record=record)
            except UnicodeDecodeError as problem:
                yield BadRecord("22021", json_problem(problem), place, record=record)
            else:
                for event in found:
                    xid = event.xid if event.kind == BEGIN else None if event.kind == COMMIT else xid
                yield from found
            break


def _rest(file: BinaryIO, name: str, number: int, *, is_message: bool) -> Iterator[bytes]:
    """The lines up to the next one in which a quoted value or a message may end."""
    size = 0
    while size <= MAX_RECORD:
        line = read_line(file, name, number + 1)
        yield line
        if not line or b"'" in line or b'"' in line or is_message:
            return
        size += len(line)
        number += 1


def _events(text: str, xid: str | None, place: RecordPlace) -> Iterator[ChangeEvent]:
    if not text:
        return
    lsn = None
    front = _FRONT.match(text)
    if front is not None:
        lsn, xid = parse_lsn(front[1]), front[2] if front[2] != "0" else None
        text = text[front.end() :]
    begin, commit = _BEGIN.match(text), _COMMIT.match(text)
    if begin is not None:
        yield ChangeEvent(BEGIN, None, None, None, None, begin[1] or xid, lsn, None, place)
    elif commit is not None:
        yield ChangeEvent(COMMIT, None, None, None, None, commit[1] or xid, lsn, _time(commit[2]), place)
    elif text.startswith("table "):
        yield from _of_table(text, xid, lsn, place)
    elif text.startswith(("message: ", "streaming message: ")):
        _skip_message(text)
    elif text.startswith(("PREPARE TRANSACTION ", "COMMIT PREPARED ", "ROLLBACK PREPARED ")):
        raise PgError(
            "0A000", f"could not read {place.file}, record {place.number}: prepared transactions are not supported",
            hint="Create the slot without two_phase.",
        )  # fmt: skip
    elif text.startswith(
        ("opening a streamed", "closing a streamed", "streaming ", "committing streamed", "aborting ")
    ):
        raise PgError(
            "0A000", f"could not read {place.file}, record {place.number}: streamed transactions are not supported",
            hint="Read from the slot without stream-changes.",
        )  # fmt: skip
    else:
        raise _Unfit("it is no line of test_decoding")


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(read_text(text, oids.TIMESTAMPTZ)) - UNIX_EPOCH_USECS
    except PgError as problem:
        raise _Unfit(problem.message) from None


def _skip_message(text: str) -> None:
    found = _MESSAGE.match(text)
    if found is None:
        raise _Unfit("it is no line of test_decoding")
    if len(text[found.end() :].encode()) < int(found[1]) and found[0].endswith("content:"):
        raise _Cut


def _of_table(text: str, xid: str | None, lsn: int | None, place: RecordPlace) -> Iterator[ChangeEvent]:
    head = _TABLES.match(text)
    if head is None:
        if text.count('"') % 2:
            raise _Cut  # a name has a line feed in it
        raise _Unfit("it is no line of test_decoding")
    names = [(_unquoted(found[1]), _unquoted(found[2])) for found in _NAME.finditer(head[1])]
    kind = _KINDS.get(head[2])
    if kind is None:
        raise _Unfit(f"unrecognized operation {head[2]}")
    if kind == TRUNCATE:
        for schema, table in names:
            yield ChangeEvent(TRUNCATE, schema, table, None, None, xid, lsn, None, place)
        return
    schema, table = names[0]
    at = head.end()
    new: Row | None = None
    old: Row | None = None
    if kind == UPDATE and text.startswith(_OLD_KEY, at):
        old, at = _row(text, at + len(_OLD_KEY))
        if not text.startswith(_NEW_TUPLE, at):
            raise _Unfit("new-tuple is missing")
        at += len(_NEW_TUPLE)
    if text.startswith(_NO_TUPLE, at):
        at += len(_NO_TUPLE)
    else:
        row, at = _row(text, at)
        new, old = (None, row) if kind == DELETE else (row, old)
    if at != len(text):
        raise _Unfit(f"unexpected text at character {at + 1}")
    if kind != DELETE and new is None:
        raise _Unfit("it has no row")
    yield ChangeEvent(kind, schema, table, new, old, xid, lsn, None, place)


def _row(text: str, at: int) -> tuple[Row, int]:
    """The columns from an offset on, and the offset behind them."""
    row: Row = {}
    while at < len(text) and not text.startswith(_NEW_TUPLE, at):
        column = _COLUMN.match(text, at)
        if column is None:
            if '"' in text[at:]:
                raise _Cut
            raise _Unfit(f"a column is expected at character {at + 1}")
        at = column.end()
        value = _LITERAL.match(text, at)
        if value is not None:
            row[_unquoted(column[1])] = value[1].replace("''", "'")
        elif text.startswith(("'", "B'"), at):
            raise _Cut
        else:
            value = _BARE.match(text, at)
            if value is None:
                raise _Unfit(f"a value is expected at character {at + 1}")
            if value[0] != _UNCHANGED:
                row[_unquoted(column[1])] = None if value[0] == "null" else value[0]
        at = value.end()
    return row, at


def _unquoted(identifier: str) -> str:
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier
