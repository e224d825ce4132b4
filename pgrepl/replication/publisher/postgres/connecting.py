"""To a server by libpq's rules: libpq itself reads the string, the environment, service files and `.pgpass`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgrepl.replication.libpq.endpoints import ConnectionFailure, Endpoint

if TYPE_CHECKING:
    from pgrepl.replication.publisher.postgres.link import Link
    from pgrepl.replication.publisher.postgres.publisher import PostgresPublisher

APPLICATION = "pgrepl"


class Unreachable(ConnectionFailure):
    """No server answered."""


def to_server(options: Mapping[str, str], data_path: str, patience: float | None = None) -> PostgresPublisher:
    """An open connection; ConnectionFailure with libpq's words. `patience`: see Link."""
    from pgrepl.replication.publisher.postgres.link import Link
    from pgrepl.replication.publisher.postgres.publisher import PostgresPublisher

    return PostgresPublisher(Link(options, APPLICATION, patience=patience), data_path)


def link_to(options: Mapping[str, str]) -> Link:
    """The same for questions alone, which needs no right to replicate."""
    from pgrepl.replication.publisher.postgres.link import Link

    return Link(options, APPLICATION, replication=False)


def only(options: Mapping[str, str], endpoint: Endpoint) -> dict[str, str]:
    """The same options with one host of several."""
    kept = {name: value for name, value in options.items() if name not in ("host", "hostaddr", "port")}
    if endpoint.host:
        kept["host"] = endpoint.host
    if endpoint.address:
        kept["hostaddr"] = endpoint.address
    if options.get("port"):
        kept["port"] = endpoint.port
    return kept


def failure(message: str) -> ConnectionFailure:
    """What libpq says, and whether a server said it."""
    kind = ConnectionFailure if "FATAL:  " in message else Unreachable
    return kind(message)
