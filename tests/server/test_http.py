"""The server's HTTP: what is a request, and that no client can hold it up."""

from __future__ import annotations

import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgrepl.server import http
from pgrepl.server.http import Answer, HttpServer, Limits, Request
from pgrepl.server.startup import server_context

_LIMITS = Limits(("GET", "HEAD", "POST"), body=100, sending=1.0, waiting=1.0)


def echo(request: Request) -> Answer | None:
    if request.path == "/never":
        return None
    if request.path == "/nothing":
        return Answer(204)
    return Answer(200, f"{request.method} {request.query} {request.body.decode()} {request.headers.get('x', '')}")


@contextmanager
def answering(respond: Callable[[Request], Answer | None] = echo, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    listening = http.listen(("127.0.0.1", 0), "a test")
    server = HttpServer(listening, respond, _LIMITS, tls=tls)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.stop()
        thread.join()
        listening.close()


def said(port: int, *pieces: bytes) -> bytes:
    """What the server answers to these pieces, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as con:
        for piece in pieces:
            con.sendall(piece)
            time.sleep(0.01)
        return everything(con)


def everything(con: socket.socket) -> bytes:
    found = b""
    while piece := con.recv(65536):
        found += piece
    return found


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with answering() as found:
        yield found


def test_a_body_that_comes_in_pieces(port: int) -> None:
    answer = said(port, b"POST /a?b=c HTTP/1.1\r\nX:  y \r\nContent-", b"Length: 5\r\n\r\nab", b"cde")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\nConnection: close\r\n")
    assert answer.endswith(b"Content-Length: 16\r\n\r\nPOST b=c abcde y")


def test_an_answer_without_a_body(port: int) -> None:
    assert said(port, b"GET /nothing HTTP/1.1\r\n\r\n") == b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    assert said(port, b"HEAD / HTTP/1.1\r\n\r\n").endswith(b"Content-Length: 7\r\n\r\n")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("POST / HTTP/1.1\r\nContent-Length: 101", 413), ("POST / HTTP/1.1\r\nContent-Length: -1", 400),
        ("POST / HTTP/1.1\r\nContent-Length: ٣", 400), ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked", 411),
        (f"POST / HTTP/1.1\r\nContent-Length: {'9' * 5000}", 413), ("PATCH / HTTP/1.1", 405), ("GET x HTTP/1.1", 400),
    ],
)  # fmt: skip
def test_what_is_refused_is_told(port: int, head: str, status: int) -> None:
    """The client gets the answer although the server has not read all that it sends."""
    answer = said(port, head.encode() + b"\r\n\r\n" + b"x" * 200_000)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_slow_clients_are_closed(port: int) -> None:
    began = time.monotonic()
    assert said(port, b"GET / HT") == b""
    assert said(port, b"GET /never HTTP/1.1\r\n\r\n") == b""
    assert time.monotonic() - began < 20


def test_many_clients_that_say_nothing_keep_no_answer_back(port: int) -> None:
    with answering() as other:
        waiting = [socket.create_connection(("127.0.0.1", other)) for _ in range(2 * http.MOST)]
        assert said(other, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        for each in waiting:
            each.close()


def test_tls_and_plain_at_one_port(tmp_path: Path) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    files = ["-keyout", "server.key", "-out", "server.crt"]
    subprocess.run([*made, *files], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "server.key").chmod(0o600)
    context = server_context(tmp_path / "server.crt", tmp_path / "server.key", None, "http/1.1")

    def respond(request: Request) -> Answer:
        return Answer(200, f"{isinstance(request.connection, ssl.SSLSocket)} {len(request.body)}")

    trusting = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
    with answering(respond, context) as port:
        assert said(port, b"GET / HTTP/1.1\r\n\r\n").endswith(b"False 0")
        assert said(port, b"\x16\x03\x01 no record of TLS" * 20) != b"False"
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        with trusting.wrap_socket(plain, server_hostname="localhost") as con:
            con.sendall(b"POST / HTTP/1.1\r\nContent-Length: 90\r\n\r\n" + b"x" * 90)
            assert everything(con).endswith(b"True 90")


def test_nonsense_ends_no_server(port: int) -> None:
    chance = random.Random(1)
    parts = [b"GET ", b"POST ", b"/", b"/a%", b"?", b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b":", b"Content-Length: 3",
             b"\0", b"\xff\xfe", b"\x16\x03", b" ", b"%00", b"x" * 3000]  # fmt: skip
    for _ in range(150):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as con:
            con.sendall(b"".join(chance.choices(parts, k=chance.randrange(1, 12))))
            if chance.random() < 0.5:
                con.shutdown(socket.SHUT_WR)
                everything(con)
    assert said(port, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
