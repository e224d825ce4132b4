"""Cumulative statistics, the numbers of transactions, CHECKPOINT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    catalog = open_catalog(tmp_path / "catalog.db")
    opened = open_session(catalog)
    yield opened
    opened.close()
    catalog.close()


def ask(session: Session, text: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for result in run(session, text):
        found += [tuple(row) for row in result.rows] if result.columns is not None else []
    return found


def fails(session: Session, text: str) -> PgError:
    with pytest.raises(PgError) as caught:
        ask(session, text)
    return caught.value


def other(session: Session, user: str = "postgres") -> Session:
    return open_session(open_catalog(str(session.catalog.path)), user=user)


COUNTS = (
    "SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, seq_scan > 0, seq_tup_read > 0, vacuum_count, analyze_count,"
    " last_analyze IS NOT NULL, n_mod_since_analyze FROM pg_stat_user_tables WHERE relname = 't'"
)


def test_what_is_done_to_a_table_is_counted_for_all_to_see(session: Session) -> None:
    ask(
        session,
        "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t SELECT i, 'x' FROM generate_series(1, 300) i",
    )
    assert ask(session, COUNTS) == [("300", "0", "0", "300", "f", "f", "0", "0", "f", "300")]
    ask(session, "UPDATE t SET b = 'y' WHERE a <= 5; DELETE FROM t WHERE a > 290; SELECT count(b) FROM t")
    ask(session, "SELECT pg_stat_force_next_flush()")
    beside = other(session)
    try:
        assert ask(beside, COUNTS) == ask(session, COUNTS)
        assert ask(beside, COUNTS)[0][:6] == ("300", "5", "10", "290", "t", "t")
        ask(beside, "ANALYZE t")
        ask(beside, "VACUUM t")
    finally:
        beside.close()
    assert ask(session, COUNTS)[0][6:] == ("1", "1", "t", "0")
    assert ask(session, "SELECT n_dead_tup, idx_scan FROM pg_stat_all_tables WHERE relname = 't'") == [("0", "0")]
    ask(session, "SELECT pg_stat_reset_single_table_counters('t'::regclass)")
    assert ask(session, COUNTS)[0][:4] == ("0", "0", "0", "290")


def test_databases_and_system_tables(session: Session) -> None:
    ask(session, "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)")
    assert fails(session, "SELECT 1/0").sqlstate == "22012"
    question = (
        "SELECT xact_commit > 1, xact_rollback > 0, tup_inserted, stats_reset IS NULL FROM pg_stat_database"
        " WHERE datname = 'postgres'"
    )
    assert ask(session, question) == [("t", "t", "2", "t")]
    ask(session, "SELECT pg_stat_reset()")
    assert ask(session, question)[0][2:] == ("0", "f")
    assert ask(session, "SELECT count(*) FROM pg_stat_database WHERE datname IS NULL") == [("1",)]
    views = ("tables", "indexes")
    for view in [f"{prefix}_{which}_{what}" for prefix in ("pg_stat", "pg_statio") for which in ("all", "sys", "user")
                 for what in views]:  # fmt: skip
        assert ask(session, f"SELECT count(*) >= 0 FROM {view}") == [("t",)]
    assert ask(session, "SELECT relname FROM pg_stat_user_tables") == [("t",)]
    assert ask(session, "SELECT count(*) FROM pg_stat_sys_tables WHERE relname = 'pg_class'") == [("1",)]


def test_statistics_of_slots(session: Session) -> None:
    ask(session, "CREATE TABLE t (a int)")
    ask(session, "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
    question = "SELECT slot_name, total_txns, total_bytes > 0, stats_reset IS NULL FROM pg_stat_replication_slots"
    assert ask(session, question) == [("s", "0", "f", "t")]
    ask(session, "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    ask(session, "SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)")
    found = ask(session, question)
    assert (found[0][0], int(found[0][1]) > 0, *found[0][2:]) == ("s", True, "t", "t")
    assert ask(session, "SELECT pg_stat_have_stats('replslot', 0, 0), pg_stat_have_stats('replslot', 0, 1)") == [
        ("t", "f")
    ]
    ask(session, "SELECT pg_stat_reset_replication_slot('s')")
    assert ask(session, question) == [("s", "0", "f", "f")]
    ask(session, "SELECT pg_drop_replication_slot('s')")
    assert ask(session, question) == []
    assert fails(session, "SELECT pg_stat_reset_replication_slot('s')").message == 'replication slot "s" does not exist'


def test_what_19_has_is_found_by_its_name(session: Session) -> None:
    ask(session, "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    counted = "SELECT mem_exceeded_count, slotsync_skip_count, slotsync_last_skip FROM pg_stat_replication_slots"
    assert ask(session, counted) == [("0", "0", None)]
    assert ask(session, "SELECT slotsync_skip_reason FROM pg_replication_slots") == [(None,)]
    assert len(ask(session, "SELECT * FROM pg_stat_replication_slots")[0]) == 10
    assert ask(session, "SHOW effective_wal_level") == [("logical",)]
    assert ask(session, "SELECT name FROM pg_settings WHERE name ~ 'wal_level'") == [("wal_level",)]
    assert fails(session, "SET effective_wal_level = 'replica'").sqlstate == "55P02"
    ask(session, "ALTER SYSTEM SET wal_level = 'minimal'")
    assert ask(other(session), "SELECT current_setting('effective_wal_level')") == [("minimal",)]


def test_a_damaged_file_of_statistics_is_begun_anew(session: Session) -> None:
    ask(session, "CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    assert ask(session, "SELECT n_tup_ins FROM pg_stat_user_tables") == [("1",)]
    Path(f"{session.catalog.path}.stats").write_bytes(b"no database" * 500)
    assert ask(session, "SELECT n_tup_ins FROM pg_stat_user_tables") == [("0",)]
    ask(session, "INSERT INTO t VALUES (1)")
    assert ask(session, "SELECT n_tup_ins FROM pg_stat_user_tables") == [("1",)]


def test_the_numbers_of_transactions(session: Session) -> None:
    ask(session, "CREATE TABLE t (a int)")
    assert ask(session, "SELECT txid_current_if_assigned(), pg_current_xact_id_if_assigned()") == [(None, None)]
    ask(session, "BEGIN; INSERT INTO t VALUES (1)")
    (number,) = ask(session, "SELECT txid_current()")[0]
    ask(session, "INSERT INTO t VALUES (2)")
    assert ask(session, "SELECT pg_current_xact_id(), txid_current_if_assigned()") == [(number, number)]
    assert ask(
        session, f"SELECT txid_status({number}), txid_visible_in_snapshot({number}, txid_current_snapshot())"
    ) == [("in progress", "f")]
    ask(session, "COMMIT")
    assert ask(
        session, f"SELECT txid_status({number}), txid_visible_in_snapshot({number}, txid_current_snapshot())"
    ) == [("committed", "t")]
    one, two = ask(session, "SELECT txid_current()"), ask(session, "SELECT txid_current()")
    assert int(one[0][0]) < int(two[0][0])
    assert fails(session, "SELECT pg_xact_status('99999999')").message == "transaction ID 99999999 is in the future"
    assert fails(session, "SELECT '1:10:10'::pg_snapshot").sqlstate == "22P02"
    assert ask(session, "SELECT '1:10:3,3,4'::txid_snapshot, pg_log_standby_snapshot() > '0/0'") == [("1:10:3,4", "t")]


def test_who_may(session: Session) -> None:
    ask(session, "CREATE ROLE joe LOGIN; CHECKPOINT")
    joe = other(session, "joe")
    try:
        refused = fails(joe, "CHECKPOINT")
        assert (refused.sqlstate, refused.message, refused.report.detail) == (
            "42501", "permission denied to execute CHECKPOINT command",
            'Only roles with privileges of the "pg_checkpoint" role may execute this command.',
        )  # fmt: skip
        for call in ("pg_stat_reset()", "pg_log_standby_snapshot()", "pg_stat_have_stats('wal', 0, 0)"):
            assert fails(joe, f"SELECT {call}").message == f"permission denied for function {call.partition('(')[0]}"
        assert ask(joe, "SELECT pg_stat_force_next_flush()") == [("",)]
        ask(session, "GRANT pg_checkpoint TO joe")
        ask(joe, "CHECKPOINT")
    finally:
        joe.close()


def test_a_relation_that_was_rolled_back_leaves_no_counters_to_the_next_one_with_its_oid(session: Session) -> None:
    ask(session, "BEGIN; CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT * FROM t; ROLLBACK")
    ask(session, "SELECT pg_stat_force_next_flush()")
    there = other(session)
    ask(there, "CREATE TABLE t (a int)")
    assert ask(there, COUNTS) == [("0", "0", "0", "0", "f", "f", "0", "0", "f", "0")]
    there.close()
