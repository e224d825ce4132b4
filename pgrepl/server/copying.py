"""COPY FROM STDIN and COPY TO STDOUT over the connection (CopyGetData, CopySendEndOfRow)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from pgrepl.errors import PgError
from pgrepl.server.channel import LARGE_MESSAGE, SMALL_MESSAGE, Body, Channel
from pgrepl.types.byte_columns import joined, records
from pgrepl.types.lake_arrays import content

_DATA = struct.Struct("!cI")
_HEAD = [("kind", "u1"), ("length", ">u4")]  # of a message of COPY, as numpy writes it


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
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        heads = np.zeros(len(lines), _HEAD)
        heads["kind"], heads["length"] = ord("d"), pc.binary_length(lines).to_numpy() + 4
        messages = joined([records(heads), lines.cast(pa.large_binary())])
        self._channel.send_raw(content(messages))
