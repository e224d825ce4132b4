"""From how many changes on a batch is applied by whole columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgrepl.engine import choice as engine_choice
from pgrepl.engine import spark
from pgrepl.ground.errors import Declined
from pgrepl.replication.publisher.lake import stream_columns
from pgrepl.replication.publisher.lake.publisher import LakeChangeStream
from tests.harness.pair import Pair
from tests.harness.tasks import played_here


def test_a_thousand_changes_go_by_columns_unless_they_are_of_many_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    session = pair.sub.session
    assert [engine_choice.least_changes(session, tables) for tables in (1, 10, 1000)] == [1001, 1501, 20001]
    assert [engine_choice.is_worth_columns(session, 1001, tables) for tables in (1, 6, 7)] == [True, True, False]
    pair.sub("SET pgrepl.local_rows = 0")
    assert engine_choice.least_changes(session, 1000) == 1 and engine_choice.is_worth_columns(session, 1, 1000)
    pair.sub("SET pgrepl.local_rows = 1000000")
    assert [engine_choice.least_changes(session, tables) for tables in (1, 10)] == [50001, 75001]
    pair.sub("RESET pgrepl.local_rows; SET pgrepl.engine = spark")
    assert engine_choice.least_changes(session, 1000) == 1 and engine_choice.is_worth_columns(session, 1, 1000)
    pair.sub("SET pgrepl.engine = local")  # whole columns are this process's work, too
    pair.both("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe()
    counted = "SELECT work, engine FROM pgrepl_stat_engine"
    pair.pub("INSERT INTO t SELECT generate_series(1, 900)")
    assert pair.catch_up() == []
    assert pair.sub(counted) == []
    pair.pub("INSERT INTO t SELECT generate_series(2000, 4000)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*) FROM t") == [("2901",)]
    assert pair.sub(counted) == [("apply", "columns")]

    def declines(*_: object, **__: object) -> None:
        raise Declined("the test")

    monkeypatch.setattr(LakeChangeStream, "batch", declines)
    pair.pub("INSERT INTO u SELECT generate_series(1, 1001)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*) FROM u") == [("1001",)]
    declined = "SELECT DISTINCT work, engine, declined FROM pgrepl_stat_engine WHERE declined IS NOT NULL"
    assert pair.sub(declined) == [("apply", "local", "the test")]
    pair.close()


def test_more_changes_than_spark_rows_are_a_spark_job_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    tasks = played_here(monkeypatch)
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("ALTER DATABASE sub SET pgrepl.spark_rows = 2000")  # the worker's settings decide for the publisher, too
    changed = (
        "INSERT INTO t SELECT g, 'v' FROM generate_series(1, 2000) g",
        "INSERT INTO t SELECT g, 'v' FROM generate_series(2001, 4001) g",
        "UPDATE t SET v = 'w' WHERE id > 1000",
    )
    kinds = []
    for statement in (*changed, "ALTER DATABASE sub SET pgrepl.engine = local", changed[2].replace("w", "x")):
        database = pair.sub if statement.startswith("ALTER") else pair.pub
        database(statement)
        assert pair.catch_up() == []
        kinds.append({type(each).__name__ for each in tasks})
        del tasks[:]
    by_spark = {"RangeToRead", "PartToApply"}  # and keys and positions are numbered by threads
    assert kinds == [set(), by_spark, by_spark, set(), set()]
    assert pair.sub("SELECT v, count(*), sum(id) FROM t GROUP BY v ORDER BY v") == [
        ("v", "1000", "500500"),
        ("x", "3001", "7505501"),
    ]
    counted = "SELECT engine, calls FROM pgrepl_stat_engine WHERE work = 'apply' ORDER BY engine"
    assert pair.sub(counted) == [("columns", "2"), ("spark", "2")]
    pair.close()


def test_threads_read_the_changes_while_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tmp_path)
    tasks = played_here(monkeypatch)
    started: list[bool] = []
    monkeypatch.setattr(stream_columns, "is_warm", lambda: bool(started))
    monkeypatch.setattr(spark, "start_in_background", lambda: started.append(True))
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("ALTER DATABASE sub SET pgrepl.spark_rows = 2000")
    kinds = []
    for first in (1, 10001):
        pair.pub(f"INSERT INTO t SELECT generate_series({first}, {first} + 2999)")
        assert pair.catch_up() == []
        kinds.append({type(each).__name__ for each in tasks})
        del tasks[:]
    assert kinds == [{"PartToApply"}, {"RangeToRead", "PartToApply"}] and started == [True]
    assert pair.sub("SELECT count(*), sum(id) FROM t") == [("6000", "39003000")]
    pair.close()


def test_a_dry_run_says_that_a_batch_is_for_spark(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    session = pair.sub.session
    pair.sub("SET pgrepl.spark_rows = 2000")

    def choice(changes: int) -> str:
        return str(engine_choice.choose_of_batch(session, engine_choice.choose_batch(session, changes), changes))

    said = [choice(changes) for changes in (1000, 1001, 2001)]
    pair.sub("SET pgrepl.engine = local")
    said.append(choice(2001))
    assert said == [
        "local (1000 changes, not more than 1000)",
        "columns (1001 changes, more than 1000)",
        "spark (2001 changes, more than 2000)",
        "columns (2001 changes, more than 1000)",
    ]
    pair.close()
