"""The layout of pgoutput's messages, protocol versions 1 to 3 (proto.c), and of both-ways COPY with a walsender.

B begin · C commit · O origin · R relation · Y type · I insert · U update · D delete · T truncate · M message
b begin prepare · P prepare · K commit prepared · r rollback prepared
w XLogData · k keepalive · r standby status update
"""

from __future__ import annotations

from datetime import datetime, timezone
from struct import Struct
from typing import Any

DATA_TYPE, KEEPALIVE_TYPE = b"wk"
DATA = Struct("!cQQq")  # start of WAL, end of WAL, time; then the data
KEEPALIVE = Struct("!cQqb")  # end of WAL, time, whether the receiver shall answer
STATUS = Struct("!cQQQqb")  # written, flushed, applied, time, whether the sender shall answer
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


def now() -> int:
    """The present time in microseconds since 2000-01-01 UTC."""
    return int((datetime.now(timezone.utc) - _EPOCH).total_seconds() * 1_000_000)


# --- pgoutput ---------------------------------------------------------------------------------------------------------


BEGIN_TYPE, COMMIT_TYPE, ORIGIN_TYPE, RELATION_TYPE, MESSAGE_TYPE = b"BCORM"
INSERT_TYPE, UPDATE_TYPE, DELETE_TYPE, TRUNCATE_TYPE, TYPE_TYPE = b"IUDTY"
BEGIN_PREPARE_TYPE, PREPARE_TYPE, COMMIT_PREPARED_TYPE, ROLLBACK_PREPARED_TYPE = b"bPKr"
NEW_TUPLE, KEY_TUPLE, OLD_TUPLE = b"NKO"
NULL_VALUE, UNCHANGED_VALUE, TEXT_VALUE, BINARY_VALUE = b"nutb"
CASCADE, RESTART_IDENTITY = 1, 2  # flags of a truncation
IS_KEY = 1  # flag of a relation's column
TRANSACTIONAL = 1  # flag of a logical message

UINT16, UINT32, UINT64 = Struct(">H"), Struct(">I"), Struct(">Q")


class ProtocolError(Exception):
    """The bytes are no valid message of pgoutput."""


class MessageLayout:
    """A message's letter and the fields of fixed width that follow it."""

    def __init__(self, letter: int, **fields: str) -> None:
        """`fields`: name and struct format of each field, in order."""
        formats = "".join(fields.values())
        self.letter = letter
        self._read, self._write = Struct(f">x{formats}"), Struct(f">B{formats}")
        self.size = self._read.size
        self.at: dict[str, int] = {}
        place = 1
        for name, kind in fields.items():
            self.at[name] = place
            place += Struct(f">{kind}").size

    def pack(self, *values: int) -> bytes:
        return self._write.pack(self.letter, *values)

    def unpack(self, message: bytes) -> tuple[Any, ...]:
        return self._read.unpack_from(message)


BEGIN = MessageLayout(BEGIN_TYPE, lsn="Q", time="q", xid="I")
COMMIT = MessageLayout(COMMIT_TYPE, flags="B", lsn="Q", end_lsn="Q", time="q")
ORIGIN = MessageLayout(ORIGIN_TYPE, lsn="Q")  # then its name
RELATION = MessageLayout(RELATION_TYPE, relid="I")  # then schema, name, REPLICA_IDENTITY, the columns
CHANGES = {letter: MessageLayout(letter, relid="I", tag="B") for letter in (INSERT_TYPE, UPDATE_TYPE, DELETE_TYPE)}
TRUNCATE = MessageLayout(TRUNCATE_TYPE, count="I", flags="B")  # then the relations
MESSAGE = MessageLayout(MESSAGE_TYPE, flags="B", lsn="Q")  # then its prefix, the length of its content, and that

# Messages about prepared transactions; the GID follows
BEGIN_PREPARE = MessageLayout(BEGIN_PREPARE_TYPE, lsn="Q", end_lsn="Q", time="q", xid="I")
PREPARE = MessageLayout(PREPARE_TYPE, flags="B", lsn="Q", end_lsn="Q", time="q", xid="I")
COMMIT_PREPARED = MessageLayout(COMMIT_PREPARED_TYPE, flags="B", lsn="Q", end_lsn="Q", time="q", xid="I")
ROLLBACK_PREPARED = MessageLayout(
    ROLLBACK_PREPARED_TYPE, flags="B", prepare_end_lsn="Q", end_lsn="Q", prepared_at="q", time="q", xid="I"
)
ENDS = (COMMIT, PREPARE, COMMIT_PREPARED, ROLLBACK_PREPARED)  # the last, or only, message of a transaction
(END_LSN_AT,) = {layout.at["end_lsn"] for layout in ENDS}

# A change: the relation, the tag of its first tuple, the tuple. Behind an UPDATE's old tuple: tag and tuple of the new.
RELID_AT, TAG_AT = RELATION.at["relid"], CHANGES[UPDATE_TYPE].at["tag"]
TUPLE_AT = TAG_AT + 1
# A tuple: the number of its columns, and for each a kind; a text's length follows that, and the text
COLUMN_COUNT = UINT16
TEXT_HEAD = Struct(">BI")  # kind, length
# A relation's column: flags, name, and these
COLUMN_TYPE = Struct(">Ii")  # type, typmod


def text(value: str) -> bytes:
    """A string as pq_sendstring writes it."""
    return value.encode() + b"\0"


def read_text(message: bytes, at: int) -> tuple[str, int]:
    """The string that begins at this offset, and the offset behind it."""
    end = message.index(0, at)
    return message[at:end].decode(), end + 1
