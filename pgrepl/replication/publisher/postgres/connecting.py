"""Connecting to a server by libpq's rules: libpq itself reads the string, the environment, service files and `.pgpass`.

psycopg, numpy and the publisher are imported only when a connection is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgrepl.replication.publisher.postgres.link import Link

if TYPE_CHECKING:
    from pgrepl.replication.publisher.postgres.publisher import PostgresPublisher

APPLICATION = "pgrepl"


def to_server(
    options: Mapping[str, str],
    data_path: str,
    patience: float | None = None,
    *,
    interval: float = 10.0,
    heartbeat: float = 0.0,
) -> PostgresPublisher:
    """An open connection; ConnectionFailure with libpq's words. `patience`: see Link; `interval`: see Feedback;
    `heartbeat`: the seconds without a change after which a follower writes a message."""
    from pgrepl.replication.publisher.postgres.publisher import PostgresPublisher

    return PostgresPublisher(Link(options, APPLICATION, patience=patience), data_path, interval, heartbeat)


def link_to(options: Mapping[str, str]) -> Link:
    """A connection for queries alone, which needs no REPLICATION privilege."""
    return Link(options, APPLICATION, replication=False)
