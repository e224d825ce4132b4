"""Prepared transactions of a real server: prepared here, and ended as they end there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.run import run
from tests.postgres.served import PublishingServer, Served

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
ROWS = "SELECT * FROM t ORDER BY a"
HERE = "SELECT count(*) FROM pg_prepared_xacts"


@pytest.fixture
def ready(publishing: PublishingServer, tmp_path: Path) -> Iterator[Served]:
    publishing.needs(15)
    with closing(open_session(open_catalog(tmp_path / "catalog.db"))) as first:
        list(run(first, "ALTER SYSTEM SET max_prepared_transactions = 10"))
    served = Served(publishing, tmp_path)
    served.both(T)
    served.pub("INSERT INTO t VALUES (1, 'one'), (2, 'two'); CREATE PUBLICATION p FOR TABLE t")
    yield served
    served.close()


def slot(served: Served) -> list[tuple[str | None, ...]]:
    return served.pub(f"SELECT two_phase FROM pg_replication_slots WHERE slot_name = '{served.slot}'")


def test_prepared_and_ended(ready: Served) -> None:
    gid = f"x_{ready.database}"
    ready.subscribe(options="two_phase = on")
    assert ready.sub("SELECT subtwophasestate FROM pg_subscription") == [("e",)]
    assert slot(ready) == [("t",)]
    change = "INSERT INTO t VALUES (3, 'three'); UPDATE t SET b = 'eins' WHERE a = 1; DELETE FROM t WHERE a = 2"
    ready.pub(f"BEGIN; {change}; PREPARE TRANSACTION '{gid}'")
    ready.pub("INSERT INTO t VALUES (9, 'between')")
    assert ready.catch_up() == []
    assert ready.sub(HERE) == [("1",)]
    assert len(ready.same(ROWS)) == 3
    ready.pub(f"COMMIT PREPARED '{gid}'")
    assert ready.catch_up() == []
    assert ready.sub(HERE) == [("0",)]
    assert ready.same(ROWS) == [("1", "eins"), ("3", "three"), ("9", "between")]
    ready.pub(f"BEGIN; TRUNCATE t; INSERT INTO t VALUES (77); PREPARE TRANSACTION '{gid}'")
    assert ready.catch_up() == []
    assert ready.sub(HERE) == [("1",)]
    ready.pub(f"ROLLBACK PREPARED '{gid}'")
    assert ready.catch_up() == []
    assert ready.sub(HERE) == [("0",)]
    ready.pub(f"BEGIN; TRUNCATE t; INSERT INTO t VALUES (77); PREPARE TRANSACTION '{gid}'")
    ready.pub(f"COMMIT PREPARED '{gid}'")
    ready.pub(f"BEGIN; INSERT INTO t VALUES (78); PREPARE TRANSACTION '{gid}'")
    ready.pub(f"ROLLBACK PREPARED '{gid}'")
    assert ready.catch_up() == []
    assert ready.sub(HERE) == [("0",)]
    assert ready.same(ROWS) == [("77", None)]


def test_prepared_before_the_slot_told_of_it(ready: Served) -> None:
    """Its changes come when it is committed, or are never heard of."""
    for end, rows in (("ROLLBACK", 2), ("COMMIT", 3)):
        gid = f"x_{ready.database}"
        if end == "COMMIT":
            ready.sub("DROP SUBSCRIPTION s")
            ready.sub("TRUNCATE t")
        ready.subscribe(options="two_phase = off")
        ready.pub(f"BEGIN; INSERT INTO t VALUES (3, 'early'); PREPARE TRANSACTION '{gid}'")
        assert ready.catch_up() == []
        peek = "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('{}', NULL, NULL, 'proto_version', '3',"
        ready.pub(f"{peek.format(ready.slot)} 'publication_names', 'p', 'two_phase', 'on')")
        assert slot(ready) == [("t",)]
        assert ready.catch_up() == []
        ready.pub(f"{end} PREPARED '{gid}'")
        assert ready.catch_up() == []
        assert ready.sub(HERE) == [("0",)]
        assert len(ready.same(ROWS)) == rows


@pytest.mark.slow
def test_a_large_one_and_many_others(ready: Served) -> None:
    """What is applied by columns stops before it and goes on behind it."""
    gid = f"x_{ready.database}"
    ready.subscribe(options="two_phase = on")
    ready.pub("INSERT INTO t SELECT g, 'before' FROM generate_series(10, 6000) g")
    change = "UPDATE t SET b = 'prepared' WHERE a % 3 = 0; DELETE FROM t WHERE a % 100 = 1"
    ready.pub(f"BEGIN; {change}; PREPARE TRANSACTION '{gid}'")
    ready.pub("INSERT INTO t SELECT g, 'behind' FROM generate_series(10000, 16000) g")
    assert ready.catch_up() == []
    assert ready.sub(HERE) == [("1",)]
    assert len(ready.same(ROWS)) == 2 + 5991 + 6001
    ready.pub(f"COMMIT PREPARED '{gid}'")
    ready.pub("UPDATE t SET b = b || '!' WHERE a > 15000")
    assert ready.catch_up() == []
    ready.same(ROWS)


def test_a_prepared_transaction_may_have_new_columns_but_not_bring_them(ready: Served) -> None:
    gid = f"x_{ready.database}"
    ready.subscribe(options="two_phase = on, schema_changes = columns")
    ready.pub("ALTER TABLE t ADD COLUMN c int DEFAULT 5")
    ready.pub(f"BEGIN; INSERT INTO t VALUES (3, 'three', 3); PREPARE TRANSACTION '{gid}'")
    assert ready.catch_up() == []
    ready.pub(f"COMMIT PREPARED '{gid}'")
    assert ready.catch_up() == []
    assert len(ready.same(ROWS)) == 3
    ready.pub(
        "BEGIN; INSERT INTO t VALUES (4, 'four', 4); ALTER TABLE t ADD COLUMN d int;"
        f" INSERT INTO t VALUES (5, 'five', 5); PREPARE TRANSACTION '{gid}'"
    )
    ((message, _, context),) = ready.catch_up()
    assert message == "a prepared transaction that changes the columns of a table between its rows is not supported"
    assert context is not None
    ready.sub(f"ALTER SUBSCRIPTION s SKIP (lsn = '{context.rpartition(' ')[2]}')")
    ready.pub(f"ROLLBACK PREPARED '{gid}'")
    ready.pub("INSERT INTO t VALUES (6, 'six', 6)")
    assert ready.catch_up() == []
    ready.same(ROWS)


@pytest.mark.parametrize("publishing", [16, 18], indirect=True)
def test_an_empty_one_comes_without_its_beginning(ready: Served) -> None:
    """From 18 also without BEGIN PREPARE, from 16 also without PREPARE, where a real subscriber stops."""
    ready.subscribe(options="two_phase = on")
    gid = f"x_{ready.database}"
    for end in ("COMMIT", "ROLLBACK"):
        ready.pub(f"BEGIN; SELECT a FROM t WHERE a = 1 FOR SHARE; PREPARE TRANSACTION '{gid}'")
        ready.pub("INSERT INTO t SELECT max(a) + 1 FROM t")
        if end == "COMMIT":
            assert ready.catch_up() == []
        ready.pub(f"{end} PREPARED '{gid}'")
        ready.pub("INSERT INTO t SELECT max(a) + 1 FROM t")
    assert ready.catch_up() == []
    assert ready.sub(HERE) == [("0",)]
    assert len(ready.same(ROWS)) == 6


def test_one_that_somebody_has_ended_here_is_missed(ready: Served) -> None:
    gid = f"x_{ready.database}"
    ready.subscribe(options="two_phase = on")
    ready.pub(f"BEGIN; INSERT INTO t VALUES (3, 'three'); PREPARE TRANSACTION '{gid}'")
    assert ready.catch_up() == []
    ((own,),) = ready.sub("SELECT gid FROM pg_prepared_xacts")
    ready.sub(f"ROLLBACK PREPARED '{own}'")
    ready.pub(f"COMMIT PREPARED '{gid}'")
    ((message, _, _),) = ready.catch_up()
    assert message == f'prepared transaction with identifier "{own}" does not exist'
