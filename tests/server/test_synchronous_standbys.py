"""synchronous_standby_names of a lake: commits wait for its subscribers, in the words of a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.harness.programs import PATIENCE, eventually
from tests.harness.serving import Serving, serving
from tests.postgres.server import Server, new_server

Connect = Callable[[], Any]
T = "CREATE TABLE t (a int PRIMARY KEY)"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("lake")) as found:
        found.ask(T)
        found.ask("CREATE PUBLICATION p FOR TABLE t")
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = new_server(16, "max_logical_replication_workers = 8\nmax_worker_processes = 16\nsynchronous_commit = on\n")
    yield found
    found.stop()


def connecting(server: Server) -> Connect:
    return lambda: psycopg.connect(f"host={server.host} port={server.port} user=postgres", autocommit=True)


@contextmanager
def named(connect: Connect, names: str) -> Iterator[Any]:
    """A connection, while these standbys are synchronous."""
    with connect() as link:
        link.execute("SET synchronous_commit = local")
        link.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        link.execute("SELECT pg_reload_conf()")
        with connect() as other:
            eventually(lambda: other.execute("SHOW synchronous_standby_names").fetchone() == (names,))
        try:
            yield link
        finally:
            link.execute("ALTER SYSTEM RESET synchronous_standby_names")
            link.execute("SELECT pg_reload_conf()")


@contextmanager
def writing(connect: Connect, statement: str) -> Iterator[tuple[Any, Future[Any], list[tuple[str | None, ...]]]]:
    """A connection that runs a statement, and the notices that come."""
    heard: list[tuple[str | None, ...]] = []
    with connect() as link, ThreadPoolExecutor(1) as pool:
        link.add_notice_handler(
            lambda d: heard.append((d.severity, d.sqlstate, d.message_primary, d.message_detail, d.message_hint))
        )
        link.execute("SET synchronous_commit = on")
        yield link, pool.submit(link.execute, statement), heard


def waits(by: Any, link: Any) -> Callable[[], bool]:
    shown = "SELECT state, wait_event_type, wait_event FROM pg_stat_activity WHERE pid = %s"
    return lambda: by.execute(shown, (link.info.backend_pid,)).fetchone() == ("active", "IPC", "SyncRep")


def ended(connect: Connect, number: int, how: str) -> list[Any]:
    """What a session is told whose wait for a standby that is not there is ended."""
    with named(connect, "nowhere") as by, writing(connect, f"INSERT INTO t VALUES ({number})") as (link, done, heard):
        eventually(waits(by, link))
        by.execute(f"SELECT {how}({link.info.backend_pid})")
        try:
            told = [done.result(PATIENCE).statusmessage, link.execute("SELECT 1").fetchall()]
        except psycopg.Error as error:
            told = [type(error).__name__]
        return [*heard, *told, by.execute("SELECT a FROM t WHERE a = %s", (number,)).fetchall()]


def test_a_wait_is_canceled_in_the_words_of_a_server(served: Serving, server: Server) -> None:
    with connecting(server)() as link:
        link.execute(T)
    for number, how in enumerate(("pg_cancel_backend", "pg_terminate_backend"), 100):
        there, here = ended(connecting(server), number, how), ended(served.connect, number, how)
        assert here[0] == there[0] and here[-1] == there[-1] == [(number,)]
        if how == "pg_cancel_backend":
            assert here == there
            assert here[0][2] == "canceling wait for synchronous replication due to user request"


def outwaited(connect: Connect, number: int) -> list[Any]:
    """What a session with a short statement_timeout is told whose wait is ended by ALTER SYSTEM, and then."""
    passed = "SELECT clock_timestamp() - query_start > '1200ms' FROM pg_stat_activity WHERE pid = %s"
    insert = f"INSERT INTO t VALUES ({number})"
    with named(connect, "nowhere") as by, connect() as link, ThreadPoolExecutor(1) as pool:
        link.execute("SET statement_timeout = '1s'")
        done = pool.submit(link.execute, insert)
        eventually(waits(by, link))
        eventually(lambda: by.execute(passed, (link.info.backend_pid,)).fetchone() == (True,))
        assert waits(by, link)()
        by.execute("ALTER SYSTEM RESET synchronous_standby_names")
        by.execute("SELECT pg_reload_conf()")
        return [done.result(PATIENCE).statusmessage, link.execute("SELECT 1").fetchall()]


def test_no_timeout_ends_a_wait(served: Serving, server: Server) -> None:
    with connecting(server)() as link:
        link.execute(f"DROP TABLE IF EXISTS t; {T}")
    assert outwaited(served.connect, 500) == outwaited(connecting(server), 500) == ["INSERT 0 1", [(1,)]]


def test_levels_that_wait_for_no_standby(served: Serving) -> None:
    with named(served.connect, "nowhere"), served.connect() as link:
        for number, level in enumerate(("off", "local"), 200):
            link.execute(f"SET synchronous_commit = {level}")
            link.execute(f"INSERT INTO t VALUES ({number})")
        link.execute("SET synchronous_commit = on")
        link.execute("SELECT count(*) FROM t")  # what changes nothing does not wait either
        link.execute("BEGIN; SELECT 1; COMMIT; SET work_mem = '5MB'")
        link.execute("BEGIN; SET LOCAL synchronous_commit = local; INSERT INTO t VALUES (202); COMMIT")


def test_alter_system_ends_a_wait(served: Serving) -> None:
    with (
        named(served.connect, "nowhere") as by,
        writing(served.connect, "INSERT INTO t VALUES (300)") as (link, done, _),
    ):
        eventually(waits(by, link))
        by.execute("ALTER SYSTEM RESET synchronous_standby_names")
        by.execute("SELECT pg_reload_conf()")
        assert done.result(PATIENCE).statusmessage == "INSERT 0 1"
        eventually(lambda: not waits(by, link)())


def test_commits_wait_for_a_server_that_subscribes(served: Serving, server: Server) -> None:
    states = "SELECT application_name, sync_state, sync_priority FROM pg_stat_replication ORDER BY 1"
    where = f"host=127.0.0.1 port={served.port} user=postgres dbname=postgres"
    with connecting(server)() as there, named(served.connect, "FIRST 1 (other, stand_by)") as by:
        there.execute("DROP TABLE IF EXISTS t")
        there.execute(T)
        there.execute(f"CREATE SUBSCRIPTION stand_by CONNECTION '{where}' PUBLICATION p WITH (copy_data = false)")
        try:
            eventually(lambda: by.execute(states).fetchall() == [("stand_by", "sync", 2)])
            with served.connect() as link:
                for number, level in enumerate(("remote_write", "on", "remote_apply"), 400):
                    link.execute(f"SET synchronous_commit = {level}")
                    link.execute(f"INSERT INTO t VALUES ({number})")
                    if level != "remote_write":
                        assert there.execute("SELECT a FROM t WHERE a = %s", (number,)).fetchall() == [(number,)]
                link.execute("CREATE TABLE unpublished (a int)")  # its commit is waited for, too
                with link.transaction():
                    link.execute("INSERT INTO unpublished VALUES (1)")
            there.execute("ALTER SUBSCRIPTION stand_by DISABLE")
            eventually(lambda: by.execute(states).fetchall() == [])
            with writing(served.connect, "INSERT INTO t VALUES (410)") as (link, done, heard):
                eventually(waits(by, link))
                assert not done.done()
                there.execute("ALTER SUBSCRIPTION stand_by ENABLE")
                assert done.result(PATIENCE).statusmessage == "INSERT 0 1"
                assert heard == []
            assert there.execute("SELECT a FROM t WHERE a = 410").fetchall() == [(410,)]
        finally:
            there.execute("DROP SUBSCRIPTION stand_by")
