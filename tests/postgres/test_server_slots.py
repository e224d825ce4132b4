"""Slots at a server when connections end: that of a copy is dropped in the end, that of the stream is free at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import psycopg
import pytest

from pgrepl.replication.subscriber.status import subscription_status
from tests.harness.database import Rows
from tests.harness.programs import eventually
from tests.postgres.relay import Relay, relay, through
from tests.postgres.served import Served

SYNC = "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'pg\\_%\\_sync\\_%'"
STATES = "SELECT srsubstate FROM pg_subscription_rel"
COPY_DONE = b"c"
ON_ONE = pytest.mark.parametrize("publishing", [18], indirect=True)


@pytest.fixture
def network(served: Served) -> Iterator[Relay]:
    served.both("CREATE TABLE t (a int PRIMARY KEY)")
    served.pub("INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t")
    with relay(served) as made:
        served.subscribe_only(conninfo=through(made, served))
        yield made
        served.sub.leave()


class CutAtDrop:
    """Cuts the connections that drop the slot of a copy, before the server hears of it or before it answers."""

    def __init__(self, network: Relay, *, is_heard: bool = False) -> None:
        self.times = 0
        self._is_heard = is_heard
        self._dropping = False
        network.hear = self

    def __call__(self, by_server: bool, message: bytes) -> int | None:
        if by_server:
            return 3 if self._dropping else None
        if b"DROP_REPLICATION_SLOT" not in message or b"_sync_" not in message:
            return None
        self.times += 1
        self._dropping = self._is_heard
        return None if self._is_heard else 0


def left(served: Served) -> Rows:
    return served.pub(SYNC)


@ON_ONE
def test_the_slot_of_a_copy_that_could_not_be_dropped_is_dropped_later(served: Served, network: Relay) -> None:
    cutting = CutAtDrop(network)
    ((message, _, _),) = served.catch_up()
    ((slot,),) = left(served)
    assert message.startswith(f'could not drop replication slot "{slot}" on publisher: ')
    assert (served.sub("SELECT * FROM t"), served.sub(STATES)) == ([("1",)], [("s",)])
    served.pub("INSERT INTO t VALUES (2)")
    assert [message for message, _, _ in served.catch_up()] == [message]
    assert cutting.times == 2
    assert (served.sub("SELECT count(*) FROM t"), served.sub(STATES)) == ([("2",)], [("s",)])
    network.hear = lambda by_server, message: None
    assert served.catch_up() == []
    assert (left(served), served.sub(STATES)) == ([], [("r",)])
    (status,) = subscription_status(served.sub.session, everywhere=False)
    assert (status.stop, status.sync_errors) == (None, 2)


@ON_ONE
def test_a_slot_that_was_dropped_without_an_answer_is_not_missed(served: Served, network: Relay) -> None:
    CutAtDrop(network, is_heard=True)
    assert len(served.catch_up()) == 1
    assert (left(served), served.sub(STATES)) == ([], [("s",)])
    network.hear = lambda by_server, message: None
    assert served.catch_up() == []
    assert served.sub(STATES) == [("r",)]


@ON_ONE
@pytest.mark.parametrize(
    "statement", ["DROP SUBSCRIPTION s", "ALTER SUBSCRIPTION s REFRESH PUBLICATION", "server restarts"]
)
def test_who_comes_first_drops_it(served: Served, network: Relay, statement: str) -> None:
    CutAtDrop(network)
    assert len(served.catch_up()) == 1 == len(left(served))
    network.hear = lambda by_server, message: None
    if statement == "server restarts":
        served.link.close()
        served.publishing.restart("immediate")
        assert len(left(served)) == 1
        assert served.catch_up() == []
    else:
        served.pub("ALTER PUBLICATION p DROP TABLE t")
        served.sub(statement)
    assert left(served) == []


@ON_ONE
def test_a_stream_that_is_ended_has_left_its_slot(served: Served, network: Relay) -> None:
    """The server says so a moment behind the end of its COPY."""
    assert served.catch_up() == []
    said: list[bytes] = []
    held = threading.Event()

    def hear(by_server: bool, message: bytes) -> None:
        if by_server and said[-1:] == [COPY_DONE]:
            held.wait(0.3)
        said.append(message[:1] if by_server else message[:1].lower())
        if not by_server and message[:1] == b"X":
            held.set()

    network.hear = hear
    served.pub("INSERT INTO t VALUES (2)")
    assert served.catch_up() == []
    served.sub.leave()
    assert COPY_DONE in said
    behind = said[said.index(COPY_DONE) + 1 :]
    assert b"C" in behind and b"x" not in behind[: behind.index(b"C")]


@ON_ONE
def test_the_slot_of_a_reader_that_was_killed_is_waited_for(served: Served, network: Relay) -> None:
    assert served.catch_up() == []
    served.pub("INSERT INTO t VALUES (2)")
    served.sub.leave()
    with psycopg.connect(f"{served.conninfo} replication=database", autocommit=True) as reader:
        pid = reader.info.backend_pid
        reader.pgconn.send_query(
            f"START_REPLICATION SLOT {served.slot} LOGICAL 0/0 (proto_version '1', publication_names 'p')".encode()
        )
        active = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{served.slot}'"
        eventually(lambda: served.pub(active) == [(str(pid),)])
        os.kill(pid, signal.SIGSTOP)
        reader.pgconn.finish()
    threading.Timer(0.3, os.kill, (pid, signal.SIGCONT)).start()
    assert served.catch_up() == []
    assert served.same("SELECT * FROM t ORDER BY a") == [("1",), ("2",)]
