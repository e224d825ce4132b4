"""A server of HTTP/1.1 for small requests and answers, in one thread that waits for nobody.

Each connection has one request and one answer, and a time for each. Of more connections than it keeps open one is
closed, first of those that still send or take: neither slow clients nor many of them keep a new one from its answer.
With a certificate a connection that begins as TLS does is one of TLS.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pgrepl.ground.errors import PgError

MOST = 64  # connections that are open together
_BACKLOG = 128
_LINGER = 1.0  # seconds in which a client may still send what is not read, so that it gets the answer
_LONGEST_HEAD = 8192
_PIECE = 65536
_TLS_RECORD = 0x16  # the first byte of a client that speaks TLS
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_REASONS = {
    200: "OK", 204: "No Content", 304: "Not Modified", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden",
    404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable", 411: "Length Required",
    413: "Content Too Large", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """What a server allows."""

    methods: tuple[str, ...] = ("GET", "HEAD")
    body: int = 0  # bytes
    sending: float = 5.0  # seconds for a request, and for taking the answer
    waiting: float = 5.0  # seconds for the answer to be known


@dataclass(eq=False)
class Request:
    """A request that has come as a whole."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]  # by names in lower case
    body: bytes
    connection: socket.socket
    asked: float  # when its connection began


@dataclass(frozen=True)
class Answer:
    status: int
    body: str = ""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


Respond = Callable[[Request], "Answer | None"]
"""The answer to a request; None: it is not known yet, and asked for again."""
Complain = Callable[[int, str], Answer]
"""The answer to what is no request."""


@dataclass
class _Connection:
    socket: socket.socket
    number: int  # its descriptor
    begun: float
    until: float
    is_known: bool = False  # whether it is one of TLS
    received: bytearray = field(default_factory=bytearray)
    request: Request | None = None  # that waits for its answer
    has_body: bool = True
    lingers: bool = False  # its request was not read to its end
    out: memoryview = field(default_factory=lambda: memoryview(b""))


class HttpServer:
    """Answers requests at a listening socket."""

    def __init__(
        self, listening: socket.socket, respond: Respond, limits: Limits = Limits(), *,
        complain: Complain = lambda status, text: Answer(status, f"{text}\n"), tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._listening = listening
        self._respond = respond
        self._limits = limits
        self._complain = complain
        self._tls = tls
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
            for connection in list(self._connections.values()):
                self._close(connection)
            self._selector.close()
            os.close(self._wake)
            os.close(self._waker)

    def _step(self) -> None:
        waits = any(connection.request for connection in self._connections.values())
        for key, events in self._selector.select(0.1 if waits else 1.0 if self._connections else None):
            if key.fd == self._listening.fileno():
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
        for client in list(self._connections.values()):
            if client.request:
                self._try(client, client.request)
            if time.monotonic() > client.until:
                self._close(client)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listening.accept()
        except OSError:  # it has gone, or no descriptor is left until another ends
            return
        if len(self._connections) >= MOST:
            self._close(min(self._connections.values(), key=lambda client: (client.request is not None, client.begun)))
        accepted.setblocking(False)
        now = time.monotonic()
        known = self._tls is None
        number = accepted.fileno()
        self._connections[number] = _Connection(accepted, number, now, now + self._limits.sending, known)
        self._watch(self._connections[number], selectors.EVENT_READ)

    def _watch(self, connection: _Connection, events: int) -> None:
        """Wait for these events of the connection from now on; 0: for none."""
        with suppress(KeyError):
            self._selector.unregister(connection.number)
        if events:
            self._selector.register(connection.number, events)

    def _close(self, connection: _Connection) -> None:
        if self._connections.pop(connection.number, None) is not None:
            self._watch(connection, 0)
            connection.socket.close()

    # --- what comes -----------------------------------------------------------------------------------------------

    def _read(self, connection: _Connection) -> None:
        try:
            if not connection.is_known:
                self._look_for_tls(connection)
            while piece := connection.socket.recv(_PIECE):
                if not connection.lingers:
                    connection.received += piece
                    self._take(connection)
                if connection.request or connection.out or connection.number not in self._connections:
                    return
        except _AGAIN:
            return
        except OSError:
            pass
        self._close(connection)

    def _look_for_tls(self, connection: _Connection) -> None:
        first = connection.socket.recv(1, socket.MSG_PEEK)
        connection.is_known = True
        if first and first[0] == _TLS_RECORD and self._tls is not None:
            plain = connection.socket
            connection.socket = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)

    def _take(self, connection: _Connection) -> None:
        """Look whether what has come is a whole request."""
        head, end, rest = bytes(connection.received).partition(b"\r\n\r\n")
        if not end or len(head) > _LONGEST_HEAD:
            if len(connection.received) > _LONGEST_HEAD:
                self._refuse(connection, 431, "the request is too long")
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("content-length", "0")
        if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
            self._refuse(connection, 400, "this is no request of HTTP/1.1")
        elif words[0] not in self._limits.methods:
            self._refuse(connection, 405, f"only {' and '.join(self._limits.methods)} are answered")
        elif "transfer-encoding" in headers:
            self._refuse(connection, 411, "the length of the body is not given")
        elif not (length.isascii() and length.isdigit()):
            self._refuse(connection, 400, "the length of the body is no number")
        elif len(length) > 12 or int(length) > self._limits.body:
            self._refuse(connection, 413, "the body is too long")
        elif len(rest) >= int(length):
            path, _, query = words[1].partition("?")
            connection.has_body = words[0] != "HEAD"
            connection.until = time.monotonic() + self._limits.waiting
            request = Request(words[0], path, query, headers, rest[: int(length)], connection.socket, connection.begun)
            connection.request = request
            self._watch(connection, 0)  # others may look at its certificate meanwhile
            self._try(connection, request)

    def _refuse(self, connection: _Connection, status: int, text: str) -> None:
        connection.lingers = True
        self._answer(connection, self._complain(status, text))

    # --- what goes ------------------------------------------------------------------------------------------------

    def _try(self, connection: _Connection, request: Request) -> None:
        answer = self._respond(request)
        if answer is not None:
            connection.request = None
            self._answer(connection, answer)

    def _answer(self, connection: _Connection, answer: Answer) -> None:
        body = answer.body.encode()
        lines = [f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}", "Connection: close"]
        if answer.status not in (204, 304):
            lines += [f"Content-Type: {answer.content_type}", f"Content-Length: {len(body)}"]
        if answer.status == 405:
            lines.append(f"Allow: {', '.join(self._limits.methods)}")
        lines += [f"{name}: {value}" for name, value in answer.headers]
        head = "".join(line + "\r\n" for line in lines).encode() + b"\r\n"
        connection.out = memoryview(head + body if connection.has_body else head)
        connection.until = time.monotonic() + self._limits.sending
        self._watch(connection, selectors.EVENT_WRITE)
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        try:
            sent = connection.socket.send(connection.out)
        except _AGAIN:
            return
        except OSError:
            self._close(connection)
            return
        connection.out = connection.out[sent:]
        if connection.out:
            return
        if connection.lingers and not isinstance(connection.socket, ssl.SSLSocket):
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
            connection.until = time.monotonic() + _LINGER
            self._watch(connection, selectors.EVENT_READ)
        else:
            self._close(connection)


def listen(address: tuple[str, int], what: str) -> socket.socket:
    """Listen at an address and port; `what` is answered there."""
    host, port = address
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        listening = socket.socket(*addresses[0][:3])
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(addresses[0][4])
        listening.listen(_BACKLOG)
    except OSError as problem:
        text = f'could not listen for {what} on address "{host}", port {port}: {problem.strerror}'
        raise PgError("58000", text, severity="FATAL") from None
    return listening
