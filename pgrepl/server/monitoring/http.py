"""A server of HTTP/1.1 for small answers to GET, in one thread that waits for nobody.

Each connection has one request and one answer, and a few seconds for both. Of more connections than it keeps open, the
one that has waited longest is closed: neither slow clients nor many of them keep a new one from its answer.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

MOST = 64  # connections that are open together
_SECONDS = 5.0  # for a request and its answer
_LONGEST = 8192  # bytes of a request
_PIECE = 65536
_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}  # fmt: skip

_MORE = {405: ("Allow: GET, HEAD",)}  # lines of the head


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


Respond = Callable[[str, float], "Answer | None"]
"""The answer to a request of a path that came at a moment; None: it is not known yet."""


@dataclass
class _Connection:
    socket: socket.socket
    begun: float
    received: bytearray = field(default_factory=bytearray)
    path: str = ""  # of a request that waits for its answer
    has_body: bool = True
    out: memoryview = field(default_factory=lambda: memoryview(b""))


class HttpServer:
    """Answers requests at a listening socket."""

    def __init__(self, listening: socket.socket, respond: Respond) -> None:
        self._listening = listening
        self._respond = respond
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._wake, self._waker = os.pipe()
        self._ends = False
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)
        listening.setblocking(False)
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)

    def wake(self) -> None:
        """Look again whether an answer is known. Called from any thread."""
        with suppress(BlockingIOError):
            os.write(self._waker, b"w")

    def stop(self) -> None:
        """Have `run` return. Called from any thread."""
        self._ends = True
        self.wake()

    def run(self) -> None:
        try:
            while not self._ends:
                self._step()
        finally:
            for each in list(self._connections.values()):
                self._close(each)
            self._selector.close()
            os.close(self._wake)
            os.close(self._waker)

    def _step(self) -> None:
        waits = any(each.path for each in self._connections.values())
        for key, events in self._selector.select(0.1 if waits else 1.0 if self._connections else None):
            if key.fileobj is self._listening:
                self._accept()
            elif key.fd == self._wake:
                with suppress(BlockingIOError):
                    os.read(self._wake, _PIECE)
            else:
                connection = self._connections.get(key.fd)
                if connection is not None and events & selectors.EVENT_WRITE:
                    self._write(connection)
                elif connection is not None:
                    self._read(connection)
        for each in list(self._connections.values()):
            if each.path:
                self._try(each)
            if time.monotonic() - each.begun > _SECONDS:
                self._close(each)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listening.accept()
        except OSError:  # it has gone, or no descriptor is left until another ends
            return
        if len(self._connections) >= MOST:
            self._close(min(self._connections.values(), key=lambda each: each.begun))
        accepted.setblocking(False)
        self._connections[accepted.fileno()] = _Connection(accepted, time.monotonic())
        self._selector.register(accepted, selectors.EVENT_READ)

    def _close(self, connection: _Connection) -> None:
        if self._connections.pop(connection.socket.fileno(), None) is not None:
            self._selector.unregister(connection.socket)
            connection.socket.close()

    def _read(self, connection: _Connection) -> None:
        try:
            piece = connection.socket.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._close(connection)
        elif not connection.path and not connection.out:
            connection.received += piece
            self._request(connection)

    def _request(self, connection: _Connection) -> None:
        head, end, _ = bytes(connection.received).partition(b"\r\n\r\n")
        if not end:
            if len(connection.received) > _LONGEST:
                self._answer(connection, Answer(431, "the request is too long\n"))
            return
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
            self._answer(connection, Answer(400, "this is no request of HTTP/1.1\n"))
        elif words[0] not in ("GET", "HEAD"):
            self._answer(connection, Answer(405, "only GET and HEAD are answered\n"))
        else:
            connection.path, connection.has_body = words[1].partition("?")[0], words[0] == "GET"
            self._try(connection)

    def _try(self, connection: _Connection) -> None:
        answer = self._respond(connection.path, connection.begun)
        if answer is not None:
            connection.path = ""
            self._answer(connection, answer)

    def _answer(self, connection: _Connection, answer: Answer) -> None:
        body = answer.body.encode()
        lines = [
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}", f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(body)}", "Connection: close", *_MORE.get(answer.status, ()),
        ]  # fmt: skip
        head = "".join(line + "\r\n" for line in lines).encode() + b"\r\n"
        connection.out = memoryview(head + body if connection.has_body else head)
        self._selector.modify(connection.socket, selectors.EVENT_WRITE)
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        try:
            sent = connection.socket.send(connection.out)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)
            return
        connection.out = connection.out[sent:]
        if not connection.out:
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
            self._close(connection)
