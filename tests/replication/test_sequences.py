"""Sequences as PostgreSQL 19 publishes them (A19), and the parameter `sequences`, by which they all follow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pgrepl.replication.subscriber.attach import Round
from pgrepl.replication.subscriber.worker import Worker
from tests.harness.following import following
from tests.harness.pair import Pair
from tests.harness.programs import eventually

STATES = (
    "SELECT srrelid::regclass, srsubstate, srsublsn IS NOT NULL FROM pg_subscription_rel"
    " ORDER BY srrelid::regclass::text"
)


def values(pair: Pair, *names: str) -> list[str]:
    return [f"{row[0]}{'' if row[1] == 't' else ' next'}" for name in names
            for row in pair.sub(f"SELECT last_value, is_called FROM {name}")]  # fmt: skip


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both(
        "CREATE TABLE t (id serial PRIMARY KEY, a text); CREATE SEQUENCE q START 7; CREATE SEQUENCE down INCREMENT -5"
    )
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES, ALL SEQUENCES")
    pair.pub("INSERT INTO t (a) VALUES ('x'), ('y')", "SELECT setval('down', -55, false)")
    return pair


def test_published_sequences_are_fetched_when_they_are_new_and_when_they_are_refreshed(filled: Pair) -> None:
    filled.subscribe()
    assert values(filled, "t_id_seq", "q", "down") == ["2", "7 next", "-55 next"]
    assert filled.sub(STATES) == [("down", "r", "t"), ("q", "r", "t"), ("t", "r", "t"), ("t_id_seq", "r", "t")]
    started = [text for text in filled.log.messages("LOG") if "sequence synchronization" in text]
    assert [text.rpartition(" ")[2] for text in started] == ["started", "finished"]
    filled.pub("INSERT INTO t (a) VALUES ('z')", "SELECT nextval('q')")
    assert filled.catch_up() == []
    assert values(filled, "t_id_seq", "q") == ["2", "7 next"]  # as PostgreSQL's, until they are refreshed
    filled.sub("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    assert {row[1] for row in filled.sub(STATES) if row[0] != "t"} == {"i"}
    assert filled.catch_up() == []
    assert values(filled, "t_id_seq", "q", "down") == ["3", "7", "-55 next"]
    filled.both("CREATE SEQUENCE new")
    filled.pub("SELECT setval('new', 99)")
    filled.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert filled.catch_up() == []
    assert values(filled, "new", "q") == ["99", "7"]
    filled.pub("ALTER PUBLICATION p SET ALL TABLES")
    filled.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert filled.sub(STATES) == [("t", "r", "t")]


def test_with_the_parameter_all_sequences_follow_published_or_not(filled: Pair) -> None:
    filled.pub("ALTER PUBLICATION p SET ALL TABLES")
    filled.pub("CREATE SEQUENCE there")
    filled.sub("CREATE SEQUENCE here; CREATE TEMP SEQUENCE passing")
    filled.subscribe(options="WITH (sequences = on)")
    assert values(filled, "t_id_seq", "q", "down") == ["2", "7 next", "-55 next"]
    filled.pub("INSERT INTO t (a) VALUES ('z')", "SELECT nextval('q')")
    assert filled.catch_up() == []
    assert values(filled, "t_id_seq", "q", "here") == ["3", "7", "1 next"]
    filled.pub("SELECT nextval('q')")  # no row has changed
    assert filled.catch_up() == []
    assert values(filled, "q") == ["8"]
    filled.both("CREATE SEQUENCE later")
    filled.pub("SELECT setval('later', 5)")
    assert filled.catch_up() == []
    assert values(filled, "later") == ["5"]
    filled.sub("ALTER SUBSCRIPTION s SET (sequences = off)")
    assert filled.sub(STATES) == [("t", "r", "t")]
    filled.pub("INSERT INTO t (a) VALUES ('more')")
    assert filled.catch_up() == []
    assert values(filled, "t_id_seq") == ["3"]
    filled.sub("ALTER SUBSCRIPTION s SET (sequences = on)")
    assert filled.catch_up() == []
    assert values(filled, "t_id_seq") == ["4"]


def test_a_follower_looks_at_sequences_while_no_row_comes(filled: Pair) -> None:
    filled.sub("ALTER SYSTEM SET wal_receiver_status_interval = '1s'")
    filled.subscribe(options="WITH (sequences = on)")
    filled.sub.leave()
    with following(filled):
        filled.pub("INSERT INTO t (a) VALUES ('z')")
        eventually(lambda: values(filled, "t_id_seq") == ["3"])
        filled.pub("SELECT nextval('q')")
        eventually(lambda: values(filled, "q") == ["7"])


def test_a_follower_without_sequences_rests_behind_changes(filled: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[Worker] = []
    work = Worker.round

    def counted(worker: Worker, **how: Any) -> Round:
        rounds.append(worker)
        return work(worker, **how)

    monkeypatch.setattr(Worker, "round", counted)
    filled.pub("ALTER PUBLICATION p SET ALL TABLES")
    filled.subscribe()
    filled.sub.leave()
    with following(filled):
        filled.pub("INSERT INTO t (a) VALUES ('z')")
        eventually(lambda: filled.sub("SELECT count(*) FROM t") == [("3",)])
        time.sleep(0.2)
        before = len(rounds)
        time.sleep(0.5)
        assert len(rounds) - before <= 1


def test_what_cannot_be_synchronized_stops_neither_rows_nor_other_sequences(filled: Pair) -> None:
    filled.subscribe()
    filled.pub("INSERT INTO t (a) VALUES ('z')", "SELECT nextval('q')")
    filled.sub("ALTER SEQUENCE q MAXVALUE 1000")
    filled.pub("DROP SEQUENCE down")
    filled.sub("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    failed = 'logical replication sequence synchronization failed for subscription "s"'
    assert filled.catch_up() == [(failed, None, None)]
    assert filled.log.messages("WARNING") == [
        'mismatched or renamed sequence on subscriber ("public.q")',
        'missing sequence on publisher ("public.down")',
    ]
    assert filled.sub("SELECT count(*) FROM t") == [("3",)]
    assert values(filled, "t_id_seq", "q") == ["3", "7 next"]
    columns = "apply_error_count, sync_error_count, sync_table_error_count, sync_seq_error_count, confl_update_deleted"
    counted = f"SELECT {columns} FROM pg_stat_subscription_stats"
    assert filled.sub(counted) == [("0", "1", "0", "1", "0")]
    filled.sub("ALTER SEQUENCE q NO MAXVALUE; DROP SEQUENCE down")
    assert filled.catch_up() == []
    assert values(filled, "t_id_seq", "q") == ["3", "7"]
    assert filled.sub("SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'") == [("0",)]


def test_who_may_set_them(filled: Pair) -> None:
    filled.sub(
        "CREATE ROLE clerk; CREATE ROLE reader SUPERUSER; ALTER SEQUENCE q OWNER TO clerk; REVOKE ALL ON q FROM clerk"
    )
    filled.subscribe()
    assert filled.log.messages("WARNING") == ['insufficient privileges on subscriber sequence ("public.q")']
    filled.sub("GRANT UPDATE ON q TO clerk")
    assert filled.catch_up() == []
    assert values(filled, "q") == ["7 next"]


def test_what_statements_refuse(filled: Pair, tmp_path: Path) -> None:
    filled.sub("DROP SEQUENCE q; CREATE TABLE q ()")
    subscribe = "CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p"
    assert filled.sub.says(subscribe) == 'relation "public.q" type mismatch: source "sequence", target "table"'
    filled.sub("DROP TABLE q")
    assert filled.sub.says(subscribe) == 'relation "public.q" does not exist'
    filled.sub("CREATE SEQUENCE q START 7", subscribe, "ALTER SUBSCRIPTION s DISABLE")
    assert filled.sub.says("ALTER SUBSCRIPTION s REFRESH SEQUENCES") == (
        "ALTER SUBSCRIPTION ... REFRESH SEQUENCES is not allowed for disabled subscriptions"
    )
    filled.sub("DROP SEQUENCE q", "DROP SUBSCRIPTION s")  # one that waits for its value may go
    assert filled.sub("SELECT count(*) FROM pg_subscription_rel") == [("0",)]
    files = (
        f"CREATE SUBSCRIPTION f CONNECTION 'files={tmp_path}/*.jsonl dbname=pub' PUBLICATION p WITH (sequences = on)"
    )
    assert filled.sub.says(files) == "sequences is not supported for files of changes"


def test_a_value_that_comes_from_a_third_is_warned_of(filled: Pair) -> None:
    filled.subscribe()
    filled.sub("CREATE PUBLICATION back FOR ALL SEQUENCES")
    filled.pub("CREATE SUBSCRIPTION r CONNECTION 'host=localhost dbname=sub' PUBLICATION back WITH (origin = none)")
    warned = (
        'subscription "r" requested origin = NONE but might synchronize sequence values that had a different origin'
    )
    assert warned in filled.pub.notices
