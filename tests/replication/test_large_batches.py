"""Large copies and batches go to Spark; what comes of them is what message by message would have come of them."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import threading
import time
from typing import Any

import pytest

from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.apply.columns.stage import FileJobs
from tests.harness.trio import Trio
from tests.lake import duck


def statement(chance: random.Random) -> str:
    low = chance.randrange(40)
    kind = chance.choice(["insert", "insert", "update", "update", "delete", "key", "delete insert"])
    if kind == "insert":
        return (
            f"INSERT INTO t SELECT g, 'v' || g, g % 9 FROM generate_series({low}, {low + chance.randrange(6)}) g "
            "ON CONFLICT DO NOTHING"
        )
    if kind == "update":
        return f"UPDATE t SET b = b || '{low}', c = c + 1 WHERE a % 5 = {low % 5}"
    if kind == "delete":
        return f"DELETE FROM t WHERE a BETWEEN {low} AND {low + 3}"
    if kind == "key":
        return f"UPDATE t SET a = a + 100 WHERE a = {low} AND NOT EXISTS (SELECT FROM t x WHERE x.a = {low + 100})"
    return f"DELETE FROM t WHERE a = {low}; INSERT INTO t VALUES ({low}, 'again', 1)"


def workload(trio: Trio, chance: random.Random, rounds: int) -> None:
    for _ in range(rounds):
        for _ in range(chance.randrange(1, 5)):
            body = "; ".join(statement(chance) for _ in range(chance.randrange(1, 4)))
            trio.pub(f"BEGIN; {body}; COMMIT" if chance.random() < 0.6 else body)
        if chance.random() < 0.15:
            trio.pub("TRUNCATE t")
        if chance.random() < 0.3:
            trio.at_subscribers(f"DELETE FROM t WHERE a = {chance.randrange(40)}")
        trio.compare_ways("t")


@pytest.mark.slow  # test_parts.py plays some
def test_random_changes_come_to_the_same_by_both_ways(trio: Trio) -> None:
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL, c int)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.pub("INSERT INTO t SELECT g, 'v' || g, g % 9 FROM generate_series(1, 30) g")
    trio.subscribe()
    workload(trio, random.Random(3), 4)
    assert trio.sub.ways()["copy"] == 1
    assert trio.sub.ways()["apply"] >= 2


@pytest.mark.slow  # test_parts.py plays some
@pytest.mark.parametrize("rounds", [2, 4])
def test_filters_types_and_columns_come_to_the_same_by_both_ways(trio: Trio, rounds: int) -> None:
    trio.pub("CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL, c int)")
    trio.at_subscribers(
        "CREATE TABLE t (extra text DEFAULT 'here', c text CHECK (c <> '77'), b varchar(40), a bigint PRIMARY KEY)"
    )
    trio.pub("CREATE PUBLICATION p FOR TABLE t (a, c) WHERE (a % 3 > 0)")
    trio.pub("CREATE PUBLICATION q FOR TABLE t (a, c) WHERE (a < 10) WITH (publish = 'insert, update')")
    trio.pub("INSERT INTO t SELECT g, 'v' || g, g % 9 FROM generate_series(1, 30) g")
    trio.subscribe("p, q")
    trio.at_subscribers("UPDATE t SET extra = 'local', b = 'kept' WHERE a % 2 = 1")
    workload(trio, random.Random(5), rounds)
    assert trio.sub.ways()["copy"] == 1
    assert trio.sub.ways()["apply"] >= 2


def ready(trio: Trio) -> None:
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.sub("SELECT pg_stat_reset()")


@pytest.mark.slow
def test_what_comes_before_a_conflict_is_applied_by_spark(trio: Trio) -> None:
    ready(trio)
    trio.at_subscribers("INSERT INTO t VALUES (50, 'local', 0)")
    trio.pub("INSERT INTO t SELECT g, 'x', 0 FROM generate_series(1, 20) g")
    trio.pub("BEGIN; UPDATE t SET c = 1; INSERT INTO t VALUES (50, 'remote', 0); COMMIT")
    trio.pub("INSERT INTO t VALUES (60, 'later', 0)")
    ((message, detail, _),) = trio.compare_ways("t")
    assert message == 'duplicate key value violates unique constraint "t_pkey"'
    assert detail == "Key (a)=(50) already exists."
    ways = trio.sub.ways()
    assert (ways["apply"], ways["apply row by row"]) == (1, 1)
    trio.at_subscribers("DELETE FROM t WHERE a = 50")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT count(*), sum(c) FROM t") == [("22", "20")]


def test_a_second_unique_index_is_heeded(trio: Trio) -> None:
    """Values that pass from row to row, moved keys, NULLs, and rows of the subscriber's own that are in the way."""
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text, c int UNIQUE)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.sub("SELECT pg_stat_reset()")
    trio.pub("INSERT INTO t SELECT g, 'x', nullif(g, 3) * 10 FROM generate_series(1, 20) g")
    trio.pub("UPDATE t SET c = c + 1 WHERE a % 2 = 0; DELETE FROM t WHERE a = 7; INSERT INTO t VALUES (7, 'again', 71)")
    assert trio.compare_ways("t") == []
    assert trio.sub.ways() == {"apply": 1}
    trio.pub("UPDATE t SET b = 'y' WHERE a = 4")
    trio.pub("BEGIN; DELETE FROM t WHERE a = 5; UPDATE t SET c = 50 WHERE a = 6; COMMIT")  # what was of another row
    trio.pub("UPDATE t SET a = 100 WHERE a = 8")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT a, b, c FROM t WHERE a IN (4, 6, 100) ORDER BY a") == [
        ("4", "y", "41"),
        ("6", "x", "50"),
        ("100", "x", "81"),
    ]
    assert trio.sub.ways() == {"apply": 2, "apply row by row": 1}
    trio.at_subscribers("INSERT INTO t VALUES (500, 'local', 999)")
    trio.pub("UPDATE t SET b = 'z' WHERE a < 3")
    trio.pub("UPDATE t SET c = 999 WHERE a = 1")
    ((message, detail, _),) = trio.compare_ways("t")
    assert message == 'duplicate key value violates unique constraint "t_c_key"'
    assert detail == "Key (c)=(999) already exists."
    assert trio.sub("SELECT b, c FROM t WHERE a = 1") == [("z", "10")]
    assert trio.sub.ways() == {"apply": 3, "apply row by row": 2}


@pytest.mark.slow
def test_keys_of_decimals_and_padded_text(trio: Trio) -> None:
    trio.everywhere("CREATE TABLE t (a numeric(8,2), k char(4), b text, PRIMARY KEY (a, k))")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.pub("INSERT INTO t SELECT g * 0.25, 'k' || g % 3, 'x' FROM generate_series(1, 12) g")
    trio.subscribe()
    trio.sub("SELECT pg_stat_reset()")
    trio.pub("UPDATE t SET b = 'y' WHERE k = 'k1'; DELETE FROM t WHERE a = 0.5; UPDATE t SET a = -a WHERE a = 1.25")
    trio.pub("INSERT INTO t VALUES (0.5, 'k2', 'again'), (0.50, 'k', 'new'); UPDATE t SET b = 'z' WHERE k = 'k   '")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT a, k, b FROM t WHERE a < 0.7 ORDER BY a, k") == trio.pub(
        "SELECT a, k, b FROM t WHERE a < 0.7 ORDER BY a, k"
    )
    assert trio.sub.ways() == {"apply": 1}


def test_rows_of_which_nothing_is_left_are_checked_too(trio: Trio) -> None:
    """A3: what a later change of the same batch would have repaired stops all the same."""
    ready(trio)
    trio.at_subscribers("ALTER TABLE t ADD CHECK (b <> 'bad')")
    trio.pub("INSERT INTO t VALUES (1, 'good', 0)")
    trio.pub("BEGIN; INSERT INTO t VALUES (2, 'bad', 0); UPDATE t SET b = 'good'; COMMIT")
    ((message, _, _),) = trio.compare_ways("t")
    assert message == 'new row for relation "t" violates check constraint "t_b_check"'
    assert trio.sub("SELECT a FROM t") == [("1",)]


def test_rows_say_when_they_were_loaded(trio: Trio) -> None:
    """A default that is the same for a whole transaction is so for a batch; one that is not goes row by row."""
    trio.pub("CREATE TABLE t (a int PRIMARY KEY)")
    trio.at_subscribers("CREATE TABLE t (a int PRIMARY KEY, at timestamptz DEFAULT now())")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    for database, name in ((trio.sub, "s"), (trio.other, "o")):
        database.subscribe("p", "host=localhost dbname=pub", name=name)
    trio.compare_ways()
    trio.sub("SELECT pg_stat_reset()")
    for first in (1, 101):
        trio.pub(f"INSERT INTO t SELECT g FROM generate_series({first}, {first + 9}) g")
        trio.compare_ways()
    trio.pub("UPDATE t SET a = a + 1000 WHERE a = 5")
    trio.compare_ways()
    loaded = "SELECT count(DISTINCT at), bool_and(at < now() AND at > now() - interval '10 min'), max(a) FROM t"
    assert trio.sub(f"{loaded} GROUP BY a BETWEEN 100 AND 200 ORDER BY 3") == [("1", "t", "110"), ("1", "t", "1005")]
    assert trio.sub.ways() == {"apply": 3}
    trio.at_subscribers("ALTER TABLE t ADD n serial")
    trio.pub("INSERT INTO t SELECT g FROM generate_series(201, 210) g")
    trio.compare_ways()
    assert trio.sub("SELECT count(DISTINCT n) = count(*) FROM t") == [("t",)]
    assert trio.sub.ways() == {"apply": 3, "apply row by row": 1}


def test_a_truncation_divides_a_batch(trio: Trio) -> None:
    ready(trio)
    trio.at_subscribers("INSERT INTO t VALUES (99, 'local', 0)")
    trio.pub("INSERT INTO t VALUES (6, 'before', 0)")
    trio.pub("BEGIN; TRUNCATE t; INSERT INTO t VALUES (6, 'after', 0), (7, 'after', 0); COMMIT")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT a, b FROM t ORDER BY a") == [("6", "after"), ("7", "after")]
    assert trio.sub.ways()["apply"] == 1


@pytest.mark.slow
def test_rows_stand_in_the_order_of_their_last_change(trio: Trio) -> None:
    """C8."""
    ready(trio)
    trio.pub("INSERT INTO t SELECT g, 'x', 0 FROM generate_series(1, 8) g")
    trio.compare_ways("t")
    for a in (5, 2, 7, 2):
        trio.pub(f"UPDATE t SET c = c + 1 WHERE a = {a}")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT a FROM t") == [("1",), ("3",), ("4",), ("6",), ("8",), ("5",), ("7",), ("2",)]
    assert trio.sub.ways()["apply"] == 2


@pytest.mark.slow
def test_a_row_that_cannot_be_copied_is_named_by_the_exact_way(trio: Trio) -> None:
    trio.pub("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
    trio.at_subscribers("CREATE TABLE t (a int PRIMARY KEY, b int, c int)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.pub("INSERT INTO t VALUES (1, '17', 0), (2, 'no number', 0)")
    for name, database in (("s", trio.sub), ("o", trio.other)):
        database.subscribe("p", "host=localhost dbname=pub", name=name)
    errors = trio.compare_ways("t")
    assert errors[0] == (
        'invalid input syntax for type integer: "no number"',
        None,
        'COPY t, line 2, column b: "no number"',
    )
    assert trio.sub.ways() == {"copy row by row": 1}
    trio.pub("UPDATE t SET b = '18' WHERE a = 2")
    assert trio.compare_ways("t") == []
    assert trio.sub.ways()["copy"] == 1


@pytest.mark.slow
def test_partitioned_targets_are_copied_by_spark(trio: Trio) -> None:
    trio.pub("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
    trio.at_subscribers(
        "CREATE TABLE t (b text, a int PRIMARY KEY, c int) PARTITION BY RANGE (a);"
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE high PARTITION OF t DEFAULT"
    )
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.pub("INSERT INTO t SELECT g, 'x' || g, 0 FROM generate_series(1, 30) g")
    trio.subscribe()
    assert trio.sub("SELECT count(*), max(a) FROM low") == [("9", "9")]
    assert trio.sub.ways()["copy"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_changes_of_partitioned_targets_are_divided_among_the_leaves(trio: Trio, seed: int) -> None:
    trio.pub("CREATE TABLE t (a int, r text, b text, PRIMARY KEY (a, r))")
    trio.at_subscribers(
        "CREATE TABLE t (b text, r text, a int, PRIMARY KEY (a, r)) PARTITION BY RANGE (a);"
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (20) PARTITION BY LIST (r);"
        "CREATE TABLE x (r text NOT NULL, a int NOT NULL, b text);"
        "ALTER TABLE low ATTACH PARTITION x FOR VALUES IN ('x');"
        "CREATE TABLE rest PARTITION OF low DEFAULT;"
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (20) TO (1000) PARTITION BY HASH (a);"
        "CREATE TABLE h0 PARTITION OF high FOR VALUES WITH (modulus 2, remainder 0);"
        "CREATE TABLE h1 PARTITION OF high FOR VALUES WITH (modulus 2, remainder 1)"
    )
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.sub("SELECT pg_stat_reset()")
    chance = random.Random(seed)
    for number in range(8):
        for each in range(chance.randrange(2, 8)):
            a, r = chance.randrange(40), chance.choice("xyz")
            kind = chance.choice(["insert", "insert", "update", "delete", "again", "key", "moved", "truncate"])
            trio.pub(
                {
                    "insert": f"INSERT INTO t SELECT g, '{r}', 'v{number}' FROM generate_series({a}, {a + 5}) g "
                    "ON CONFLICT DO NOTHING",
                    "update": f"UPDATE t SET b = b || '{each}' WHERE a % 4 = {a % 4}",
                    "delete": f"DELETE FROM t WHERE a = {a}",
                    "again": f"DELETE FROM t WHERE a = {a}; INSERT INTO t VALUES ({a}, '{r}', 'again')",
                    "key": f"UPDATE t SET a = a + 100 WHERE a = {a} AND r = '{r}' AND NOT EXISTS "
                    f"(SELECT FROM t x WHERE x.a = {a + 100} AND x.r = '{r}')",
                    "moved": f"UPDATE t SET r = '{r}', b = b || '!' WHERE a % 3 = {a % 3} AND NOT EXISTS "
                    f"(SELECT FROM t x WHERE x.a = t.a AND x.r = '{r}')"
                    " AND r = (SELECT min(r) FROM t x WHERE x.a = t.a)",
                    "truncate": "TRUNCATE t" if chance.random() < 0.3 else "SELECT 1",
                }[kind]
            )
        assert trio.compare_ways("t", "x", "rest", "h0", "h1") == []
        trio.at_subscribers(f"DELETE FROM t WHERE a = {chance.randrange(40)}")
    assert trio.sub.ways()["apply"] >= 5
    trio.pub("INSERT INTO t VALUES (5, 'last', 'good'); INSERT INTO t VALUES (-5, 'x', 'no partition')")
    ((message, _, _),) = trio.compare_ways("t")
    assert message == 'no partition of relation "t" found for row'


@pytest.mark.slow
def test_rows_move_between_leaves_by_columns(trio: Trio) -> None:
    """Unless a row is not there, or the message lacks a value of it."""
    trio.pub("CREATE TABLE t (a int, state text, b text, PRIMARY KEY (a, state))")
    leaves = (
        ") PARTITION BY LIST (state); CREATE TABLE fresh PARTITION OF t FOR VALUES IN ('fresh');"
        "CREATE TABLE done (b text, state text NOT NULL, a int NOT NULL{more});"
        "ALTER TABLE t ATTACH PARTITION done DEFAULT"
    )
    trio.at_subscribers("CREATE TABLE t (a int, state text, b text, PRIMARY KEY (a, state)" + leaves.format(more=""))
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.pub("INSERT INTO t SELECT g, 'fresh', 'v' || g FROM generate_series(1, 40) g")
    trio.subscribe()
    trio.sub("SELECT pg_stat_reset()")
    trio.pub("INSERT INTO t SELECT g, 'fresh', 'v' || g FROM generate_series(41, 50) g")
    trio.pub("UPDATE t SET state = 'done', b = b || '!' WHERE a > 20")
    trio.pub(
        "UPDATE t SET state = 'fresh' WHERE a > 45; UPDATE t SET b = 'here' WHERE a = 50; DELETE FROM t WHERE a = 49"
    )
    assert trio.compare_ways("t", "fresh", "done") == []
    assert trio.sub.ways() == {"apply": 1}
    assert trio.sub("SELECT count(*), max(a) FROM done") == [("25", "45")]
    trio.at_subscribers("DELETE FROM t WHERE a = 7")
    trio.pub("UPDATE t SET state = 'done' WHERE a IN (6, 7)")
    assert trio.compare_ways("t", "fresh", "done") == []
    trio.at_subscribers("ALTER TABLE t ADD own text; UPDATE t SET own = 'kept'")
    trio.pub("UPDATE t SET state = 'done' WHERE a = 5")
    assert trio.compare_ways("t", "fresh", "done") == []
    assert trio.sub("SELECT own FROM done WHERE a = 5") == [("kept",)]
    trio.at_subscribers("INSERT INTO t VALUES (4, 'done', 'mine')")
    trio.pub("UPDATE t SET state = 'done' WHERE a IN (3, 4)")
    ((message, _, _),) = trio.compare_ways("t", "fresh", "done")
    assert message == 'duplicate key value violates unique constraint "done_pkey"'


def test_what_the_publisher_has_from_elsewhere_is_left_out(trio: Trio) -> None:
    """origin = none, in the middle of a batch and at its beginning."""
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
    trio.sub("CREATE PUBLICATION back FOR TABLE t")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe(options="WITH (origin = none)")
    trio.pub("CREATE SUBSCRIPTION b CONNECTION 'dbname=sub' PUBLICATION back WITH (origin = none, copy_data = off)")
    trio.sub("SELECT pg_stat_reset()")
    trio.sub("INSERT INTO t VALUES (1, 'there', 0)")
    assert trio.pub.catch_up() == []
    assert trio.pub("SELECT a FROM t") == [("1",)]
    trio.pub("DROP SUBSCRIPTION b")  # nobody reads there any more what `sub` has received
    trio.pub("BEGIN; INSERT INTO t VALUES (2, 'here', 0); UPDATE t SET c = 1 WHERE a = 2; COMMIT")
    trio.pub("INSERT INTO t VALUES (3, 'here', 0)")
    trio.other("INSERT INTO t VALUES (1, 'there', 0)")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT a, c FROM t ORDER BY a") == [("1", "0"), ("2", "1"), ("3", "0")]
    assert trio.sub.ways()["apply"] == 1


def test_what_another_writer_could_not_have_published_stops_here_too(trio: Trio) -> None:
    trio.everywhere("CREATE TABLE t (a int, b text, c int)")
    trio.pub("INSERT INTO t VALUES (1, 'x', 0); CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.pub("INSERT INTO t VALUES (2, 'y', 0)")
    assert trio.compare_ways("t") == []
    assert trio.sub.ways()["apply"] == 1
    duck.run(trio.path, "UPDATE pub.t SET b = 'z' WHERE a = 1")
    ((message, _, _),) = trio.compare_ways("t")
    assert 'cannot update table "t" because it does not have a replica identity and publishes updates' in message


@pytest.mark.parametrize("count", [2, 1200, pytest.param(3000, marks=pytest.mark.slow)])
def test_rows_that_change_places_between_leaves(trio: Trio, count: int) -> None:
    """Each is gone from one leaf before another comes there, whichever leaf is read first."""
    trio.pub(
        "CREATE TABLE t (a int, p int, b text, PRIMARY KEY (a, p)) PARTITION BY LIST (p);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1); CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2)"
    )
    trio.at_subscribers("CREATE TABLE t (a int PRIMARY KEY, p int, b text)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root)")
    trio.pub(f"INSERT INTO t SELECT g, 1 + g % 2, 'v' || g FROM generate_series(1, {count}) g")
    trio.subscribe()
    trio.pub("UPDATE t SET p = 3 - p")
    assert trio.compare_ways("t") == []
    trio.pub("BEGIN; UPDATE t SET p = 3 - p, b = b || '!' WHERE a % 3 > 0; UPDATE t SET p = 3 - p; COMMIT")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT * FROM t ORDER BY a") == trio.pub("SELECT * FROM t ORDER BY a")
    assert trio.sub.ways()["apply row by row"] == 0


def test_leaves_that_are_found_by_different_keys_are_sent_as_their_root_is(trio: Trio) -> None:
    trio.pub(
        "CREATE TABLE t (a int, p int, b text, PRIMARY KEY (a, p)) PARTITION BY LIST (p);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1); CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);"
        "ALTER TABLE t2 REPLICA IDENTITY FULL"
    )
    trio.at_subscribers("CREATE TABLE t (a int, p int, b text, PRIMARY KEY (a, p))")
    trio.pub("CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root)")
    trio.subscribe()
    trio.pub("INSERT INTO t SELECT g, 1 + g % 2, 'v' || g FROM generate_series(1, 3000) g")
    assert trio.compare_ways("t") == []
    trio.pub("UPDATE t SET b = b || '!', a = a + 10000 WHERE a % 7 = 0; DELETE FROM t WHERE a % 7 = 1")
    trio.pub("UPDATE t SET p = 3 - p WHERE a % 7 = 2 AND a < 10000")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT * FROM t ORDER BY a") == trio.pub("SELECT * FROM t ORDER BY a")
    assert trio.sub.ways()["apply row by row"] == 0


def test_who_is_interrupted_leaves_no_work_behind() -> None:
    """Files that were begun are complete and known, so that they can be removed; no other is begun."""
    begun: list[int] = []
    numbers = itertools.count()

    def job() -> list[Any]:
        number = next(numbers)
        begun.append(number)
        if number == 3:
            os.kill(os.getpid(), signal.SIGALRM)
        time.sleep(0.05)
        return [number]

    class Files:
        def __init__(self) -> None:
            self.files: list[int] = []

        def insert_files(self, files: list[int]) -> None:
            self.files += files

    def interrupt(number: int, frame: object) -> None:
        interrupts.interrupt(interrupts.user_request())

    write: Any = Files()
    threads = set(threading.enumerate())
    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # what is raised in a callback of the garbage collector is lost, and Hypothesis has one
    try:
        with pytest.raises(PgError, match="due to user request"), FileJobs() as jobs:
            jobs.begin([(write, job)] * 2000)
            jobs.settle()
    finally:
        gc.enable()
        interrupts.begin()
        signal.signal(signal.SIGALRM, before)
    assert len(write.files) == len(begun) < 2000
    assert set(threading.enumerate()) <= threads


def test_what_followed_a_truncate_is_sent_on(trio: Trio) -> None:
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY)")
    trio.pub("INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t")
    trio.sub("CREATE PUBLICATION q FOR TABLE t")
    trio.sub("CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p")
    assert trio.catch_up() == []
    trio.other("CREATE SUBSCRIPTION o CONNECTION 'dbname=sub' PUBLICATION q")
    assert trio.other_catches_up() == []
    trio.pub("BEGIN; TRUNCATE t; INSERT INTO t VALUES (7); COMMIT")
    assert trio.catch_up() == []
    assert trio.other_catches_up() == []
    assert trio.other("SELECT * FROM t") == [("7",)]
