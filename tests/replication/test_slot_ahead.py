"""A slot that is ahead of its subscription's origin: what lies between is lost, and nothing goes on without a word."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.replication.subscriber.status import subscription_status
from tests.harness.database import Database
from tests.harness.older import without_format_9
from tests.harness.pair import Pair

ROWS = "SELECT a FROM t ORDER BY a"
AHEAD = "could not start WAL streaming: ERROR:  replication slot "


class Two:
    """A publisher and a subscriber in instances of their own."""

    def __init__(self, folder: Path) -> None:
        self.folders = [folder / "pub", folder / "sub"]
        self.pub = Database(self.folders[0])
        self.pub("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
        with self.subscriber() as sub:
            sub("CREATE TABLE t (a int PRIMARY KEY)")
            sub.subscribe("p", f"host={self.folders[0]}")

    def subscriber(self) -> Database:
        return Database(self.folders[1])

    def close(self) -> None:
        self.pub.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    yield made
    made.close()


def caught_up(two: Two) -> None:
    with two.subscriber() as sub:
        assert sub.catch_up() == []


def test_an_older_copy_of_the_subscriber_stops(two: Two, tmp_path: Path) -> None:
    """As after a power cut that took the subscriber's last commits away, before commits were synced."""
    two.pub("INSERT INTO t VALUES (1)")
    caught_up(two)
    shutil.copytree(two.folders[1], tmp_path / "older")
    two.pub("INSERT INTO t VALUES (2)")
    caught_up(two)
    shutil.rmtree(two.folders[1])
    shutil.move(tmp_path / "older", two.folders[1])
    two.pub("INSERT INTO t VALUES (3)")
    with two.subscriber() as sub:
        ((message, _, _),) = sub.catch_up()
        assert message.startswith(AHEAD)
        assert "the changes in between are lost" in message
        assert sub(ROWS) == [("1",)]
        ((position,),) = two.pub("SELECT confirmed_flush_lsn FROM pg_replication_slots")
        sub("ALTER SUBSCRIPTION s DISABLE")
        sub(f"SELECT pg_replication_origin_advance('pg_' || oid, '{position}') FROM pg_subscription")
        sub("ALTER SUBSCRIPTION s ENABLE")
        sub.log.reports.clear()
        assert sub.catch_up() == []
        assert sub(ROWS) == [("1",), ("3",)]


def test_an_older_copy_stops_though_nothing_new_has_come(two: Two, tmp_path: Path) -> None:
    caught_up(two)
    two.pub("INSERT INTO t VALUES (1)")
    caught_up(two)
    shutil.copytree(two.folders[1], tmp_path / "older")
    two.pub("INSERT INTO t VALUES (2)")
    caught_up(two)
    shutil.rmtree(two.folders[1])
    shutil.move(tmp_path / "older", two.folders[1])
    with two.subscriber() as sub:
        (status,) = subscription_status(sub.session, everywhere=True)
        assert "the changes in between are lost" in (status.unreachable or "")
        assert status.behind
        ((message, _, _),) = sub.catch_up()
        assert message.startswith(AHEAD)


def test_a_publisher_that_is_another_instance_than_before_stops(two: Two, tmp_path: Path) -> None:
    caught_up(two)
    two.close()
    shutil.rmtree(two.folders[0])
    two.folders[0].mkdir()
    two.pub = Database(two.folders[0])
    two.pub("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    two.pub("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    with two.subscriber() as sub:
        ((message, _, _),) = sub.catch_up()
        assert message == 'the publisher of subscription "s" is another server than before'


def read_by_hand(pair: Pair) -> None:
    pair.pub("SELECT * FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '1',"
             " 'publication_names', 'p')")  # fmt: skip


def advanced_by_hand(pair: Pair) -> None:
    pair.pub("SELECT pg_replication_slot_advance('s', pg_current_wal_lsn())")


@pytest.mark.parametrize("lose", [read_by_hand, advanced_by_hand])
def test_a_slot_of_the_own_instance_that_somebody_has_read_from(pair: Pair, lose: Callable[[Pair], None]) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1)")
    assert pair.catch_up() == []
    pair.sub("ALTER SUBSCRIPTION s DISABLE")
    pair.sub.leave()  # the slot, too
    pair.pub("INSERT INTO t VALUES (2)")
    lose(pair)
    pair.sub("ALTER SUBSCRIPTION s ENABLE")
    pair.pub("INSERT INTO t VALUES (3)")
    ((message, _, _),) = pair.catch_up()
    assert message.startswith(AHEAD)
    assert pair.sub(ROWS) == [("1",)]


def test_a_subscription_to_the_own_instance_made_before_format_5_goes_on(tmp_path: Path) -> None:
    """Its slot moved with all that was looked at, its origin with what was applied only."""
    pair = Pair(tmp_path)
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1)")
    assert pair.catch_up() == []
    pair.pub("CREATE TABLE nobodys (a int); INSERT INTO nobodys VALUES (1)")
    assert pair.catch_up() == []
    pair.close()
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as link:
        link.execute("UPDATE pg_replication_origin SET remote_lsn = remote_lsn - 2")
        link.execute("DELETE FROM pgrepl_publisher")
        link.execute("ALTER TABLE pg_replication_slot DROP COLUMN two_phase_at")
        link.execute("ALTER TABLE pg_subscription DROP COLUMN subschemachanges")
        without_format_9(link)
        link.execute("UPDATE pgrepl_instance SET format_version = 4")
        link.execute("PRAGMA user_version = 4")
        link.commit()
    pub, sub = Database(tmp_path, "pub"), Database(tmp_path, "sub")
    pub("INSERT INTO t VALUES (2)")
    assert sub.catch_up() == []
    assert sub(ROWS) == [("1",), ("2",)]
    for each in (pub, sub):
        each.close()
