"""Rows and sequences go from a server through a lake to a server of another release, which then takes over: with
generated columns, exceptions, row filters and column lists, while tables and columns are added."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.harness.dose import dose
from tests.harness.serving import Serving, serving
from tests.postgres.server import Server, new_server
from tests.postgres.version_chain import SETTINGS, Chain, new_node

LAKE = 0
CHAINS = {
    "server 16, lake, server 18": (16, LAKE, 18),
    "lake, server 18": (LAKE, 18),
    "server 18, lake, server 16": (18, LAKE, 16),
    "server 16, lake, lake, server 18": (16, LAKE, LAKE, 18),
}


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[int, Server]]:
    made = {release: new_server(release, SETTINGS) for release in (16, 18)}
    yield made
    for server in made.values():
        server.stop()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("lake")) as served:
        served.ask("ALTER SYSTEM SET wal_receiver_status_interval = '1s'")
        served.ask("SELECT pg_reload_conf()")
        yield served


def play(servers: dict[int, Server], lake: Serving, releases: tuple[int, ...], seed: int, name: str) -> None:
    nodes = [new_node(servers.get(r, lake), f"{name}_{n}", r) for n, r in enumerate(releases)]
    chain = Chain(nodes, Random(seed))
    try:
        chain.define()
        chain.settle()
        for _ in range(3):
            for _ in range(chain.chance.randint(3, 12)):
                chain.change()
            if not chain.stays and chain.chance.random() < 0.6:
                chain.settle()
                chain.redefine()
        chain.settle()
        chain.take_over()
        for number in range(len(chain.links) - 1):
            chain.drop(number)
    except BaseException:
        logs = [lake.log, *((server.folder / "log").read_text() for server in servers.values())]
        print("\n".join([*chain.played, *(log[-3000:] for log in logs)]))
        raise
    finally:
        for node in nodes:
            node.link.close()


CASES = [(name, seed) for seed in range(100) for name in CHAINS]


@pytest.mark.parametrize(("chain", "seed"), dose(CASES, len(CASES), 3))
def test_each_has_what_the_one_before_it_publishes(
    servers: dict[int, Server], lake: Serving, chain: str, seed: int
) -> None:
    releases = CHAINS[chain]
    play(servers, lake, releases, seed, f"c{''.join(map(str, releases))}_{seed}")
