"""LOCK TABLE keeps others out until the transaction ends; REINDEX finds rows that a unique index does not allow."""

from __future__ import annotations

from tests.harness.played import Instance
from tests.lake import duck


def test_writers_wait_for_a_locked_table_and_readers_do_not(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "CREATE ROLE bob SUPERUSER LOGIN")
    instance.play("pub", "BEGIN", "LOCK TABLE t IN SHARE MODE")
    theirs = instance.play(
        "pub",
        "SET lock_timeout = 50",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD b int",
        "SELECT count(*) FROM t",
        "BEGIN",
        "LOCK TABLE t IN SHARE MODE NOWAIT",
        "LOCK TABLE t IN ROW EXCLUSIVE MODE NOWAIT",
        "ROLLBACK",
        user="bob",
    )
    timeout = "ERROR:  canceling statement due to lock timeout"
    refused = 'ERROR:  could not obtain lock on relation "t"'
    assert theirs == ["SET", timeout, timeout, "0", "BEGIN", "LOCK TABLE", refused, "ROLLBACK"]
    instance.play("pub", "COMMIT")
    assert instance.play("pub", "INSERT INTO t VALUES (1)", user="bob") == ["INSERT 0 1"]


def test_reindex_finds_duplicates_that_another_writer_made(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int PRIMARY KEY, b text)", "INSERT INTO t VALUES (1, 'x')")
    duck.run(instance.folder / "catalog.db", "INSERT INTO pub.t VALUES (1, 'y')")
    duck.close(instance.folder / "catalog.db")
    found = ['ERROR:  could not create unique index "t_pkey"', "DETAIL:  Key (a)=(1) is duplicated."]
    assert instance.play("pub", "REINDEX TABLE t", "REINDEX INDEX t_pkey", "DELETE FROM t WHERE b = 'y'") == [
        *found, *found, "DELETE 1",
    ]  # fmt: skip
    assert instance.play("pub", "REINDEX SCHEMA public") == ["REINDEX"]


def test_another_reader_of_the_lake_sees_a_materialized_view_as_a_table(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 1000) g")
    instance.play("pub", "CREATE MATERIALIZED VIEW m AS SELECT a % 2 AS odd, sum(a) AS total FROM t GROUP BY 1")
    instance.play("pub", "INSERT INTO t VALUES (1000000)", "REFRESH MATERIALIZED VIEW m")
    rows = duck.duck(instance.folder / "catalog.db", "SELECT * FROM pub.m ORDER BY 1")
    duck.close(instance.folder / "catalog.db")
    assert rows == [("0", "1250500"), ("1", "250000")]
