"""Subscriptions with two_phase: what is prepared at the publisher is prepared here, and ends as it does there."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.ground.errors import PgError
from tests.harness.database import Database, Rows
from tests.harness.forked import pgrepl
from tests.harness.nodes import Node
from tests.harness.pair import Pair
from tests.harness.programs import PATIENCE, eventually

ROOT = Path(__file__).resolve().parents[2]
STATES = "SELECT subtwophasestate, two_phase FROM pg_subscription, pg_replication_slots"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    first = Database(tmp_path, "postgres")
    first("ALTER SYSTEM SET max_prepared_transactions = 10")
    first.close()
    made = Pair(tmp_path)
    made.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    made.pub("INSERT INTO t SELECT g, 'copied' FROM generate_series(1, 3) g")
    made.pub("CREATE PUBLICATION p FOR TABLE t")
    yield made
    made.close()


def prepared(database: Database | Node) -> Rows:
    query = "SELECT regexp_replace(gid, '[0-9]+', 'N', 'g') FROM pg_prepared_xacts WHERE database = current_database()"
    return list(database(f"{query} ORDER BY transaction::text::int"))


def rows(database: Database | Node) -> list[str]:
    return [f"{a}{b or ''}" for a, b in database("SELECT a, b FROM t ORDER BY a")]


def test_it_is_enabled_when_all_tables_are_ready(pair: Pair) -> None:
    connection = "CONNECTION 'host=localhost dbname=pub' PUBLICATION p WITH (two_phase = on)"
    pair.sub(f"CREATE SUBSCRIPTION s {connection}")
    assert pair.sub(STATES) == [("p", "f")]
    assert pair.catch_up() == []
    assert pair.sub(STATES) == [("e", "t")]
    told = [report.message for report in pair.log.reports]
    assert 'logical replication apply worker for subscription "s" will restart so that two_phase can be enabled' in told
    with pytest.raises(PgError) as refused:
        pair.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert refused.value.message.endswith("is not allowed when two_phase is enabled")


def test_prepared_and_committed_here_as_there(pair: Pair) -> None:
    pair.subscribe(options="WITH (two_phase = on)")
    pair.pub("BEGIN; INSERT INTO t VALUES (4, 'new'); UPDATE t SET b = 'upd' WHERE a = 1; DELETE FROM t WHERE a = 2")
    pair.pub("PREPARE TRANSACTION 'x'")
    assert pair.catch_up() == []
    assert prepared(pair.sub) == [("pg_gid_N_N",)]
    assert rows(pair.sub) == rows(pair.pub) == ["1copied", "2copied", "3copied"]
    pair.sub("SET lock_timeout = 50")
    for blocked in ("DELETE FROM t WHERE a = 1", "INSERT INTO t VALUES (4)", "TRUNCATE t"):
        with pytest.raises(PgError) as refused:
            pair.sub(blocked)
        assert refused.value.sqlstate == "55P03"
    pair.sub("RESET lock_timeout")
    pair.pub("INSERT INTO t VALUES (9, 'between')")
    assert pair.catch_up() == []
    assert rows(pair.sub) == ["1copied", "2copied", "3copied", "9between"]
    pair.pub("COMMIT PREPARED 'x'")
    assert pair.catch_up() == []
    assert prepared(pair.sub) == []
    assert rows(pair.sub) == rows(pair.pub) == ["1upd", "3copied", "4new", "9between"]
    assert pair.sub("SELECT count(*) FROM pg_locks") == [("0",)]
    pair.pub("BEGIN; DELETE FROM t; PREPARE TRANSACTION 'y'")
    assert pair.catch_up() == []
    assert prepared(pair.sub) == [("pg_gid_N_N",)]
    pair.pub("ROLLBACK PREPARED 'y'")
    assert pair.catch_up() == []
    assert prepared(pair.sub) == []
    assert rows(pair.sub) == ["1upd", "3copied", "4new", "9between"]


def test_all_of_it_at_once(pair: Pair) -> None:
    """Prepared and ended before the subscriber has heard of it."""
    pair.subscribe(options="WITH (two_phase = on)")
    pair.pub("BEGIN; INSERT INTO t SELECT g, 'many' FROM generate_series(10, 900) g; PREPARE TRANSACTION 'x'")
    pair.pub("COMMIT PREPARED 'x'")
    pair.pub("BEGIN; INSERT INTO t VALUES (5000, 'never'); PREPARE TRANSACTION 'y'")
    pair.pub("ROLLBACK PREPARED 'y'")
    pair.pub("BEGIN; UPDATE t SET b = 'waits' WHERE a = 800; PREPARE TRANSACTION 'z'")
    assert pair.catch_up() == []
    assert rows(pair.sub) == rows(pair.pub)
    assert prepared(pair.sub) == [("pg_gid_N_N",)]
    pair.pub("COMMIT PREPARED 'z'")
    assert pair.catch_up() == []
    assert rows(pair.sub) == rows(pair.pub)
    assert "800waits" in rows(pair.sub)


def test_without_two_phase_it_comes_with_its_commit(pair: Pair) -> None:
    pair.subscribe()
    pair.pub("BEGIN; INSERT INTO t VALUES (4, 'new'); PREPARE TRANSACTION 'x'")
    assert pair.catch_up() == []
    assert prepared(pair.sub) == []
    pair.pub("COMMIT PREPARED 'x'")
    assert pair.catch_up() == []
    assert rows(pair.sub) == ["1copied", "2copied", "3copied", "4new"]


def test_prepared_before_two_phase_began(pair: Pair) -> None:
    """It is not in the copy, and is told with all of its changes when it is committed."""
    pair.pub("BEGIN; INSERT INTO t VALUES (4, 'early'); PREPARE TRANSACTION 'x'")
    pair.subscribe(options="WITH (two_phase = on)")
    assert prepared(pair.sub) == []
    assert rows(pair.sub) == ["1copied", "2copied", "3copied"]
    pair.pub("COMMIT PREPARED 'x'")
    assert pair.catch_up() == []
    assert prepared(pair.sub) == []
    assert rows(pair.sub) == ["1copied", "2copied", "3copied", "4early"]


def test_filters_and_empty_ones(pair: Pair) -> None:
    pair.pub("ALTER PUBLICATION p SET TABLE t WHERE (a > 100)")
    pair.pub("CREATE TABLE other (a int)")
    pair.subscribe(options="WITH (two_phase = on, copy_data = off)")
    assert pair.sub(STATES) == [("e", "t")]
    pair.pub("BEGIN; INSERT INTO t VALUES (50, 'no'), (150, 'yes'); PREPARE TRANSACTION 'x'")
    pair.pub("BEGIN; INSERT INTO other VALUES (50); PREPARE TRANSACTION 'y'")
    assert pair.catch_up() == []
    assert prepared(pair.sub) == [("pg_gid_N_N",), ("pg_gid_N_N",)]
    pair.pub("COMMIT PREPARED 'x'")
    pair.pub("COMMIT PREPARED 'y'")
    assert pair.catch_up() == []
    assert (prepared(pair.sub), rows(pair.sub)) == ([], ["150yes"])


def test_a_conflict_stops_it_until_it_is_skipped(pair: Pair) -> None:
    pair.subscribe(options="WITH (two_phase = on)")
    pair.sub("INSERT INTO t VALUES (4, 'mine')")
    pair.pub("BEGIN; INSERT INTO t VALUES (4, 'theirs'), (5, 'too'); PREPARE TRANSACTION 'x'")
    ((message, _, context),) = pair.catch_up()
    assert message == 'duplicate key value violates unique constraint "t_pkey"'
    assert context is not None
    lsn = context.rpartition("finished at ")[2]
    pair.sub(f"ALTER SUBSCRIPTION s SKIP (lsn = '{lsn}')")
    assert pair.catch_up() == []
    pair.pub("COMMIT PREPARED 'x'")
    assert pair.catch_up() == []
    assert rows(pair.sub) == ["1copied", "2copied", "3copied", "4mine"]


def test_where_no_transactions_may_be_prepared(tmp_path: Path) -> None:
    """The publisher may, the subscriber may not."""
    primary, subscriber = Node(tmp_path / "primary", new=True), Node(tmp_path / "subscriber", new=True)
    primary("ALTER SYSTEM SET max_prepared_transactions = 10")
    primary.close()
    primary = Node(tmp_path / "primary")
    for node in (primary, subscriber):
        node("CREATE TABLE t (a int PRIMARY KEY, b text)")
    primary("CREATE PUBLICATION p FOR TABLE t")
    connection = f"CONNECTION 'host={primary.folder} dbname=shop' PUBLICATION p WITH (two_phase = on)"
    subscriber(f"CREATE SUBSCRIPTION s {connection}")
    assert subscriber.catch_up() == []
    primary("BEGIN; INSERT INTO t VALUES (1, 'x'); PREPARE TRANSACTION 'x'")
    ((message, _, context),) = subscriber.catch_up()
    assert message == "prepared transactions are disabled"
    assert 'during message type "PREPARE"' in str(context)
    subscriber("ALTER SYSTEM SET max_prepared_transactions = 10")
    subscriber.close()
    subscriber = Node(tmp_path / "subscriber")
    assert subscriber.catch_up() == []
    assert prepared(subscriber) == [("pg_gid_N_N",)]
    primary("COMMIT PREPARED 'x'")
    assert subscriber.catch_up() == []
    assert rows(subscriber) == ["1x"]
    for node in (primary, subscriber):
        node.close()


def test_a_cascade(pair: Pair, tmp_path: Path) -> None:
    """Who reads the subscriber hears of what is prepared there, row by row."""
    third = Node(tmp_path / "third", new=True)
    third("ALTER SYSTEM SET max_prepared_transactions = 10")
    third.close()
    third = Node(tmp_path / "third")
    third("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.subscribe(options="WITH (two_phase = on)")
    pair.sub("CREATE PUBLICATION p2 FOR TABLE t")
    connection = f"CONNECTION 'host={tmp_path} dbname=sub' PUBLICATION p2 WITH (two_phase = on)"
    third(f"CREATE SUBSCRIPTION s3 {connection}")
    assert third.catch_up() == []
    pair.pub("BEGIN; INSERT INTO t VALUES (4, 'new'); SAVEPOINT x; INSERT INTO t VALUES (99); ROLLBACK TO x")
    pair.pub("UPDATE t SET b = 'newer' WHERE a = 4; DELETE FROM t WHERE a = 1; PREPARE TRANSACTION 'x'")
    assert (pair.catch_up(), third.catch_up()) == ([], [])
    assert (prepared(third), rows(third)) == ([("pg_gid_N_N",)], ["1copied", "2copied", "3copied"])
    pair.pub("COMMIT PREPARED 'x'")
    assert (pair.catch_up(), third.catch_up()) == ([], [])
    assert (prepared(third), rows(third)) == ([], ["2copied", "3copied", "4newer"])
    pair.pub("BEGIN; DELETE FROM t; PREPARE TRANSACTION 'x'")
    assert (pair.catch_up(), third.catch_up()) == ([], [])
    assert prepared(third) == [("pg_gid_N_N",)]
    pair.pub("ROLLBACK PREPARED 'x'")
    assert (pair.catch_up(), third.catch_up()) == ([], [])
    assert (prepared(third), rows(third)) == ([], ["2copied", "3copied", "4newer"])
    third.close()


def test_it_waits_for_who_has_locked_the_rows(pair: Pair) -> None:
    pair.subscribe(options="WITH (two_phase = on)")
    other = Database(pair.folder, "sub")
    other("BEGIN; UPDATE t SET b = 'local' WHERE a = 1")
    pair.pub("BEGIN; UPDATE t SET b = 'remote' WHERE a = 1; PREPARE TRANSACTION 'x'")
    import threading

    waiting = threading.Thread(target=pair.catch_up)
    waiting.start()
    eventually(lambda: other("SELECT count(*) FROM pg_locks WHERE NOT granted") == [("1",)])
    other("COMMIT")
    waiting.join(PATIENCE)
    assert prepared(other) == [("pg_gid_N_N",)]
    pair.pub("COMMIT PREPARED 'x'")
    pair.catch_up()
    assert rows(other)[0] == "1remote"
    other.close()


def worker(folder: Path, kill_at: str) -> int:
    done = pgrepl("apply", "--catalog", str(folder / "catalog.db"), "-d", "sub", PGREPL_KILL_AT=kill_at)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def test_killed_at_each_step(pair: Pair, tmp_path: Path) -> None:
    """Once, and whole."""
    pair.subscribe(options="WITH (two_phase = on)")
    pair.pub("BEGIN; INSERT INTO t SELECT g, 'new' FROM generate_series(10, 50) g; UPDATE t SET b = 'u' WHERE a = 1")
    pair.pub("DELETE FROM t WHERE a = 2; PREPARE TRANSACTION 'x'")
    for step in ("apply.prepared", "apply.origin", "apply.committed"):
        assert worker(tmp_path, step) == -signal.SIGKILL, step
        assert len(prepared(pair.sub)) == (step == "apply.committed")
        assert rows(pair.sub) == ["1copied", "2copied", "3copied"]
    pair.pub("COMMIT PREPARED 'x'")
    for step in ("commit.rows", "finish.recorded", "apply.committed"):
        assert worker(tmp_path, step) == -signal.SIGKILL, step
        assert len(prepared(pair.sub)) == (step != "apply.committed")
    assert rows(pair.sub) == rows(pair.pub)
    assert worker(tmp_path, "") == 0
    assert rows(pair.sub) == rows(pair.pub)
    assert pair.sub("SELECT count(*) FROM pg_locks") == [("0",)]
