"""Transactions too large for memory: played in portions, they come to what the others come to."""

from __future__ import annotations

import pytest

from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.lake.changes.changes import changes_at
from pgrepl.replication.publisher.lake.large_changes import changes_in_order
from pgrepl.replication.subscriber.apply import transactions
from pgrepl.replication.subscriber.worker import Worker
from pgrepl.replication.wire import message_files, messages
from tests.harness.database import Rows
from tests.harness.dose import dose
from tests.harness.pair import Pair

PARTITIONED = """
CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY RANGE (a);
CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (1000);
CREATE TABLE t2 PARTITION OF t DEFAULT;
CREATE TABLE u (a int, b text);
ALTER TABLE u REPLICA IDENTITY FULL
"""
WORK = """
INSERT INTO t SELECT g, 'new ' || g FROM generate_series(1, 900) g;
INSERT INTO u SELECT g % 50, 'x' FROM generate_series(1, 400) g;
UPDATE t SET b = 'changed' WHERE a % 3 = 0;
UPDATE t SET a = a + 2000 WHERE a BETWEEN 700 AND 850;
UPDATE u SET b = 'y' WHERE a = 7;
DELETE FROM t WHERE a % 5 = 0;
DELETE FROM u WHERE a < 5;
INSERT INTO t SELECT g, 'again' FROM generate_series(5, 300, 5) g
"""


@pytest.fixture(params=dose(["from files", "together", "in portions"], 3))
def portion(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    size = messages.PORTION if request.param == "together" else 100
    monkeypatch.setattr(messages, "PORTION", size)
    if request.param == "from files":  # what changed is more than some 60 rows that are held in memory
        monkeypatch.setattr(message_files, "MESSAGE_BYTES", 1 << 20)
    return size


def ready(pair: Pair, table: str = PARTITIONED, options: str = "") -> None:
    pair.both(table)
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root)")
    pair.subscribe(options=options)


def contents(pair: Pair) -> tuple[list[Rows], list[Rows]]:
    queries = ("SELECT tableoid::regclass, * FROM t ORDER BY a", "SELECT * FROM u ORDER BY a, b")
    return [pair.pub(query) for query in queries], [pair.sub(query) for query in queries]


def snapshots(pair: Pair) -> int:
    rows = pair.sub.session.link.execute("SELECT count(*) FROM ducklake_snapshot")
    return int(rows[0][0])


def sent_on(pair: Pair) -> list[str]:
    """What the subscriber would send of it, by a slot."""
    found = pair.sub("SELECT data FROM pg_logical_slot_get_changes('onwards', NULL, NULL, 'include-xids', '0')")
    return [str(data) for (data,) in found]


def test_in_portions_it_is_one_transaction_all_the_same(pair: Pair, portion: int) -> None:
    ready(pair)
    pair.sub("SELECT pg_create_logical_replication_slot('onwards', 'test_decoding')")
    before = snapshots(pair)
    pair.pub(f"BEGIN; {WORK}; COMMIT")
    pair.pub("INSERT INTO t VALUES (-1, 'behind it')")
    played = snapshots(pair)
    assert pair.catch_up() == []
    there, here = contents(pair)
    assert here == there
    assert (snapshots(pair) - played > 8) == (portion == 100)
    lines = sent_on(pair)
    assert lines.count("BEGIN") == lines.count("COMMIT") == 2
    assert before < played


def test_changes_are_counted_as_they_are_sent(pair: Pair, portion: int) -> None:
    """Not the rows that are read for them."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b int)")
    pair.pub("INSERT INTO t SELECT g, 1 FROM generate_series(1, 900) g")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a > 600)")
    pair.subscribe()
    assert pair.catch_up() == []
    pair.pub("UPDATE t SET b = 2")
    pair.sub.leave()
    (subid,) = pair.sub("SELECT oid FROM pg_subscription")[0]
    done = Worker(pair.sub.session, int(str(subid)), pair.sub.log).round()
    assert (done.transactions, done.changes, done.error) == (1, 300, None)


@pytest.mark.slow
def test_a_conflict_in_the_last_portion_leaves_nothing(pair: Pair, portion: int) -> None:
    ready(pair, options="WITH (disable_on_error)")
    pair.sub("INSERT INTO t VALUES (5000, 'local')")
    pair.pub("INSERT INTO t VALUES (-1, 'before')")
    pair.pub(f"BEGIN; {WORK}; INSERT INTO t VALUES (5000, 'late'); COMMIT")
    before = snapshots(pair)
    ((message, detail, context),) = pair.catch_up()
    assert (message, detail) == (
        'duplicate key value violates unique constraint "t2_pkey"',
        "Key (a)=(5000) already exists.",
    )
    assert context is not None
    assert 'during message type "INSERT" for replication target relation "public.t" in transaction' in context
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("-1", "before"), ("5000", "local")]
    assert pair.sub("SELECT count(*) FROM u") == [("0",)]
    assert snapshots(pair) == before + 1
    assert pair.sub("SELECT subenabled FROM pg_subscription") == [("f",)]
    assert pair.sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [("1",)]
    pair.sub(f"ALTER SUBSCRIPTION s SKIP (lsn = '{context.rpartition(' ')[2]}'); ALTER SUBSCRIPTION s ENABLE")
    pair.pub("INSERT INTO t VALUES (-2, 'after')")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("-2", "after"), ("-1", "before"), ("5000", "local")]


def test_defaults_are_taken_once_and_what_is_deferred_is_not_in_the_way(pair: Pair, portion: int) -> None:
    pair.pub("CREATE TABLE t (a int PRIMARY KEY, b int)")
    pair.sub(
        "CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE DEFERRABLE INITIALLY DEFERRED, c serial, d int DEFAULT 4)"
    )
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub(
        "BEGIN; INSERT INTO t SELECT g, g FROM generate_series(1, 250) g; UPDATE t SET b = 251 - b;"
        "INSERT INTO t SELECT g, g FROM generate_series(251, 350) g; COMMIT"
    )
    assert pair.catch_up() == []
    assert pair.sub("SELECT a, b FROM t ORDER BY a") == pair.pub("SELECT * FROM t ORDER BY a")
    assert pair.sub("SELECT min(c), max(c), count(DISTINCT c), min(d) FROM t") == [("1", "350", "350", "4")]


@pytest.mark.parametrize("publish", ["insert, update, delete, truncate", "insert, truncate"])
def test_a_table_emptied_and_filled_is_sent_on_so(pair: Pair, portion: int, publish: str) -> None:
    ready(pair, "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE u (a int PRIMARY KEY)")
    pair.sub(f"CREATE PUBLICATION q FOR ALL TABLES WITH (publish = '{publish}')")
    pair.sub("SELECT pg_create_logical_replication_slot('onwards', 'test_decoding')")
    pair.pub("INSERT INTO u SELECT g FROM generate_series(1, 50) g")
    pair.pub(
        "BEGIN; INSERT INTO t SELECT g, 'gone' FROM generate_series(1, 250) g; DELETE FROM u WHERE a < 10; TRUNCATE t;"
        "INSERT INTO t SELECT g, 'kept' FROM generate_series(1, 120) g; INSERT INTO u VALUES (1); COMMIT"
    )
    assert pair.catch_up() == []
    assert pair.sub("SELECT b, count(*) FROM t GROUP BY b") == [("kept", "120")]
    assert pair.sub("SELECT count(*) FROM u") == [("42",)]
    lines = sent_on(pair)
    emptied = next(n for n, line in enumerate(lines) if "TRUNCATE" in line)
    assert sum("'kept'" in line for line in lines[emptied:]) == 120
    if portion == 100 or "update" not in publish:
        assert lines[emptied - 1] != "BEGIN"  # what comes before it is sent, too


def test_an_error_of_the_publisher_midway(pair: Pair, portion: int) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WHERE (100 / (a - 200) > -1000)")
    pair.subscribe()
    pair.pub("BEGIN; INSERT INTO t SELECT g FROM generate_series(1, 300) g; COMMIT")
    ((message, _, _),) = pair.catch_up()
    assert message.startswith("could not receive data from WAL stream: ERROR:  division by zero\nCONTEXT:  slot")
    assert pair.sub("SELECT count(*) FROM t") == [("0",)]
    pair.pub("ALTER PUBLICATION p SET TABLE t")


def test_who_is_interrupted_between_portions_leaves_nothing(
    pair: Pair, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(pair)
    pair.pub(f"BEGIN; {WORK}; COMMIT")
    before = snapshots(pair)
    count = 0

    def interrupt(name: str) -> None:
        nonlocal count
        count += name == "apply.portion" or name == "apply.origin"
        if count == (4 if portion == 100 else 1):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(transactions, "crash_point", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pair.catch_up()
    assert snapshots(pair) == before
    assert pair.sub("SELECT count(*) FROM t") == pair.sub("SELECT count(*) FROM u") == [("0",)]
    assert pair.catch_up() == []
    there, here = contents(pair)
    assert here == there


def test_rows_behind_a_restart_of_sequences_take_numbers_from_the_start(pair: Pair, portion: int) -> None:
    pair.pub("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    pair.sub("CREATE TABLE t (a int PRIMARY KEY, i int GENERATED BY DEFAULT AS IDENTITY (START WITH 5), s serial)")
    pair.subscribe()
    pair.sub("INSERT INTO t VALUES (-1), (-2)")
    pair.pub("INSERT INTO t VALUES (1)")
    pair.pub("BEGIN; INSERT INTO t VALUES (2); TRUNCATE t RESTART IDENTITY;"
             "INSERT INTO t SELECT g FROM generate_series(1, 200) g; COMMIT")  # fmt: skip
    assert pair.catch_up() == []
    pair.sub("INSERT INTO t VALUES (201)")
    assert pair.sub("SELECT min(i - a), max(i - a), min(s - a), max(s - a), count(*) FROM t") == [
        ("4", "4", "0", "0", "201")
    ]
    pair.pub("BEGIN; TRUNCATE t RESTART IDENTITY; INSERT INTO t SELECT 1 + g FROM generate_series(1, 2) g;"
             "TRUNCATE t; INSERT INTO t VALUES (1), (2); COMMIT")  # fmt: skip
    pair.sub("ALTER TABLE t ADD CHECK (a <> 2 OR s <> 4)")
    pair.pub("INSERT INTO t VALUES (300)")
    assert [message for message, _, _ in pair.catch_up()] == [
        'new row for relation "t" violates check constraint "t_check"'
    ]
    assert pair.sub("INSERT INTO t VALUES (202) RETURNING i, s") == [("206", "202")]


def test_changes_are_told_in_order_from_files(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.pub("CREATE TABLE t (a int, b text, c numeric[])")
    pair.pub("INSERT INTO t SELECT g, 'x', '{1.5}' FROM generate_series(1, 200) g")
    pair.pub("ALTER TABLE t DROP b, ADD d date DEFAULT '2020-02-02'")
    for statement in (
        "UPDATE t SET a = -a WHERE a % 3 = 0",
        "INSERT INTO t SELECT g, NULL, '2021-01-01' FROM generate_series(300, 400) g",
        "DELETE FROM t WHERE a % 5 = 0",
        "UPDATE t SET d = NULL WHERE a > 100; DELETE FROM t WHERE a < 100",
    ):
        pair.pub(statement)
    session = pair.pub.session
    session.transaction.begin_statement()
    oid = find_relation(session, range_var(["t"])).oid
    last = session.transaction.numbering.last_snapshot()
    count = 0
    for snapshot in range(last - 6, last + 1):
        expected = list(changes_at(session, oid, snapshot))
        with monkeypatch.context() as patched:
            patched.setattr(message_files, "MESSAGE_BYTES", 4 << 20)
            assert list(changes_in_order(session, oid, snapshot)) == expected
        count += len(expected)
    session.transaction.end_statement()
    assert count > 400
