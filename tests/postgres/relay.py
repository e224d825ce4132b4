"""A network between a subscriber and a server: it hands on what each says, message by message, until a test has it cut
a connection, perhaps in the middle of a message, or slow down."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Thread
from typing import TypeAlias

from tests.harness.programs import PATIENCE
from tests.postgres.served import Served

# is it the server's, and the message: how many of its bytes are handed on before the connection is cut; None: all
Hear: TypeAlias = "Callable[[bool, bytes], int | None]"


class Relay:
    def __init__(self, listening: socket.socket, server_socket: str) -> None:
        self.hear: Hear = lambda by_server, message: None
        self.port = listening.getsockname()[1]
        self.pause = 0.0  # seconds for each message
        self.server_socket = server_socket
        self._listening = listening
        self._open: set[socket.socket] = set()

    def listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def cut(self) -> None:
        """All connections."""
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _serve(self, client: socket.socket) -> None:
        with closing(client), closing(socket.socket(socket.AF_UNIX)) as server, suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.connect(self.server_socket)
            ends = {client, server}
            self._open |= ends
            back = Thread(target=self._hand_on, args=(server, client, True), daemon=True)
            back.start()
            self._hand_on(client, server, False)
            back.join(PATIENCE)
            self._open -= ends

    def _hand_on(self, one: socket.socket, other: socket.socket, by_server: bool) -> None:
        """The client's first message has no type."""
        with suppress(OSError), one.makefile("rb") as said:
            kind = 1 if by_server else 0
            while len(head := said.read(kind + 4)) == kind + 4:
                message = head + said.read(int.from_bytes(head[kind:], "big") - 4)
                kind = 1
                most = self.hear(by_server, message)
                if self.pause:
                    time.sleep(self.pause)
                other.sendall(message if most is None else message[:most])
                if most is not None:
                    break
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay(served: Served) -> Iterator[Relay]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = Relay(listening, served.publishing.socket)
        thread = Thread(target=made.listen, daemon=True)
        thread.start()
        yield made
        listening.shutdown(socket.SHUT_RDWR)
        made.cut()
        thread.join(PATIENCE)


def through(made: Relay, served: Served) -> str:
    """The connection string for it."""
    return f"host=127.0.0.1 port={made.port} dbname={served.database} user=postgres sslmode=disable gssencmode=disable"
