"""Messages of PostgreSQL's protocol over one connection (pqcomm.c), and COPY's data over it.

A message is a kind (one byte), a length that counts itself (four bytes), and a body. What is sent is collected until
`flush`; what is read comes in pieces, so that a length word alone costs no memory.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.types.lake.arrays import content, joined, records

if TYPE_CHECKING:
    import ssl

LARGE_MESSAGE = 0x3FFF_FFFF - 1  # the longest body of a query, of parameters, of COPY's data (PQ_LARGE_MESSAGE_LIMIT)
SMALL_MESSAGE = 10_000  # of all others
_PIECE = 1 << 16
_FULL = 1 << 15  # bytes to send from which on the buffer is flushed
_LENGTH = struct.Struct("!I")
_HEAD = 1 + _LENGTH.size  # a message's kind and length


class ConnectionLost(Exception):
    """The client is gone; there is nobody to tell."""


class Channel:
    """One connection to a client."""

    def __init__(self, connection: socket.socket | ssl.SSLSocket) -> None:
        self._connection = connection
        self._received = bytearray()
        self._out = bytearray()
        self.is_encrypted = False
        self.is_out_of_step = False  # the body of a message has not been read
        self.wakes: list[int] = []  # descriptors that end a wait for input

    @property
    def connection(self) -> socket.socket | ssl.SSLSocket:
        return self._connection

    def begins_with(self) -> int:
        """The connection's first byte, which stays to be read."""
        try:
            first = self._connection.recv(1, socket.MSG_PEEK)
        except OSError:
            raise ConnectionLost from None
        if not first:
            raise ConnectionLost
        return first[0]

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Go on over TLS. Bytes that have been received already are an attempt to smuggle something in before
        encryption."""
        if self._received:
            raise PgError(
                "08P01",
                "received unencrypted data after SSL request",
                detail="This could be either a client-software bug or evidence of an attempted man-in-the-middle "
                "attack.",
                severity="FATAL",
            )
        self._connection = context.wrap_socket(self._connection, server_side=True)
        self.is_encrypted = True

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def has_received(self) -> bool:
        """Whether input is here that has been read from the connection."""
        return bool(self._received or self._pending())

    def has_input(self, seconds: float | None = 0.0) -> bool:
        """Wait for input, at most so long; False: there is none, or one of `wakes` has become readable."""
        if self.has_received:
            return True
        try:
            watched: list[Any] = [self._connection, *self.wakes]
            ready = select.select(watched, [], [], seconds)[0]
        except (OSError, ValueError):
            raise ConnectionLost from None
        return self._connection in ready

    def _pending(self) -> int:
        pending = getattr(self._connection, "pending", None)  # of an SSLSocket: bytes that are decrypted already
        return pending() if pending is not None else 0

    def _receive(self) -> None:
        try:
            piece = self._connection.recv(_PIECE)
        except OSError:
            raise ConnectionLost from None
        if not piece:
            raise ConnectionLost
        self._received += piece

    def take(self, count: int) -> bytes:
        """The next bytes, when they have all come."""
        received = self._received
        while len(received) < count:
            self._receive()
        if len(received) == count:
            self._received = bytearray()
            return bytes(received)
        taken = bytes(received[:count])
        del received[:count]
        return taken

    def next_is(self, kind: bytes) -> bool:
        """Whether the next message is of this kind, if it has come already."""
        if not self._received and self.has_input(0):
            self._receive()
        return self._received[:1] == kind

    def read_kind(self) -> bytes:
        return self.take(1)

    def read_body(self, most: int) -> bytes:
        """The body of a message whose kind has been read."""
        (length,) = _LENGTH.unpack(self.take(4))
        if not 4 <= length <= most + 4:
            raise PgError("08P01", "invalid message length", severity="FATAL")
        return self.take(length - 4)

    def take_bodies(self, kind: bytes, most: int) -> list[bytes | bytearray]:
        """The bodies of the messages of this kind that stand first in what has been received, whole ones only. It waits
        for nothing."""
        received, unpack, code = self._received, _LENGTH.unpack_from, kind[0]
        bodies: list[bytes | bytearray] = []
        at, last = 0, len(received) - _HEAD
        while at <= last and received[at] == code:
            (length,) = unpack(received, at + 1)
            end = at + 1 + length
            if end > len(received) or not 4 <= length <= most + 4:
                break
            bodies.append(received[at + _HEAD : end])
            at = end
        del received[:at]
        return bodies

    # --- writing --------------------------------------------------------------------------------------------------

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self._out += kind
        self._out += _LENGTH.pack(len(body) + 4)
        self._out += body
        if len(self._out) >= _FULL:
            self.flush()

    def send_raw(self, data: bytes | memoryview) -> None:
        """Bytes that are no message, or several messages."""
        self._out += data
        if len(self._out) >= _FULL:
            self.flush()

    def flush(self) -> None:
        if not self._out:
            return
        out, self._out = self._out, bytearray()
        try:
            self._connection.sendall(out)
        except OSError:
            raise ConnectionLost from None

    def close(self) -> None:
        with suppress(OSError):
            self._connection.close()


class Body:
    """The body of a received message, read from the front (pqformat.c)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise PgError("08P01", "insufficient data left in message")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def byte(self) -> bytes:
        return self.take(1)

    def string(self) -> bytes:
        """The bytes up to the next zero."""
        end = self._data.find(0, self._at)
        if end < 0:
            raise PgError("08P01", "invalid string in message")
        text = self._data[self._at : end]
        self._at = end + 1
        return text

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def end(self) -> None:
        """Raise if anything is left (pq_getmsgend)."""
        if self.left:
            raise PgError("08P01", "invalid message format")


# --- copying ----------------------------------------------------------------------------------------------------------


_DATA = struct.Struct("!cI")
_COPY_HEAD = [("kind", "u1"), ("length", ">u4")]  # of a message of COPY, as numpy writes it


class WireCopy:
    """The client of a session, as COPY sees it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._out: CopyOut | None = None

    def copy_in(self, *, binary: bool, columns: int) -> CopyIn:
        self._channel.send(b"G", _response(binary, columns))
        return CopyIn(self._channel)

    def copy_out(self, *, binary: bool, columns: int) -> CopyOut:
        self._channel.send(b"H", _response(binary, columns))
        self._out = CopyOut(self._channel)
        return self._out

    def forget(self) -> None:
        """The statement has failed: its error ends the rows."""
        self._out = None

    def end_of_statement(self) -> None:
        """The rows of a COPY TO STDOUT are complete."""
        if self._out is not None:
            self._out = None
            self._channel.send(b"c")


_KNOWN = (b"d", b"c", b"f", b"H", b"S")


def _response(binary: bool, columns: int) -> bytes:
    """The format, and that of each column."""
    return struct.pack(f"!bh{columns}h", binary, columns, *([int(binary)] * columns))


class CopyIn:
    """The rows that the client sends."""

    path = None

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __iter__(self) -> Iterator[bytes]:
        channel = self._channel
        channel.flush()
        while True:
            kind = channel.read_kind()
            if kind not in _KNOWN:
                channel.is_out_of_step = True
                raise PgError("08P01", f"unexpected message type 0x{kind[0]:02X} during COPY from stdin")
            body = channel.read_body(LARGE_MESSAGE if kind == b"d" else SMALL_MESSAGE)
            if kind == b"d":
                yield b"".join([body, *channel.take_bodies(b"d", LARGE_MESSAGE)])
            elif kind == b"c":
                return
            elif kind == b"f":
                reason = Body(body).string().decode("utf-8", "replace")
                raise PgError("57014", f"COPY from stdin failed: {reason}")


class CopyOut:
    """COPY's rows to the client; each is a message of its own."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def write(self, data: bytes, /) -> None:
        self._channel.send(b"d", data)

    def write_rows(self, rows: Sequence[bytes], /) -> None:
        pack = _DATA.pack
        self._channel.send_raw(b"".join([pack(b"d", len(row) + 4) + row for row in rows]))

    def write_lines(self, lines: Any, /) -> None:
        heads = np.zeros(len(lines), _COPY_HEAD)
        heads["kind"], heads["length"] = ord("d"), pc.binary_length(lines).to_numpy() + 4
        messages = joined([records(heads), lines.cast(pa.large_binary())])
        self._channel.send_raw(content(messages))
