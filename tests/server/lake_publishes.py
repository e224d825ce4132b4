"""A served lake that publishes and a real PostgreSQL that subscribes, with the interface of replicas.RealReplicas: what
is played with two databases of a PostgreSQL server is played with them, too."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.serving import serving
from tests.postgres.replicas import SETTINGS, RealReplicas
from tests.postgres.server import new_server


@dataclass(frozen=True)
class Address:
    """Where a server is: PostgreSQL's workers may not enter the folder of the lake's socket."""

    port: int
    host: str = "127.0.0.1"


@contextmanager
def lake_publishes(version: int) -> Iterator[RealReplicas]:
    """`pub` is a database of a lake, `sub` and `third` are of PostgreSQL 16 or 18."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as lake:
        server = new_server(version, SETTINGS)
        try:
            made = RealReplicas(server, Address(lake.port))
            yield made
            made.close()
        finally:
            server.stop()
