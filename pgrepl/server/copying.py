"""COPY FROM STDIN and COPY TO STDOUT over the connection (CopyGetData, CopySendEndOfRow)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pgrepl.errors import PgError
from pgrepl.server.channel import LARGE_MESSAGE, SMALL_MESSAGE, Body, Channel

_DATA = struct.Struct("!cI")


class WireCopy:
    """The client of a session, as COPY sees it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def copy_in(self, *, binary: bool) -> CopyIn:
        return CopyIn(self._channel, binary=binary)

    def copy_out(self) -> CopyOut:
        return CopyOut(self._channel)


class CopyIn:
    """The rows that the client sends."""

    path = None

    def __init__(self, channel: Channel, *, binary: bool) -> None:
        self._channel = channel
        self._binary = binary

    def __iter__(self) -> Iterator[bytes]:
        channel = self._channel
        channel.send(b"G", struct.pack("!bh", self._binary, 0))
        channel.flush()
        while True:
            kind = channel.read_kind()
            body = channel.read_body(LARGE_MESSAGE if kind == b"d" else SMALL_MESSAGE)
            if kind == b"d":
                yield body
            elif kind == b"c":
                return
            elif kind == b"f":
                reason = Body(body).string().decode("utf-8", "replace")
                raise PgError("57014", f"COPY from stdin failed: {reason}")
            elif kind not in (b"H", b"S"):
                message = f"unexpected message type 0x{kind[0]:02X} during COPY from stdin"
                raise PgError("08P01", message, severity="FATAL")


class CopyOut:
    """Where rows go; each is a message of its own."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        channel.send(b"H", struct.pack("!bh", 0, 0))

    def write(self, data: bytes, /) -> None:
        pack = _DATA.pack
        self._channel.send_raw(b"".join([pack(b"d", len(line) + 4) + line for line in data.splitlines(keepends=True)]))
