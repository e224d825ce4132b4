"""Sessions that have been idle for a while: their process ends, and the client does not notice."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgrepl.server.connection_process import ConnectionProcess, SessionProcess
from tests.harness.programs import eventually
from tests.harness.serving import Serving, serving

Client = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served"), "-c", "pgrepl.idle_session_release=20") as found:
        found.ask("CREATE TABLE t (id serial PRIMARY KEY, a text)")
        yield found


def processes(client: Client) -> list[int]:
    """The session's process, if it is not released."""
    pid = client.info.backend_pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def await_release(*clients: Client) -> None:
    for each in clients:
        eventually(lambda each=each: not processes(each))


def ask(client: Client, query: str, *parameters: object, **options: Any) -> list[Any]:
    return client.execute(query, parameters or None, **options).fetchall()


def test_a_session_is_the_same_after_a_release(served: Serving) -> None:
    with served.connect(application_name="released") as client, served.connect() as other:
        client.execute("SET datestyle = 'German'; SET search_path = pg_catalog, public; SET my.own = 'x'")
        client.execute("PREPARE one (int) AS SELECT $1 + 1")
        client.execute("INSERT INTO t (a) VALUES ('x')")
        mine = ask(client, "SELECT %s::text || a FROM t LIMIT 1", "y", prepare=True)
        query = "SELECT pid, application_name, state, query, backend_start FROM pg_stat_activity WHERE pid = %s"
        shown = ask(other, query, client.info.backend_pid)
        assert shown[0][1:3] == ("released", "idle")
        await_release(client)
        assert ask(other, query, client.info.backend_pid) == shown
        assert ask(client, "SELECT %s::text || a FROM t LIMIT 1", "y", prepare=True) == mine
        assert ask(client, "SELECT current_setting('datestyle'), current_setting('my.own'), currval('t_id_seq')") == [
            ("German, DMY", "x", 1)
        ]
        await_release(client)
        assert ask(client, "EXECUTE one (4)") == [(5,)]
        assert ask(client, "SELECT lastval(), pg_backend_pid() = %s", client.info.backend_pid) == [(1, True)]
        assert ask(client, "SELECT name, parameter_types::text FROM pg_prepared_statements WHERE from_sql") == [
            ("one", "{integer}")
        ]
        client.execute("RESET ALL")
        assert ask(client, "SHOW datestyle") == [("ISO, MDY",)]


def test_locks_of_a_transaction_belong_to_the_known_process(served: Serving) -> None:
    with served.connect() as client, served.connect() as other:
        await_release(client)
        client.execute("BEGIN; LOCK TABLE t")
        assert ask(other, "SELECT DISTINCT pid FROM pg_locks WHERE relation = 't'::regclass") == [
            (client.info.backend_pid,)
        ]
        other.execute("SET lock_timeout = 50")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("BEGIN; LOCK TABLE t")
        other.execute("ROLLBACK")
        client.execute("COMMIT")
        await_release(client, other)
        other.execute("BEGIN; LOCK TABLE t; COMMIT")


KEEPING = {
    "a transaction": ("BEGIN; SET LOCAL my.own = 'x'", "SHOW my.own"),
    "a temporary table": ("CREATE TEMP TABLE mine AS SELECT 'x' AS a", "SELECT a FROM mine"),
    "a cursor": ("DECLARE c CURSOR WITH HOLD FOR SELECT 'x'", "FETCH c"),
    "a lock": ("SELECT pg_advisory_lock(3)", "SELECT left('x', pg_advisory_unlock(3)::int)"),
    "a seed": ("SELECT setseed(0.5)", "SELECT 'x'"),
    "a timeout": ("SET idle_session_timeout = '1h'", "SELECT 'x'"),
    "no wish to": ("SET pgrepl.idle_session_release = 0", "SELECT 'x'"),
}


def test_a_session_with_what_only_a_process_has_is_not_released(served: Serving) -> None:
    clients = [served.connect() for _ in KEEPING]
    with served.connect() as idle:
        for client, (make, _) in zip(clients, KEEPING.values(), strict=True):
            client.execute(make)
        before = [processes(each) for each in clients]
        for _ in range(3):  # others have had the time to, however long that is on this machine
            ask(idle, "SELECT 1")
            await_release(idle)
        assert [processes(each) for each in clients] == before
        assert all(before)
        assert [ask(client, look) for client, (_, look) in zip(clients, KEEPING.values(), strict=True)] == [
            [("x",)] for _ in KEEPING
        ]
    for client in clients:
        client.close()


def test_a_listener_hears_at_once(served: Serving) -> None:
    with served.connect() as listener, served.connect() as other:
        listener.execute("LISTEN c")
        await_release(other)
        other.execute("NOTIFY c, 'x'")
        assert [each.payload for each in listener.notifies(timeout=20, stop_after=1)] == ["x"]
        listener.execute("UNLISTEN *")
        await_release(listener)


def test_cancelled_after_a_release(served: Serving) -> None:
    with served.connect() as client, served.connect() as other:
        await_release(client)
        client.cancel()  # there is nothing to cancel
        assert ask(client, "SELECT 1") == [(1,)]
        await_release(client)
        client.pgconn.send_query(b"SELECT pg_sleep(60)")
        running = "SELECT count(*)::int FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
        eventually(lambda: ask(other, running, client.info.backend_pid) == [(1,)])
        client.cancel()
        result = client.pgconn.get_result()
        assert result is not None and b"canceling statement due to user request" in result.error_message
        assert client.pgconn.get_result() is None


def test_settings_of_the_server_are_read_again(served: Serving) -> None:
    with served.connect() as client, served.connect() as other:
        await_release(client)
        other.execute("ALTER SYSTEM SET extra_float_digits = 0")
        other.execute("SELECT pg_reload_conf()")
        eventually(lambda: ask(client, "SHOW extra_float_digits") == [("0",)])
        other.execute("ALTER SYSTEM RESET ALL")
        other.execute("SELECT pg_reload_conf()")


def test_the_end_of_a_released_session(served: Serving) -> None:
    with served.connect() as other:
        leaving, told, killed, lost = (served.connect() for _ in range(4))
        pids = [each.info.backend_pid for each in (leaving, told, killed, lost)]
        await_release(leaving, told, killed, lost)
        leaving.close()
        assert ask(other, "SELECT pg_terminate_backend(%s, 20000)", pids[1]) == [(True,)]
        with pytest.raises(psycopg.errors.AdminShutdown):
            told.execute("SELECT 1")
        os.kill(pids[2], signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            killed.execute("SELECT 1")
        os.close(lost.pgconn.socket)
        present = "SELECT count(*)::int FROM pg_stat_activity WHERE pid = ANY(%s)"
        eventually(lambda: ask(other, present, pids) == [(0,)])
        assert f"server process (PID {pids[2]}) was terminated by signal 9" in served.log


@pytest.mark.slow
def test_the_session_ends_with_the_process_of_its_connection_and_the_other_way_round(served: Serving) -> None:
    first, second = served.connect(), served.connect()
    for client in (first, second):
        client.execute("BEGIN")
    pids = [each.info.backend_pid for each in (first, second)]
    (worker,), (other_worker,) = processes(first), processes(second)
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(psycopg.OperationalError):
        first.execute("SELECT 1")
    told = f"server process (PID {pids[0]}) was terminated by signal 9"
    eventually(lambda: told in served.log)
    os.kill(pids[1], signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{other_worker}").exists())
    for client in (first, second):
        client.close()


@pytest.mark.slow
def test_the_server_ends_with_released_sessions(tmp_path: Path) -> None:
    with serving(tmp_path, "-c", "pgrepl.idle_session_release=20") as served:
        client, idle = served.connect(), served.connect()
        client.execute("SET pgrepl.idle_session_release = 0")
        await_release(idle)
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(60) == 0
        for each in (client, idle):
            with pytest.raises(psycopg.errors.AdminShutdown):
                each.execute("SELECT 1")


def test_sighup_that_a_leaving_process_gets_is_for_the_next_one() -> None:
    ours, theirs = socket.socketpair()

    def serve(process: SessionProcess) -> None:
        if process.state:
            theirs.sendall(b"read again" if process.reloads else b"as they were")
        else:
            os.kill(process.pid, signal.SIGHUP)
            process.leave(b"the session")

    pid = os.fork()
    if not pid:
        try:
            ConnectionProcess(lambda: theirs, serve, lambda: None).run()
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        ours.sendall(b"a message")
        assert ours.recv(100) == b"read again"
    os.waitpid(pid, 0)
