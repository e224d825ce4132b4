"""TLS before a server that was built without it: takes connections as a server with `ssl = on` does, and hands what is
inside to the server's socket. Nobody gets through without TLS, except a cancel request."""

from __future__ import annotations

import select
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.harness.programs import PATIENCE

_CANCEL, _TLS, _GSS = 80877102, 80877103, 80877104


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """One that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes certificates, is not installed")
    made, key = folder / f"{name}.crt", folder / f"{name}.key"
    what = "-x509 -nodes -days 2 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
    whose = "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    command = ["openssl", "req", *what.split(), *whose.split(), "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@contextmanager
def tls_front(server_socket: str, certified: tuple[Path, Path]) -> Iterator[int]:
    """The port where it listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certified)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=_listen, args=(listening, server_socket, context), daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def _listen(listening: socket.socket, server_socket: str, context: ssl.SSLContext) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            Thread(target=_serve, args=(client, server_socket, context), daemon=True).start()


def _serve(client: socket.socket, server_socket: str, context: ssl.SSLContext) -> None:
    with suppress(OSError), closing(socket.socket(socket.AF_UNIX)) as server, closing(client):
        client.settimeout(30)
        head = client.recv(8, socket.MSG_WAITALL)
        while len(head) == 8 and struct.unpack("!I", head[4:]) == (_GSS,):
            client.sendall(b"N")
            head = client.recv(8, socket.MSG_WAITALL)
        code = struct.unpack("!I", head[4:])[0]
        if code not in (_CANCEL, _TLS):
            return
        server.connect(server_socket)
        if code == _CANCEL:
            server.sendall(head + client.recv(8, socket.MSG_WAITALL))
            server.recv(1)
            return
        client.sendall(b"S")
        with context.wrap_socket(client, server_side=True) as inside:
            _hand_on(inside, server)


def _hand_on(inside: ssl.SSLSocket, server: socket.socket) -> None:
    while True:
        ready = [inside] if inside.pending() else select.select([inside, server], [], [], 30)[0]
        if not ready:
            return
        for one, other in ((inside, server), (server, inside)):
            if one in ready:
                data = one.recv(1 << 16)
                if not data:
                    return
                other.sendall(data)
