"""The rows of COPY … (FORMAT binary), many in one buffer, and peeks at a slot's transactions inside COPY.

libpq gives one row a call, so the answer is read through the socket of a connection whose libpq has nothing to do.
Peeks are for previews and for reading ahead; each decodes again from the slot's confirmed position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from time import sleep

from pgrepl.ground.lazy import np
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.wire.pgoutput_read import PADDING, Bytes, Numbers, integers
from pgrepl.types.plain import lsn_text

HEADER = 19  # bytes of the binary format before the first row
COUNT = 2  # bytes of a row's number of columns
_TRAILER = 0xFFFF  # stands where the number of columns of a row would
_MESSAGE = 5  # bytes of a message's kind and length
_COPY_DATA, _ERROR, _READY, _COPY_OUT = b"dEZH"
_KINDS = frozenset(b"dcCEZHNSA")
_END = b"Z\0\0\0\5"  # ReadyForQuery, without the state of the transaction
_REST = 0.0005  # seconds for a server to send more than the 8 kB that it sends at once
_SOON = 0.05  # seconds without a byte until it is looked at what has come
_ROOM = 1 << 16  # bytes that are read at least at once
_FIELDS = (("S", ""), ("M", ":  "), ("D", "\nDETAIL:  "), ("H", "\nHINT:  "), ("W", "\nCONTEXT:  "))

Rows = tuple[bytes, Numbers]  # with PADDING behind the last, and the place of each


def binary_rows(link: Link, command: str, size: int) -> Iterator[Rows]:
    """The rows of a COPY, about `size` bytes at a time. A row begins with its number of columns."""
    if link.is_encrypted:
        yield from _joined(link, command, size)
        return
    answer = _Answer(link, size)
    link.send_past_libpq(command, answer.discard)
    yield from answer.rows()


# --- through libpq ----------------------------------------------------------------------------------------------------


def _joined(link: Link, command: str, size: int) -> Iterator[Rows]:
    held: list[bytes] = []
    lengths: list[int] = []
    wait, head = size, HEADER
    for portion in link.copy_out(command):
        held.append(b"".join(portion))  # joined at once: many small objects would slow down the garbage collector
        lengths += map(len, portion)
        wait -= len(held[-1])
        if wait <= 0:
            yield _rows(held, lengths, head)
            held, lengths, wait, head = [], [], size, 0
    if held:
        yield _rows(held, lengths, head)


def _rows(held: list[bytes], lengths: list[int], head: int) -> Rows:
    sizes = np.array(lengths, np.int64)
    at = np.cumsum(sizes) - sizes
    at[0] += head
    data = b"".join(held) + bytes(PADDING)
    return data, _without_trailer(np.frombuffer(data, np.uint8), at)


def _without_trailer(raw: Bytes, at: Numbers) -> Numbers:
    """The trailer stands behind all rows."""
    last = int(at[-1])
    return at[:-1] if int.from_bytes(raw[last : last + COUNT].tobytes(), "big") == _TRAILER else at


# --- through the socket -----------------------------------------------------------------------------------------------


class _Answer:
    """The messages that answer a COPY, up to ReadyForQuery."""

    def __init__(self, link: Link, size: int) -> None:
        self._link, self._size = link, size
        self._buffer = np.empty(size + _ROOM, np.uint8)
        self._until = 0  # of what has come
        self._known = 0  # of the messages that have been looked at
        self._need = 0  # bytes of the message that has not come whole
        self._columns: Sequence[int] = ()  # the bytes of their number, as they stand before each row
        self._least = 0  # the length of the shortest row's message
        self._header = HEADER  # bytes of the next message before its row
        self._found: list[Numbers | list[int]] = []
        self._refused: PublisherError | None = None
        self._ready = False

    def rows(self) -> Iterator[Rows]:
        while not self._ready:
            self._receive()
            if self._found and self._refused is None:
                at = np.concatenate(self._found)
                yield self._buffer[: self._known + PADDING].tobytes(), _without_trailer(self._buffer, at)
            self._forget()
        if self._refused is not None:
            raise self._refused

    def discard(self) -> None:
        """Read the rest for nothing."""
        while not self._ready:
            self._forget()
            self._receive()

    def _forget(self) -> None:
        left = self._buffer[self._known : self._until].copy()
        if len(self._buffer) < self._need + _ROOM:
            self._buffer = np.empty(self._need + _ROOM, np.uint8)
        self._buffer[: len(left)] = left
        self._known, self._until, self._found = 0, len(left), []

    def _receive(self) -> None:
        """Read until there is enough, or all, and find the messages."""
        enough = max(self._size, self._need)
        more, rested = True, False
        while more:
            try:
                count = os.readv(self._link.socket, [self._buffer[self._until : len(self._buffer) - PADDING].data])
            except BlockingIOError:
                if not rested:
                    rested = True
                    sleep(_REST)
                elif not self._link.wait(_SOON):  # the end may have come with something behind it
                    self._find()
                    if self._ready:
                        return
                    self._link.await_input()
                continue
            except OSError:
                count = 0
            if not count:
                self._find()
                closed = self._link.closed()
                raise self._refused or closed
            self._until += count
            rested = False
            more = self._until < enough and not self._is_at_end()
        self._find()

    def _is_at_end(self) -> bool:
        return self._buffer[max(self._until - len(_END) - 1, 0) : max(self._until - 1, 0)].tobytes() == _END

    def _find(self) -> None:
        while self._header and self._next():
            pass
        if self._columns:
            self._rows_at_once()
        while self._next():
            pass

    def _rows_at_once(self) -> None:
        """Find messages that look like a row and stand one behind the other; rows may hold bytes that look so, too."""
        raw, begin = self._buffer[: self._until], self._known
        at = begin + np.flatnonzero(raw[begin : max(begin, self._until - _MESSAGE - COUNT)] == _COPY_DATA)
        at = at[(raw[at + _MESSAGE] == self._columns[0]) & (raw[at + _MESSAGE + 1] == self._columns[1])]
        if not len(at):
            return
        size = integers(raw, at + 1, ">u4")
        behind = at + 1 + size
        real = (size >= self._least) & (behind <= self._until)
        for _ in range(3):
            at, behind = at[real], behind[real]
            follows = at[1:] == behind[:-1]
            if follows.all():
                break
            real = (at == begin) | np.isin(at, behind)
        if len(at) and at[0] == begin:
            count = len(at) if follows.all() else int(np.argmin(follows)) + 1
            self._found.append(at[:count] + _MESSAGE)
            self._known = int(behind[count - 1])

    def _next(self) -> bool:
        """Take one message; whether it has come whole, and is not the last."""
        self._need = _MESSAGE
        if self._ready or self._until - self._known < _MESSAGE:
            return False
        kind = int(self._buffer[self._known])
        self._need = 1 + int.from_bytes(self._buffer[self._known + 1 : self._known + _MESSAGE].tobytes(), "big")
        if kind not in _KINDS or self._need < _MESSAGE:
            raise PublisherError("08P01", f"unexpected message {chr(kind)!r} amid COPY")
        if self._until - self._known < self._need:
            return False
        at = self._known + _MESSAGE
        self._known += self._need
        if kind == _COPY_DATA:
            self._found.append([at + self._header])
            self._header = 0
        elif kind == _COPY_OUT:
            self._columns = self._buffer[at + 1 : at + 1 + COUNT].tolist()
            self._least = 4 + COUNT + 4 * int.from_bytes(bytes(self._columns), "big")
        elif kind == _ERROR:
            self._refused = self._refused or _error(self._buffer[at : self._known].tobytes())
        elif kind == _READY:
            self._ready = True
            self._link.answered()
        return not self._ready


def _error(body: bytes) -> PublisherError:
    """The error with the words of libpq."""
    texts = {field[:1].decode(): field[1:].decode("utf-8", "replace") for field in body.split(b"\0") if field}
    message = "".join(label + texts[key] for key, label in _FIELDS if key in texts)
    return PublisherError(texts.get("C", "08006"), message)


# --- changes ----------------------------------------------------------------------------------------------------------


_ROW = COUNT + 4  # bytes before a row's only field
PORTION = 2 << 20  # bytes that are decoded together
_MESSAGES, _ORIGINS = 140000, 160000


def changes_of(
    link: Link,
    slot: str,
    publications: Sequence[str],
    upto: int,
    limit: int,
    *,
    local_only: bool,
    two_phase: bool = False,
    binary: bool = False,
    tells: bool = False,
    consume: bool = False,
) -> str:
    """The COPY that sends the messages of everything committed before an LSN. `tells`: with definitions; `consume`: the
    slot moves behind them."""
    names = link.literal(link.identifiers(publications))
    options = ["'proto_version'", "'3'" if two_phase else "'1'", "'publication_names'", names]
    if two_phase:
        options += ["'two_phase'", "'on'"]
    if binary:
        options += ["'binary'", "'true'"]
    if tells and link.version >= _MESSAGES:
        options += ["'definitions'" if link.is_lake else "'messages'", "'true'"]
    if link.version >= _ORIGINS:
        options += ["'origin'", "'none'" if local_only else "'any'"]
    verb = "get" if consume else "peek"
    return (
        f"COPY (SELECT data FROM pg_catalog.pg_logical_slot_{verb}_binary_changes({link.literal(slot)}, "
        f"{link.literal(lsn_text(upto))}, {limit}, {', '.join(options)})) TO STDOUT (FORMAT binary)"
    )


def portions(link: Link, command: str) -> Iterator[tuple[bytes, Numbers]]:
    """Some messages in one buffer, with padding behind it, and the place where each begins; its length stands before
    it."""
    for data, at in binary_rows(link, command, PORTION):
        yield data, at + _ROW
