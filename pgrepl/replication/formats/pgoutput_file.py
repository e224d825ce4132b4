"""pgoutput's messages as pg_recvlogical writes them into a file: each followed by a line feed.

Messages have no length of their own: it follows from their fields. So nothing behind a damaged message can be read, and
such a file ends with an error that cannot be skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import error as StructError
from typing import BinaryIO

from pgrepl.errors import PgError
from pgrepl.replication.formats.event import BEGIN, COMMIT, ChangeEvent, RecordPlace
from pgrepl.replication.formats.opening import MAX_RECORD
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
from pgrepl.replication.wire.text import WIRE_STYLE
from pgrepl.types.binary import BinaryMessage, receives
from pgrepl.types.dates import UNIX_EPOCH_USECS
from pgrepl.types.names import format_type
from pgrepl.types.text import write_text

_PIECE = 1 << 20
_LINE_FEED = 0x0A
_UNSUPPORTED = "0A000"
_STREAMED, _TWO_PHASE = b"SEcA", b"bPKrp"
_COLUMN_SIZE = 8
_FIXED = {BEGIN_TYPE: pgoutput.BEGIN.size, COMMIT_TYPE: pgoutput.COMMIT.size}
_KINDS = {INSERT_TYPE: INSERT, UPDATE_TYPE: UPDATE, DELETE_TYPE: DELETE}

Row = dict[str, "str | None"]


def events(file: BinaryIO, name: str) -> Iterator[ChangeEvent]:
    relations: dict[int, SentRelation] = {}
    xid: str | None = None
    at: int | None = None
    for place, message in _messages(file, name):
        kind = message[0]
        try:
            if kind in _KINDS:
                yield _change(message, relations, xid, at, place)
            elif kind == RELATION_TYPE:
                found = read_relation(message, lambda *_: True)
                relations[found.relid] = found
            elif kind == BEGIN_TYPE:
                lsn, when, begun = pgoutput.BEGIN.unpack(message)
                xid, at = str(begun), _unix(when)
                yield ChangeEvent(BEGIN, None, None, None, None, xid, lsn, at, place)
            elif kind == COMMIT_TYPE:
                _, lsn, _, when = pgoutput.COMMIT.unpack(message)
                yield ChangeEvent(COMMIT, None, None, None, None, xid, lsn, _unix(when), place)
                xid = at = None
            elif kind == TRUNCATE_TYPE:
                for relation in _truncated(message, relations, place):
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
        if len(data) > MAX_RECORD:
            raise PgError("54000", f"could not read {name}, record {number + 1}: it is larger than "
                                   f"{MAX_RECORD >> 20} MB")  # fmt: skip
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
        raise PgError(
            "0A000", f"could not read {place.file}, record {place.number}: streamed transactions are not supported",
            hint="Run pg_recvlogical without -o streaming.",
        )  # fmt: skip
    if kind in _TWO_PHASE:
        raise PgError(
            "0A000", f"could not read {place.file}, record {place.number}: prepared transactions are not supported",
            hint="Run pg_recvlogical without --two-phase and -o two_phase.",
        )  # fmt: skip
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


def _truncated(message: bytes, relations: dict[int, SentRelation], place: RecordPlace) -> list[SentRelation]:
    relids, _ = read_truncated(message)
    return [_relation(relid, relations, place) for relid in relids]


def _change(
    message: bytes, relations: dict[int, SentRelation], xid: str | None, at: int | None, place: RecordPlace
) -> ChangeEvent:
    relid, tag = pgoutput.CHANGES[message[0]].unpack(message)
    relation = _relation(relid, relations, place)
    kind = _KINDS[message[0]]
    row, end = _row(message, pgoutput.TUPLE_AT, relation.columns, place)
    new: Row | None = None
    old: Row | None = None
    if tag == NEW_TUPLE:
        new = row
    else:
        keys = {column.name for column in relation.columns if tag == OLD_TUPLE or column.is_key}
        old = {name: value for name, value in row.items() if name in keys}
        if kind == UPDATE:
            new, _ = _row(message, end + 1, relation.columns, place)
    return ChangeEvent(kind, relation.schema, relation.name, new, old, xid, None, at, place)


def _row(message: bytes, at: int, columns: Sequence[SentColumn], place: RecordPlace) -> tuple[Row, int]:
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
    raise PgError(
        _UNSUPPORTED,
        f"could not read {place.file}, record {place.number}: the binary format of type "
        f'{format_type(column.type)} of column "{column.name}" is not supported',
        hint="Run pg_recvlogical without -o binary.",
    )
