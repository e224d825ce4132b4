"""test_decoding's text, as pg_recvlogical or psql write it, and pgoutput's messages, as pg_recvlogical writes them.

A text's record ends where its last literal ends, as values may have line feeds. Messages have no length: nothing
behind a damaged one can be read, and such a file ends with an error that cannot be skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from struct import error as StructError
from typing import BinaryIO

from pgrepl.ground.errors import PgError
from pgrepl.replication.formats.event import BEGIN, COMMIT, BadRecord, ChangeEvent, RecordPlace, Unfit, told_time
from pgrepl.replication.formats.json_text import INVALID, MAX_RECORD, check_size, json_problem, read_line
from pgrepl.replication.wire import pgoutput
from pgrepl.replication.wire.messages import DELETE, INSERT, TRUNCATE, UNCHANGED, UPDATE, SentColumn, SentRelation
from pgrepl.replication.wire.pgoutput import (
    BEGIN_TYPE,
    COMMIT_TYPE,
    DELETE_TYPE,
    INSERT_TYPE,
    MESSAGE_TYPE,
    NEW_TUPLE,
    OLD_TUPLE,
    ORIGIN_TYPE,
    RELATION_TYPE,
    TRUNCATE_TYPE,
    TYPE_TYPE,
    UINT16,
    UINT32,
    UPDATE_TYPE,
    ProtocolError,
)
from pgrepl.replication.wire.pgoutput_read import read_relation, read_truncated, read_tuple, tuple_end
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.types.binary import receives
from pgrepl.types.binary_scalars import BinaryMessage
from pgrepl.types.names import format_type
from pgrepl.types.plain import parse_lsn
from pgrepl.types.text import write_text
from pgrepl.types.times.dates import UNIX_EPOCH_USECS

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
_KINDS_BY_WORD = {"INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE, "TRUNCATE": TRUNCATE}

Row = dict[str, "str | None"]


class _Cut(Exception):
    """The record goes on in the next line."""


def test_decoding_events(file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
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
                decoded = list(_events(record.rstrip(b"\r\n").decode(), xid, place))
            except _Cut:
                more = b"".join(_rest(file, name, number, is_message=b"message: " in record[:80]))
                if more and len(record) + len(more) <= MAX_RECORD:
                    record += more
                    number += more.count(b"\n")
                    continue
                yield BadRecord(INVALID, "a quoted value has no end", place, record=record)
            except Unfit as problem:
                yield BadRecord(INVALID, str(problem), place, record=record)
            except UnicodeDecodeError as problem:
                yield BadRecord("22021", json_problem(problem), place, record=record)
            else:
                for event in decoded:
                    xid = event.xid if event.kind == BEGIN else None if event.kind == COMMIT else xid
                yield from decoded
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
        yield ChangeEvent(COMMIT, None, None, None, None, commit[1] or xid, lsn, told_time(commit[2]), place)
    elif text.startswith("table "):
        yield from _of_table(text, xid, lsn, place)
    elif text.startswith(("message: ", "streaming message: ")):
        _skip_message(text)
    elif text.startswith(("PREPARE TRANSACTION ", "COMMIT PREPARED ", "ROLLBACK PREPARED ")):
        raise _unsupported(place, "prepared transactions are", "Create the slot without two_phase.")
    elif text.startswith(
        ("opening a streamed", "closing a streamed", "streaming ", "committing streamed", "aborting ")
    ):
        raise _unsupported(place, "streamed transactions are", "Read from the slot without stream-changes.")
    else:
        raise Unfit("it is no line of test_decoding")


def _unsupported(place: RecordPlace, what: str, hint: str) -> PgError:
    message = f"could not read {place.file}, record {place.number}: {what} not supported"
    return PgError(_UNSUPPORTED, message, hint=hint)


def _skip_message(text: str) -> None:
    match = _MESSAGE.match(text)
    if match is None:
        raise Unfit("it is no line of test_decoding")
    if len(text[match.end() :].encode()) < int(match[1]) and match[0].endswith("content:"):
        raise _Cut


def _of_table(text: str, xid: str | None, lsn: int | None, place: RecordPlace) -> Iterator[ChangeEvent]:
    head = _TABLES.match(text)
    if head is None:
        if text.count('"') % 2:
            raise _Cut  # a name has a line feed in it
        raise Unfit("it is no line of test_decoding")
    names = [(_unquoted(match[1]), _unquoted(match[2])) for match in _NAME.finditer(head[1])]
    kind = _KINDS_BY_WORD.get(head[2])
    if kind is None:
        raise Unfit(f"unrecognized operation {head[2]}")
    if kind == TRUNCATE:
        for schema, table in names:
            yield ChangeEvent(TRUNCATE, schema, table, None, None, xid, lsn, None, place)
        return
    schema, table = names[0]
    at = head.end()
    new: Row | None = None
    old: Row | None = None
    if kind == UPDATE and text.startswith(_OLD_KEY, at):
        old, at = _text_row(text, at + len(_OLD_KEY))
        if not text.startswith(_NEW_TUPLE, at):
            raise Unfit("new-tuple is missing")
        at += len(_NEW_TUPLE)
    if text.startswith(_NO_TUPLE, at):
        at += len(_NO_TUPLE)
    else:
        row, at = _text_row(text, at)
        new, old = (None, row) if kind == DELETE else (row, old)
    if at != len(text):
        raise Unfit(f"unexpected text at character {at + 1}")
    if kind != DELETE and new is None:
        raise Unfit("it has no row")
    yield ChangeEvent(kind, schema, table, new, old, xid, lsn, None, place)


def _text_row(text: str, at: int) -> tuple[Row, int]:
    """The columns from an offset on, and the offset behind them."""
    row: Row = {}
    while at < len(text) and not text.startswith(_NEW_TUPLE, at):
        column = _COLUMN.match(text, at)
        if column is None:
            if '"' in text[at:]:
                raise _Cut
            raise Unfit(f"a column is expected at character {at + 1}")
        at = column.end()
        value = _LITERAL.match(text, at)
        if value is not None:
            row[_unquoted(column[1])] = value[1].replace("''", "'")
        elif text.startswith(("'", "B'"), at):
            raise _Cut
        else:
            value = _BARE.match(text, at)
            if value is None:
                raise Unfit(f"a value is expected at character {at + 1}")
            if value[0] != _UNCHANGED:
                row[_unquoted(column[1])] = None if value[0] == "null" else value[0]
        at = value.end()
    return row, at


def _unquoted(identifier: str) -> str:
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier


# --- pgoutput file ----------------------------------------------------------------------------------------------------


_PIECE = 1 << 20
_LINE_FEED = 0x0A
_UNSUPPORTED = "0A000"
_STREAMED, _TWO_PHASE = b"SEcA", b"bPKrp"
_COLUMN_SIZE = 8
_FIXED = {BEGIN_TYPE: pgoutput.BEGIN.size, COMMIT_TYPE: pgoutput.COMMIT.size}
_KINDS_BY_TYPE = {INSERT_TYPE: INSERT, UPDATE_TYPE: UPDATE, DELETE_TYPE: DELETE}


def pgoutput_events(file: BinaryIO, name: str) -> Iterator[ChangeEvent]:
    relations: dict[int, SentRelation] = {}
    xid: str | None = None
    at: int | None = None
    for place, message in _messages(file, name):
        kind = message[0]
        try:
            if kind in _KINDS_BY_TYPE:
                yield _change(message, relations, xid, at, place)
            elif kind == RELATION_TYPE:
                described = read_relation(message, lambda *_: True)
                relations[described.relid] = described
            elif kind == BEGIN_TYPE:
                lsn, when, begun = pgoutput.BEGIN.unpack(message)
                xid, at = str(begun), _unix(when)
                yield ChangeEvent(BEGIN, None, None, None, None, xid, lsn, at, place)
            elif kind == COMMIT_TYPE:
                _, lsn, _, when = pgoutput.COMMIT.unpack(message)
                yield ChangeEvent(COMMIT, None, None, None, None, xid, lsn, _unix(when), place)
                xid = at = None
            elif kind == TRUNCATE_TYPE:
                for relid in read_truncated(message)[0]:
                    relation = _relation(relid, relations, place)
                    yield ChangeEvent(TRUNCATE, relation.schema, relation.name, None, None, xid, None, at, place)
        except UnicodeDecodeError:
            raise _invalid(place, "it is no UTF-8") from None


def _unix(when: int) -> int:
    return when - UNIX_EPOCH_USECS


def _invalid(place: RecordPlace, reason: str) -> PgError:
    return PgError("08P01", f"could not read {place.file}, record {place.number}: {reason}")


# --- the borders of messages ------------------------------------------------------------------------------------------


def _messages(file: BinaryIO, name: str) -> Iterator[tuple[RecordPlace, bytes]]:
    data, at, number = b"", 0, 0
    ended = False
    while True:
        place = RecordPlace(name, number + 1)
        if at < len(data):
            try:
                end = _end(data, at, place)
                following = data[end]
            except (IndexError, StructError):
                if ended:
                    raise _invalid(place, "the file ends within the message") from None
            except ProtocolError as problem:
                raise _invalid(place, str(problem)) from None
            else:
                if following != _LINE_FEED:
                    raise _invalid(place, "it is no message of pgoutput as pg_recvlogical writes it")
                number += 1
                yield place, data[at:end]
                at = end + 1
                continue
        elif ended:
            return
        data, at = data[at:], 0
        check_size(data, name, number + 1)
        piece = file.read(max(_PIECE, len(data)))
        ended = not piece
        data += piece


def _end(data: bytes, at: int, place: RecordPlace) -> int:
    """The offset behind the message that begins at `at`; IndexError or struct.error if it is not there as a whole."""
    kind = data[at]
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind in (INSERT_TYPE, UPDATE_TYPE, DELETE_TYPE):
        end = tuple_end(data, at + pgoutput.TUPLE_AT)
        tag = data[at + pgoutput.TAG_AT]
        return tuple_end(data, end + 1) if kind == UPDATE_TYPE and tag != NEW_TUPLE else end
    if kind == RELATION_TYPE:
        end = _text_end(data, _text_end(data, at + pgoutput.RELATION.size))
        (count,) = UINT16.unpack_from(data, end + 1)
        end += 1 + UINT16.size
        for _ in range(count):
            end = _text_end(data, end + 1) + _COLUMN_SIZE
        return end
    if kind == TYPE_TYPE:
        return _text_end(data, _text_end(data, at + 1 + UINT32.size))
    if kind == ORIGIN_TYPE:
        return _text_end(data, at + pgoutput.ORIGIN.size)
    if kind == TRUNCATE_TYPE:
        (count,) = UINT32.unpack_from(data, at + 1)
        return at + pgoutput.TRUNCATE.size + UINT32.size * int(count)
    if kind == MESSAGE_TYPE:
        end = _text_end(data, at + pgoutput.MESSAGE.size)
        return end + UINT32.size + int(UINT32.unpack_from(data, end)[0])
    if kind in _STREAMED:
        raise _unsupported(place, "streamed transactions are", "Run pg_recvlogical without -o streaming.")
    if kind in _TWO_PHASE:
        hint = "Run pg_recvlogical without --two-phase and -o two_phase."
        raise _unsupported(place, "prepared transactions are", hint)
    raise _invalid(place, f"invalid logical replication message type 0x{kind:02x}")


def _text_end(data: bytes, at: int) -> int:
    end = data.find(b"\0", at)
    if end < 0:
        raise IndexError
    return end + 1


# --- changes ----------------------------------------------------------------------------------------------------------


def _relation(relid: int, relations: dict[int, SentRelation], place: RecordPlace) -> SentRelation:
    if relid not in relations:
        raise _invalid(place, f"no relation map entry for remote relation ID {relid}")
    return relations[relid]


def _change(
    message: bytes, relations: dict[int, SentRelation], xid: str | None, at: int | None, place: RecordPlace
) -> ChangeEvent:
    relid, tag = pgoutput.CHANGES[message[0]].unpack(message)
    relation = _relation(relid, relations, place)
    kind = _KINDS_BY_TYPE[message[0]]
    row, end = _message_row(message, pgoutput.TUPLE_AT, relation.columns, place)
    new: Row | None = None
    old: Row | None = None
    if tag == NEW_TUPLE:
        new = row
    else:
        keys = {column.name for column in relation.columns if tag == OLD_TUPLE or column.is_key}
        old = {name: value for name, value in row.items() if name in keys}
        if kind == UPDATE:
            new, _ = _message_row(message, end + 1, relation.columns, place)
    return ChangeEvent(kind, relation.schema, relation.name, new, old, xid, None, at, place)


def _message_row(message: bytes, at: int, columns: Sequence[SentColumn], place: RecordPlace) -> tuple[Row, int]:
    """The values that are sent, and the offset behind the tuple."""
    if UINT16.unpack_from(message, at)[0] > len(columns):
        raise _invalid(place, "a tuple has more columns than its relation")
    values, end = read_tuple(message, at, 0, lambda number, value: _binary(value, columns[number], place))
    row = {column.name: value for column, value in zip(columns, values, strict=False)}
    return row if UNCHANGED not in values else {name: v for name, v in row.items() if v is not UNCHANGED}, end


def _binary(value: bytes, column: SentColumn, place: RecordPlace) -> str:
    """The text of a value that came in binary format (-o binary=true)."""
    receive = receives(column.type)
    try:
        if receive is not None:
            return write_text(receive(BinaryMessage(value), -1, WIRE_STYLE), column.type, WIRE_STYLE)
    except PgError as error:
        if error.sqlstate != _UNSUPPORTED:
            raise _invalid(place, f'column "{column.name}": {error.message}') from None
    what = f'the binary format of type {format_type(column.type)} of column "{column.name}" is'
    raise _unsupported(place, what, "Run pg_recvlogical without -o binary.")
