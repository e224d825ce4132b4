"""The stream of a follower at a real server: what the server shows, transactions in progress, idle publications."""

from __future__ import annotations

import time
from contextlib import closing
from threading import Event

import psycopg
import pytest

from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.publisher.postgres import prefetch
from pgrepl.replication.publisher.postgres.publisher import to_server
from pgrepl.replication.publisher.protocol import StreamRequest
from pgrepl.replication.publisher.senders import StreamOptions, WalSender
from tests.harness.programs import eventually
from tests.postgres.served import Served
from tests.postgres.test_server_faults import following

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
ON_ONE = pytest.mark.parametrize("publishing", [18], indirect=True)
SMALL = "SET logical_decoding_work_mem = '64kB'"
ALL_T = "SELECT count(*), sum(a), min(b), max(b) FROM t"


def subscribed(served: Served, options: str = "") -> None:
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe(options=options)


def eventually_same(served: Served) -> None:
    eventually(lambda: served.pub(ALL_T) == served.sub(ALL_T))


def test_the_server_shows_a_follower_by_its_subscriptions_name(served: Served) -> None:
    subscribed(served)
    active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{served.slot}'"
    with following(served):
        eventually(lambda: served.pub(active) == [("t",)])
        served.pub("INSERT INTO t VALUES (1, 'x')")
        eventually_same(served)
        shown = (
            "SELECT application_name, state, sent_lsn = flush_lsn, write_lsn = replay_lsn FROM pg_stat_replication "
            "JOIN pg_replication_slots ON pid = active_pid"
        )
        eventually(lambda: served.pub(shown) == [("s", "streaming", "t", "t")])
    eventually(lambda: served.pub(active) == [("f",)])


@ON_ONE
def test_a_row_does_not_wait_for_an_open_transaction_or_the_next_look(served: Served) -> None:
    subscribed(served)
    served.sub("ALTER SYSTEM SET wal_receiver_status_interval = 0")
    with following(served, interval=60.0), psycopg.connect(served.conninfo) as other:
        eventually(lambda: served.pub("SELECT count(*) FROM pg_stat_replication") == [("1",)])
        other.execute("CREATE TABLE elsewhere (a int)")
        other.execute("INSERT INTO elsewhere SELECT generate_series(1, 100000)")
        for number in range(5):
            served.pub(f"INSERT INTO t VALUES ({number}, 'x')")
            eventually_same(served)
        statistics = f"SELECT total_txns FROM pg_stat_replication_slots WHERE slot_name = '{served.slot}'"
        eventually(lambda: int(served.pub(statistics)[0][0] or 0) in range(5, 20))


@ON_ONE
def test_commits_wait_for_a_follower_that_is_a_synchronous_standby(served: Served) -> None:
    subscribed(served)
    served.pub("ALTER SYSTEM SET synchronous_standby_names = 's'")
    served.pub("SELECT pg_reload_conf()")
    try:
        with following(served, interval=60.0):
            eventually(lambda: served.pub("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
            for number, level in enumerate(("remote_write", "on", "remote_apply")):
                served.pub(f"SET synchronous_commit = {level}; INSERT INTO t VALUES ({number}, '{level}')")
                if level != "remote_write":
                    assert served.sub(f"SELECT b FROM t WHERE a = {number}") == [(level,)]
    finally:
        served.pub("SET synchronous_commit = local")
        served.pub("ALTER SYSTEM RESET synchronous_standby_names")
        served.pub("SELECT pg_reload_conf()")


@ON_ONE
def test_transactions_of_others_move_an_idle_slot(served: Served) -> None:
    subscribed(served)
    served.pub("CREATE TABLE elsewhere (a int)")
    with following(served, interval=60.0):
        eventually(lambda: served.pub("SELECT count(*) FROM pg_stat_replication") == [("1",)])
        served.pub("INSERT INTO elsewhere VALUES (1)")
        ((end,),) = served.pub("SELECT pg_current_wal_flush_lsn()")
        moved = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = '{served.slot}'"
        eventually(lambda: served.pub(moved) == [("t",)])


@pytest.mark.parametrize("streaming", ["on", "parallel"])
def test_transactions_in_progress_are_kept_here_until_they_end(served: Served, streaming: str) -> None:
    subscribed(served, f"streaming = {streaming}")
    with following(served), psycopg.connect(served.conninfo) as one, psycopg.connect(served.conninfo) as other:
        sending = "SELECT pid FROM pg_stat_replication"
        eventually(lambda: len(served.pub(sending)) == 1)
        first = served.pub(sending)
        served.pub("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'")
        served.pub("SELECT pg_reload_conf()")
        for at, link in enumerate((one, other)):
            link.execute(
                f"INSERT INTO t SELECT g, 'kept' FROM generate_series({at * 10000 + 1}, {at * 10000 + 3000}) g"
            )
            link.execute("SAVEPOINT a")
            link.execute(
                f"INSERT INTO t SELECT g, 'undone' FROM generate_series({at * 10000 + 3001}, {at * 10000 + 6000}) g"
            )
            link.execute("ROLLBACK TO a")
            link.execute("SAVEPOINT b")
            link.execute(f"UPDATE t SET b = 'changed' WHERE a BETWEEN {at * 10000 + 1} AND {at * 10000 + 2000}")
            link.execute("RELEASE b")
        served.pub("INSERT INTO t VALUES (-1, 'meanwhile')")
        eventually_same(served)
        streamed = (
            f"SELECT stream_txns > 0, spill_txns FROM pg_stat_replication_slots WHERE slot_name = '{served.slot}'"
        )
        other.rollback()
        one.commit()
        eventually_same(served)
        eventually(lambda: served.pub(streamed)[0][0] == "t")
        # A walsender that begins amid a transaction spills what was confirmed before: no other has to.
        assert served.pub(sending) != first or served.pub(streamed) == [("t", "0")]
        assert served.sub(ALL_T) == [("3001", str(sum(range(1, 3001)) - 1), "changed", "meanwhile")]
        served.pub("ALTER SYSTEM RESET logical_decoding_work_mem")
        served.pub("SELECT pg_reload_conf()")


@ON_ONE
def test_a_transaction_in_progress_comes_again_behind_a_lost_connection(served: Served) -> None:
    subscribed(served, "streaming = on")
    served.pub("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'")
    served.pub("SELECT pg_reload_conf()")
    with following(served), psycopg.connect(served.conninfo) as one:
        one.execute("INSERT INTO t SELECT g, 'first' FROM generate_series(1, 3000) g")
        streamed = f"SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = '{served.slot}'"
        eventually(lambda: served.pub(streamed) == [("t",)])
        served.pub("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        one.execute("INSERT INTO t SELECT g, 'second' FROM generate_series(3001, 6000) g")
        one.commit()
        eventually_same(served)
        assert served.sub("SELECT count(*) FROM t") == [("6000",)]
    served.pub("ALTER SYSTEM RESET logical_decoding_work_mem")
    served.pub("SELECT pg_reload_conf()")


@ON_ONE
def test_a_large_transaction_in_progress_is_applied_by_columns(served: Served) -> None:
    """Others that commit meanwhile move the origin behind most of its log."""
    subscribed(served, "streaming = on")
    served.pub("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'")
    served.pub("SELECT pg_reload_conf()")
    with following(served), psycopg.connect(served.conninfo) as one:
        one.execute("INSERT INTO t SELECT g, 'first' FROM generate_series(1, 30000) g")
        served.pub("INSERT INTO t VALUES (-1, 'meanwhile')")
        eventually(lambda: served.sub("SELECT count(*) FROM t") == [("1",)])
        one.commit()
        eventually(lambda: served.sub("SELECT count(*) FROM t") == [("30001",)])
    assert served.sub.ways()["apply"] == 1
    served.pub("ALTER SYSTEM RESET logical_decoding_work_mem")
    served.pub("SELECT pg_reload_conf()")


@ON_ONE
def test_a_round_of_its_own_ends_where_the_server_was_when_it_began(served: Served) -> None:
    subscribed(served)
    served.pub("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 100) g")
    began = time.monotonic()
    assert served.catch_up() == []
    assert served.sub(ALL_T) == served.pub(ALL_T)
    assert served.pub("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == [("0",)]
    assert time.monotonic() - began < 20


@ON_ONE
def test_the_stream_goes_on_behind_what_comes_while_a_batch_is_taken(served: Served) -> None:
    """For another stream the server would decode its log again."""
    served.pub(f"{T}; CREATE PUBLICATION p FOR TABLE t")
    with closing(to_server(parse_conninfo(served.conninfo), f"{served.folder}/")) as publisher:
        stream, slot = publisher.stream, served.slot
        start = publisher.slots.create(slot, two_phase=False, failover=False)
        publisher.slots.occupy(slot, WalSender("token", "s", "", options=StreamOptions(("p",), "any")))
        served.pub("INSERT INTO t VALUES (1, 'before')")
        stream.wait(start, 20.0, Event())
        ((written,),) = served.pub("SELECT pg_current_wal_insert_lsn() - '0/0'")
        eventually(lambda: stream.current_lsn() >= int(written or 0))
        reads = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}'"
        end, reader = stream.current_lsn(), served.pub(reads)
        served.pub("INSERT INTO t VALUES (2, 'meanwhile')")
        eventually(lambda: stream.current_lsn() > end)
        taken = len(list(stream.transactions(StreamRequest(slot, ("p",), start, end))))
        assert stream.start(slot, end) == end
        taken += len(list(stream.transactions(StreamRequest(slot, ("p",), end, stream.current_lsn()))))
        assert taken == 2 and served.pub(reads) == reader != [(None,)]


@ON_ONE
def test_a_server_without_any_traffic_is_kept_moving_if_that_is_asked_for(served: Served) -> None:
    subscribed(served)
    served.sub("ALTER SYSTEM SET pgrepl.publisher_heartbeat = 1")
    ((end,),) = served.pub("SELECT pg_current_wal_flush_lsn()")
    with following(served):
        moved = f"SELECT confirmed_flush_lsn > '{end}' FROM pg_replication_slots WHERE slot_name = '{served.slot}'"
        eventually(lambda: served.pub(moved) == [("t",)])


@pytest.mark.parametrize("ahead", [False, True])
def test_transactions_before_an_error_are_applied(served: Served, ahead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading ahead, the server sends nothing of a request in which there is an error."""
    if ahead:
        monkeypatch.setattr(prefetch, "AHEAD", 1)
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t WHERE (10 / a > 0)")
    served.subscribe()
    for number in (1, 0, 2):
        served.pub(f"INSERT INTO t VALUES ({number})")
    for _ in range(2):
        ((message, _, _),) = served.catch_up()
        assert message.startswith("could not receive data from WAL stream: ERROR:  division by zero")
        assert served.sub("SELECT a FROM t") == [("1",)]


@pytest.mark.parametrize("publishing", [16], indirect=True)
def test_an_error_that_comes_together_with_the_start_is_told_at_once(served: Served) -> None:
    """The publication is younger than the change. Servers before 18 say so, and are silent then."""
    served.both(T)
    served.pub(f"SELECT pg_create_logical_replication_slot('{served.slot}', 'pgoutput')")
    served.pub("INSERT INTO t VALUES (1, 'x')")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe_only(options="create_slot = false, copy_data = false")
    served.sub("ALTER SYSTEM SET wal_receiver_timeout = '3s'")
    for _ in range(8):
        ((message, _, _),) = served.catch_up()
        assert 'publication "p" does not exist' in message
        time.sleep(0.05)
