"""A database of a PostgreSQL server as a publisher."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pgrepl.replication.publisher.postgres.catalog import ServerCatalog
from pgrepl.replication.publisher.postgres.change_stream import ServerChangeStream
from pgrepl.replication.publisher.postgres.connection import ServerConnection
from pgrepl.replication.publisher.postgres.copies import ServerCopies
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.server_slots import ServerSlots
from pgrepl.replication.publisher.protocol import Publisher

if TYPE_CHECKING:
    from pgrepl.replication.publisher.postgres.comparing import ServerComparing


class PostgresPublisher(Publisher):
    """An open connection to a server."""

    slots: ServerSlots
    stream: ServerChangeStream
    copies: ServerCopies

    def __init__(self, link: Link, data_path: str, interval: float = 10.0, heartbeat: float = 0.0) -> None:
        """`data_path`: where files for Spark are written. `interval`, `heartbeat`: see to_server."""
        self._connection = ServerConnection(link, data_path)
        self.catalog = ServerCatalog(self._connection)
        self.stream = ServerChangeStream(self._connection, interval, heartbeat)
        self.slots = ServerSlots(self._connection, self.stream)
        self.copies = ServerCopies(self._connection)

    @property
    def is_open(self) -> bool:
        return self._connection.opened.is_open

    @property
    def used_password(self) -> bool:
        return self._connection.link.used_password

    @cached_property
    def system_identifier(self) -> str:
        return self._connection.link.row("IDENTIFY_SYSTEM")[0] or ""

    @cached_property
    def comparing(self) -> ServerComparing:
        from pgrepl.replication.publisher.postgres.comparing import ServerComparing

        return ServerComparing(self._connection)

    def interrupt(self) -> None:
        self._connection.interrupt()
        self.stream.interrupt()

    def close(self) -> None:
        self.stream.stop()
        self._connection.close()
