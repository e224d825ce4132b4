"""PostgreSQL's protocol by hand: messages that no driver sends, and what is answered to them."""

from __future__ import annotations

import select
import socket
import struct
from contextlib import suppress
from types import TracebackType
from typing import Any

from tests.harness.programs import PATIENCE

START = struct.pack("!II", 8 + len(b"user\0postgres\0\0"), 3 << 16) + b"user\0postgres\0\0"


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def text(*parts: str) -> bytes:
    return b"".join(part.encode() + b"\0" for part in parts)


def counted(form: str, values: list[int]) -> bytes:
    return struct.pack(f"!H{len(values)}{form}", len(values), *values)


def parse(name: str, query: str, *types: int) -> bytes:
    return message(b"P", text(name, query) + counted("I", list(types)))


def bind(
    portal: str, name: str, *values: bytes | None, formats: tuple[int, ...] = (), results: tuple[int, ...] = ()
) -> bytes:
    given = b"".join(struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values)
    body = text(portal, name) + counted("h", list(formats)) + struct.pack("!H", len(values)) + given
    return message(b"B", body + counted("h", list(results)))


def execute(portal: str, rows: int) -> bytes:
    return message(b"E", text(portal) + struct.pack("!i", rows))


def describe(kind: bytes, name: str) -> bytes:
    return message(b"D", kind + text(name))


def close(kind: bytes, name: str) -> bytes:
    return message(b"C", kind + text(name))


def query(string: str) -> bytes:
    return message(b"Q", text(string))


def call(oid: int, *values: bytes | None, formats: tuple[int, ...] = (), result: int = 0) -> bytes:
    given = b"".join(struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values)
    head = struct.pack("!I", oid) + counted("h", list(formats))
    return message(b"F", head + struct.pack("!H", len(values)) + given + struct.pack("!h", result))


def standby_status(lsn: int) -> bytes:
    """Everything before it has been written, flushed and applied."""
    return message(b"d", struct.pack("!cQQQqb", b"r", lsn, lsn, lsn, 0, 0))


SYNC = message(b"S", b"")


class Wire:
    """A connection to a server, or to pgrepl, that is asked by messages."""

    def __init__(self, host: str, port: int, **options: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(f"{host}/.s.PGSQL.{port}")
        self._read = b""
        words = [word for pair in ({"user": "postgres"} | options).items() for word in pair]
        body = struct.pack("!I", 3 << 16) + text(*words) + b"\0"
        self._socket.sendall(struct.pack("!I", len(body) + 4) + body)
        self.answers()

    def ask(self, *messages: bytes) -> list[str]:
        """What is answered, up to ReadyForQuery or the beginning of COPY in both directions."""
        self.say(*messages)
        return self.answers()

    def say(self, *messages: bytes) -> None:
        self._socket.sendall(b"".join(messages))

    def has_answer(self) -> bool:
        """Whether anything has come that has not been read."""
        return bool(self._read or select.select([self._socket], [], [], 0)[0])

    def answers(self, until: str = "ZW") -> list[str]:
        found = []
        while not found or found[-1][0] not in until:
            found.append(_told(*self._message()))
        return found

    def rest(self) -> list[str]:
        """What is answered until the connection is closed."""
        found = []
        with suppress(AssertionError, ConnectionResetError):
            while True:
                found.append(_told(*self._message()))
        return found

    def _message(self) -> tuple[str, bytes]:
        head = self._take(5)
        return head[:1].decode(), self._take(struct.unpack("!I", head[1:])[0] - 4)

    def _take(self, size: int) -> bytes:
        while len(self._read) < size:
            found = self._socket.recv(65536)
            assert found, "the connection is closed"
            self._read += found
        taken, self._read = self._read[:size], self._read[size:]
        return taken

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self._socket.close()


def _told(kind: str, body: bytes) -> str:
    """A message without what differs from server to server: places in C, OIDs of users' tables."""
    if kind in "EN":
        fields = [field.decode() for field in body.split(b"\0") if field and field[:1] not in b"FLR"]
        return f"{kind} {' | '.join(fields)}"
    if kind == "T":
        columns, rest = [], body[2:]
        while rest:
            name, _, rest = rest.partition(b"\0")
            table, *others = struct.unpack("!IHIhih", rest[:18])
            columns.append((name.decode(), bool(table), *others))
            rest = rest[18:]
        return f"T {columns}"
    return f"{kind} {body!r}"
