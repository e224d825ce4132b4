"""Random replication from a real publisher with two subscribers, a real PostgreSQL and pgrepl: after each catching up
their tables, errors and states are the same. Where another release is to be tried (new_server), it publishes, and the
wheel's 16 subscribes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from tests.postgres import replicas, served
from tests.postgres.replicas import Answer, Failure, RealReplicas, Rows
from tests.postgres.replicas_ours import OurReplicas
from tests.postgres.server import OTHER_RELEASE, Server, new_server, wheel_binaries
from tests.postgres.test_replication_workloads import CHANCE, Play, play_out

OURS = "ours_"  # a slot for each subscriber


@pytest.fixture(scope="module")
def publishers(request: pytest.FixtureRequest) -> Iterator[RealReplicas]:
    if OTHER_RELEASE not in os.environ:
        yield request.getfixturevalue("real")
        return
    subscriber = Server(wheel_binaries(16), settings=replicas.SETTINGS).start()
    publisher = new_server(16, served.SETTINGS + "wal_writer_delay = 10ms\n")
    made = RealReplicas(subscriber, publisher)
    yield made
    made.close()
    subscriber.stop()
    publisher.stop()


class ServedReplicas(OurReplicas):
    """Our subscriber; the publisher is the real one."""

    def __init__(self, real: RealReplicas, *, by_spark: bool = False, release: int = 17) -> None:
        super().__init__(by_spark=by_spark, release=release)
        self._real = real

    def conninfo(self, where: str) -> str:
        return self._real.conninfo(where) if where == "pub" else super().conninfo(where)

    def run(self, where: str, text: str) -> Answer:
        return ("done", "") if where == "pub" else super().run(where, text)

    def rows(self, where: str, text: str) -> Rows:
        return self._real.rows(where, text) if where == "pub" else super().rows(where, text)

    def catch_up(self, subscription: str, at: str = "sub") -> list[Failure]:
        found = super().catch_up(subscription, at)
        self._database(at).leave()  # an open shell would keep the connection
        return [f._replace(message=f.message.replace(f'"{OURS}', '"')) for f in found]


class PlayServed(Play):
    """What is said at the publisher is said once."""

    def say(self, where: str, text: str) -> Answer:
        if where != "pub":
            return super().say(where, text)
        self.played.append(f"{where}: {text}")
        return self.real.run(where, text)

    def create(self, name: str, publications: str, options: str = "", source: str = "pub", at: str = "sub") -> Answer:
        if source != "pub":
            return super().create(name, publications, options, source, at)
        self.real.run("pub", f"SELECT pg_create_logical_replication_slot('{OURS}{name}', 'pgoutput')")
        answer = super().create(name, publications, options, source, at)
        if answer[0] == "done":
            assert self.ours.run(at, f"ALTER SUBSCRIPTION {name} SET (slot_name = '{OURS}{name}')")[0] == "done"
        return answer


def compare(real: RealReplicas, chance: Random, *, by_spark: bool = False) -> None:
    real.renew()
    ours = ServedReplicas(real, by_spark=by_spark)
    try:
        play_out(PlayServed(real, ours), chance)
    finally:
        ours.close()


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(CHANCE)
def test_random_replication_from_a_server_ends_the_same(publishers: RealReplicas, chance: Random) -> None:
    compare(publishers, chance)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_much_random_replication_from_a_server_ends_the_same(publishers: RealReplicas, seed: int) -> None:
    compare(publishers, Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_replication_from_a_server_by_spark_ends_the_same(
    publishers: RealReplicas, spark: object, seed: int
) -> None:
    compare(publishers, Random(seed), by_spark=True)
