"""From how many changes on a batch is applied by whole columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgrepl import engine
from pgrepl.errors import Declined
from pgrepl.replication.publisher.lake.publisher import LakePublisher
from tests.harness.pair import Pair


def test_a_thousand_changes_go_by_columns_unless_they_are_of_many_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    session = pair.sub.session
    assert [engine.least_changes(session, tables) for tables in (1, 10, 1000)] == [1001, 1501, 20001]
    assert [engine.is_worth_columns(session, 1001, tables) for tables in (1, 6, 7)] == [True, True, False]
    pair.sub("SET pgrepl.local_rows = 0")
    assert engine.least_changes(session, 1000) == 1 and engine.is_worth_columns(session, 1, 1000)
    pair.sub("SET pgrepl.local_rows = 1000000")
    assert [engine.least_changes(session, tables) for tables in (1, 10)] == [50001, 75001]
    pair.sub("RESET pgrepl.local_rows; SET pgrepl.engine = spark")
    assert engine.least_changes(session, 1000) == 1 and engine.is_worth_columns(session, 1, 1000)
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

    monkeypatch.setattr(LakePublisher, "batch", declines)
    pair.pub("INSERT INTO u SELECT generate_series(1, 1001)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*) FROM u") == [("1001",)]
    declined = "SELECT DISTINCT work, engine, declined FROM pgrepl_stat_engine WHERE declined IS NOT NULL"
    assert pair.sub(declined) == [("apply", "local", "the test")]
    pair.close()
