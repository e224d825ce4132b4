"""What sessions do to each other: the same scripts on a real server and on `pgrepl serve` have the same answers."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgrepl
from tests.harness.dose import dose
from tests.harness.extended import play
from tests.harness.played_sessions import played_sessions
from tests.harness.programs import PATIENCE, child_of, cpu_seconds, eventually, started
from tests.harness.serving import Serving, program, serving
from tests.postgres.server import Server, new_server

EXTENDED = sorted((Path(__file__).parent / "extended").glob("*.txt"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served"), "-c", "max_prepared_transactions=5") as found:
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = new_server(16, "max_prepared_transactions = 5\n")
    yield made
    made.stop()


def connected(server: Server, **options: Any) -> psycopg.Connection[Any]:
    given = {"host": server.host, "port": server.port, "user": "postgres", "dbname": "postgres", **options}
    return psycopg.connect(autocommit=True, **given)  # type: ignore[arg-type]


LOCKS = """SELECT classid::bigint, objid::bigint, objsubid, mode, granted, pid FROM pg_locks
 WHERE locktype = 'advisory' ORDER BY 1, 2, 3, 4, 5, 6""".replace("\n", "")

ADVISORY = {
    "counted, of session and transaction": f"""
        a: SELECT pg_advisory_lock(-5), pg_advisory_lock(-5), pg_advisory_lock_shared(1, -2)
        a: BEGIN
        a: SELECT pg_advisory_xact_lock(-5), pg_advisory_xact_lock_shared(7), pg_try_advisory_xact_lock(1, 1)
        b: SELECT pg_try_advisory_lock(-5), pg_try_advisory_lock_shared(7), pg_try_advisory_xact_lock(7)
        b: {LOCKS}
        a: SELECT pg_advisory_unlock(-5), pg_advisory_unlock(-5), pg_advisory_unlock(-5), pg_advisory_unlock(7)
        a: {LOCKS}
        a: COMMIT
        a: {LOCKS}
        a: SELECT pg_advisory_unlock_shared(1, -2), pg_advisory_unlock_shared(1, -2), pg_advisory_unlock_shared(9)
        b: SELECT pg_advisory_unlock_all()
        b: {LOCKS}
    """,
    "of a session outlive errors and rollbacks": f"""
        a: SELECT pg_advisory_lock(1), 1 / (random() * 0)::int
        a: BEGIN
        a: SAVEPOINT s
        a: SELECT pg_advisory_lock(2), pg_advisory_xact_lock(3)
        a: ROLLBACK TO s
        b: {LOCKS}
        a: SELECT pg_advisory_xact_lock(4)
        a: SAVEPOINT t
        a: SELECT pg_advisory_xact_lock(4), pg_advisory_lock(4)
        a: ROLLBACK TO t
        a: ROLLBACK
        b: {LOCKS}
        a: DISCARD ALL
        b: {LOCKS}
        a: SELECT pg_advisory_lock(8)
        a-
        b: SELECT pg_advisory_lock(8), pg_advisory_unlock(8)
    """,
    "waited for": f"""
        a: SELECT pg_advisory_lock(1)
        b& SELECT pg_advisory_lock(1)
        a: {LOCKS}
        a: SELECT pg_try_advisory_lock(1), pg_advisory_unlock(1), pg_advisory_unlock(1)
        b!
        a: SET lock_timeout = 50
        a: SELECT pg_advisory_lock(1)
        a: SET statement_timeout = 50
        a: RESET lock_timeout
        a: SELECT pg_advisory_xact_lock_shared(1)
        a: RESET ALL
        c& SELECT pg_advisory_lock(1)
        a: SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted
        c!
        a: {LOCKS}
    """,
    "deadlock": """
        a: SET deadlock_timeout = '10s'
        a: SELECT pg_advisory_lock(1, 1)
        b: SET deadlock_timeout = '100ms'
        b: SELECT pg_advisory_lock(2)
        a& SELECT pg_advisory_lock(2)
        b: SELECT pg_advisory_lock(1, 1)
        b: SELECT pg_advisory_unlock(2)
        a!
    """,
    "and a prepared transaction": f"""
        a: SELECT pg_advisory_lock(1)
        a: BEGIN
        a: SELECT pg_advisory_xact_lock(1)
        a: PREPARE TRANSACTION 'x'
        a: BEGIN
        a: SELECT pg_advisory_xact_lock(2)
        a: PREPARE TRANSACTION 'x'
        a: {LOCKS}
        b: SELECT pg_try_advisory_lock(1), pg_try_advisory_lock(2)
        a: SELECT pg_advisory_unlock(1)
        a: COMMIT PREPARED 'x'
        b: {LOCKS}
    """,
}
NOTIFICATIONS = {
    "heard at the commit, each once": """
        a: LISTEN c
        a: LISTEN d
        a: SELECT * FROM pg_listening_channels()
        b: BEGIN
        b: NOTIFY c, 'one'
        b: NOTIFY c
        b: NOTIFY c, 'one'
        b: NOTIFY other, 'no'
        b: SAVEPOINT s
        b: NOTIFY d, 'undone'
        b: ROLLBACK TO s
        b: SELECT pg_notify('d', 'two'), pg_notify('c', NULL), pg_notify('d', 'two')
        a?
        b: COMMIT
        a?
        b: BEGIN
        b: NOTIFY c, 'rolled back'
        b: ROLLBACK
        a?
        a: UNLISTEN c
        b: NOTIFY c
        b: NOTIFY d
        a?
        a: NOTIFY d, 'self'
        a?
        a: UNLISTEN *
        a: SELECT * FROM pg_listening_channels()
        b: NOTIFY d
        a?
    """,
    "not heard in a transaction": """
        a: LISTEN c
        a: BEGIN
        b: NOTIFY c, 'x'
        a?
        a: NOTIFY c, 'y'
        a: COMMIT
        a?
        a: BEGIN
        a: LISTEN d
        a: SELECT * FROM pg_listening_channels()
        a: NOTIFY d
        a: COMMIT
        a?
        a: BEGIN
        a: UNLISTEN *
        a: LISTEN e
        a: ROLLBACK
        a: SELECT * FROM pg_listening_channels()
        a: DISCARD ALL
        a: SELECT * FROM pg_listening_channels()
        a: SELECT pg_notification_queue_usage()
    """,
    "refused": """
        a: SELECT pg_notify('', 'x')
        a: SELECT pg_notify(NULL, 'x')
        a: SELECT pg_notify(repeat('x', 64), 'x')
        a: SELECT pg_notify(repeat('é', 31) || 'x', repeat('x', 7999))
        a: SELECT pg_notify('c', repeat('x', 8000))
        a: SELECT pg_notify('c', repeat('é', 4000))
        a: BEGIN
        a: NOTIFY c
        a: PREPARE TRANSACTION 'x'
        a: BEGIN
        a: LISTEN c
        a: PREPARE TRANSACTION 'x'
        a: NOTIFY
        a: NOTIFY c, NULL
        a: LISTEN *
        a: BEGIN READ ONLY
        a: NOTIFY c
        a: COMMIT
    """,
}
SNAPSHOTS = {
    "imported": """
        a: CREATE TABLE shot (a int, b text)
        a: INSERT INTO shot VALUES (1, 'x')
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT pg_export_snapshot()
        b: INSERT INTO shot VALUES (2, 'y')
        b: UPDATE shot SET b = 'z' WHERE a = 1
        c: BEGIN ISOLATION LEVEL REPEATABLE READ
        c= SET TRANSACTION SNAPSHOT '{}'
        c: SELECT * FROM shot ORDER BY a
        c: COMMIT
        b: ALTER TABLE shot ADD c int DEFAULT 7
        b: CREATE TABLE shot2 (a int)
        d: BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY
        d= SET TRANSACTION SNAPSHOT '{}'
        d: SELECT a, b FROM shot WHERE false
        d: SET TRANSACTION ISOLATION LEVEL READ COMMITTED
        d: COMMIT
        d: SELECT * FROM shot ORDER BY a
        a: INSERT INTO shot VALUES (3)
        a: SELECT pg_export_snapshot()
        d: BEGIN ISOLATION LEVEL SERIALIZABLE
        d= SET TRANSACTION SNAPSHOT '{}'
        d: ROLLBACK
        d: BEGIN ISOLATION LEVEL REPEATABLE READ
        d= SET TRANSACTION SNAPSHOT '{}'
        d: SELECT a, b FROM shot ORDER BY a
        d: COMMIT
        a: PREPARE TRANSACTION 'x'
        a: DROP TABLE shot, shot2
    """,
    "refused": """
        a: BEGIN
        a: SAVEPOINT s
        a: SELECT pg_export_snapshot()
        a: ROLLBACK
        a: BEGIN
        a: SELECT pg_export_snapshot()
        b: SET TRANSACTION SNAPSHOT 'x'
        b: BEGIN
        b= SET TRANSACTION SNAPSHOT '{}'
        b: ROLLBACK
        b: BEGIN ISOLATION LEVEL REPEATABLE READ
        b: SELECT 1
        b= SET TRANSACTION SNAPSHOT '{}'
        b: ROLLBACK
        b: BEGIN ISOLATION LEVEL REPEATABLE READ
        b: SET TRANSACTION SNAPSHOT 'hello'
        b: ROLLBACK
        a: COMMIT
    """,
}
FAMILIES = {"advisory locks": ADVISORY, "notifications": NOTIFICATIONS, "snapshots": SNAPSHOTS}
SCRIPTS = {f"{family} {name}": script for family, scripts in FAMILIES.items() for name, script in scripts.items()}


@pytest.mark.parametrize("script", dose(SCRIPTS.values(), 4), ids=SCRIPTS)
def test_sessions_together(served: Serving, server: Server, script: str) -> None:
    with played_sessions(lambda: connected(server)) as theirs, played_sessions(served.connect) as ours:
        assert ours.play(script) == theirs.play(script)


def test_an_idle_session_hears_at_once_and_computes_nothing_while_it_waits(served: Serving) -> None:
    """Of a session of the server, of a shell's process, and of this process."""
    with served.connect() as idle, served.connect() as other:
        idle.execute("LISTEN c")
        pid = child_of(idle.info.backend_pid)
        waits: list[float] = []
        for _ in range(5):
            before = time.monotonic()
            other.execute("NOTIFY c, 'x'")
            (heard,) = idle.notifies(timeout=PATIENCE, stop_after=1)
            waits.append(time.monotonic() - before)
            assert (heard.channel, heard.payload, heard.pid) == ("c", "x", other.info.backend_pid)
        assert min(waits) < 0.1
        ask(served.folder, "NOTIFY c, 'of a shell'")
        assert [each.payload for each in idle.notifies(timeout=PATIENCE, stop_after=1)] == ["of a shell"]
        computed = cpu_seconds(pid)
        with pgrepl.connect(served.folder / "catalog.db", autocommit=True) as here:
            here.execute("LISTEN d")
            other.execute("SELECT pg_notify('d', n::text) FROM generate_series(1, 3) n")
            assert [each.payload for each in here.notifies(timeout=PATIENCE, stop_after=3)] == ["1", "2", "3"]
            heard_by_handler: list[str] = []
            here.add_notify_handler(lambda each: heard_by_handler.append(each.payload))
            here.execute("NOTIFY d, 'self'")
            assert (heard_by_handler, list(here.notifies(timeout=0))) == (["self"], [])
        assert list(idle.notifies(timeout=2)) == []
        assert cpu_seconds(pid) - computed < 0.2


def test_a_session_is_seen_as_soon_as_it_is_ready(served: Serving) -> None:
    with served.connect() as watcher:
        seen = "SELECT state, wait_event_type, wait_event FROM pg_stat_activity WHERE pid = %s"
        for _ in range(5):
            with served.connect() as other:
                pid = other.info.backend_pid
                assert watcher.execute(seen, (pid,)).fetchall() == [("idle", "Client", "ClientRead")]
        with served.connect() as holder, served.connect() as other:
            holder.execute("SELECT pg_advisory_lock(91)")
            other.pgconn.send_query(b"SELECT pg_advisory_lock(91)")
            waits = [("active", "Lock", "advisory")]
            eventually(lambda: watcher.execute(seen, (other.info.backend_pid,)).fetchall() == waits)
            holder.execute("SELECT pg_advisory_unlock(91)")
            while other.pgconn.get_result():
                pass


def test_a_new_slot_exports_its_snapshot_until_the_next_command(served: Serving) -> None:
    with served.connect() as con, served.connect(replication="database") as sender:
        con.execute("CREATE TABLE exported (a int)")
        con.execute("INSERT INTO exported VALUES (1)")
        create = "CREATE_REPLICATION_SLOT \"x\" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')"
        name = sender.execute(create).fetchall()[0][2]
        con.execute("INSERT INTO exported VALUES (2)")
        con.execute("ALTER TABLE exported ADD b int")
        con.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        con.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        assert con.execute("TABLE exported").fetchall() == [(1,)]
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="has exported before the last commit"):
            con.execute("INSERT INTO exported VALUES (3)")
        con.execute("ROLLBACK")
        assert con.execute("SELECT * FROM exported ORDER BY a").fetchall() == [(1, None), (2, None)]
        sender.execute("IDENTIFY_SYSTEM")
        con.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        with pytest.raises(psycopg.errors.UndefinedObject):
            con.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        con.execute("ROLLBACK")


CHANGES = ["INSERT INTO t VALUES (5)", "UPDATE t SET a = 2", "SELECT * FROM t FOR UPDATE", "TRUNCATE t", "LOCK t"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_was_dropped_since_the_snapshot_is_read_and_not_changed(served: Serving, change: str) -> None:
    with served.connect() as con, served.connect() as other:
        con.execute("DROP TABLE IF EXISTS t")
        con.execute("CREATE TABLE t (a int PRIMARY KEY)")
        con.execute("INSERT INTO t VALUES (1)")
        con.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert con.execute("SELECT count(*) FROM pg_publication").fetchone() is not None
        for text in ("DROP TABLE t", "CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (7)"):
            other.execute(text.encode())
        assert con.execute("TABLE t").fetchall() == [(1,)]
        with pytest.raises(psycopg.errors.SerializationFailure):
            con.execute(change.encode())
        con.execute("ROLLBACK")
        assert con.execute("TABLE t").fetchall() == [(7,)]


ENCODINGS = [("LATIN1", "é"), ("WIN1252", "€"), ("EUC_JP", "日本"), ("SJIS", "日本")]


@pytest.mark.parametrize(("encoding", "text"), ENCODINGS)
def test_texts_are_in_the_clients_encoding(served: Serving, server: Server, encoding: str, text: str) -> None:
    """Parameters and results, in both formats."""

    def answers(con: psycopg.Connection[Any]) -> list[Any]:
        found: list[Any] = []
        for binary in (False, True):
            cursor = con.cursor(binary=binary)
            found += cursor.execute("SELECT %s::text, length(%s::text)", [text, text]).fetchall()
            with pytest.raises(psycopg.errors.UntranslatableCharacter) as failed:
                cursor.execute("SELECT chr(9731)")
            found.append(failed.value.diag.message_primary)
        return found

    with connected(server, client_encoding=encoding) as theirs, served.connect(client_encoding=encoding) as ours:
        assert answers(ours) == answers(theirs)


def test_a_killed_holder_loses_its_locks_and_no_longer_holds_the_queue_back(served: Serving) -> None:
    with served.connect() as other:
        with started("-c", "LISTEN c", "-c", "SELECT pg_advisory_lock(1), pg_sleep(600)", cwd=served.folder) as shell:
            asked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s"
            eventually(lambda: other.execute(asked, [shell.pid]).fetchall() == [(1,)])
            assert other.execute("SELECT pg_try_advisory_lock(1)").fetchall() == [(False,)]
            shell.kill()
            shell.wait()
            assert other.execute("SELECT pg_advisory_lock(1)").fetchall() == [("",)]
        other.execute("LISTEN c")
        other.execute("SELECT pg_notify('c', n || repeat('x', 7000)) FROM generate_series(1, 10) n")
        other.execute("NOTIFY c")
        assert other.execute("SELECT pg_notification_queue_usage()").fetchall() == [(0.0,)]


@pytest.mark.parametrize("version", [16, 18])
def test_psql_prints_notifications(served: Serving, version: int) -> None:
    script = "LISTEN c; NOTIFY c, 'it''s'; NOTIFY c; SELECT pg_backend_pid()"
    command = [
        program("psql", version),
        "-X",
        "-q",
        "-At",
        "-h",
        served.folder,
        "-p",
        str(served.port),
        "-U",
        "postgres",
    ]
    theirs = subprocess.run([*command], input=script.replace(";", ";\n"), capture_output=True, text=True, check=True)
    *lines, pid = theirs.stdout.splitlines()
    ours = ask(served.folder, *script.split(";"))
    assert [line.replace(pid, "PID") for line in lines] == [
        line.replace(ours[-1], "PID") for line in ours[:-1] if line.startswith("Asynchronous")
    ]


def ask(folder: Path, *queries: str) -> list[str]:
    """What a shell prints in a process of its own."""
    with started("-X", "-q", "-At", *(word for each in queries for word in ("-c", each)), cwd=folder) as process:
        out, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    return out.splitlines()


@pytest.fixture(scope="module")
def wide(served: Serving) -> str:
    """A table whose rows do not fit into what is on the way to a client."""
    served.ask("CREATE TABLE wide AS SELECT repeat('x', 1000) AS s FROM generate_series(1, 5000)")
    return "wide"


def end_of(client: psycopg.Connection[Any]) -> str:
    """What the running statement says at its end."""
    said = ""
    while (result := client.pgconn.get_result()) is not None:
        said = result.error_message.decode()
    return said


CANCELLED = "ERROR:  canceling statement due to user request\n"


def test_a_statement_is_cancelled_while_its_rows_are_sent(served: Serving, wide: str) -> None:
    with served.connect() as client:
        client.pgconn.send_query(f"SELECT s FROM {wide}; SELECT 1".encode())
        client.pgconn.set_single_row_mode()
        assert client.pgconn.get_result() is not None
        client.cancel()
        assert end_of(client) == CANCELLED
        assert client.execute("SELECT 1").fetchall() == [(1,)]


def test_a_cancelled_statement_leaves_the_next_one_alone(served: Serving, wide: str) -> None:
    """Whoever swallows the error gets it again after a second."""
    with served.connect() as client:
        client.pgconn.send_query(f"SELECT s FROM {wide} WHERE md5(repeat(s, 2000)) = 'x'".encode())
        client.pgconn.flush()
        pid = child_of(client.info.backend_pid)
        begun = cpu_seconds(pid)
        eventually(lambda: cpu_seconds(pid) > begun + 0.2)
        client.cancel()
        assert end_of(client) == CANCELLED
        assert client.execute("SELECT count(*) FROM pg_sleep(1.1)").fetchall() == [(1,)]


def test_a_cancel_that_comes_late_leaves_the_next_statement_alone(served: Serving) -> None:
    """It has been sent to the session before the connection that asked for it is closed (ProcessCancelRequest)."""
    with served.connect() as client:
        for _ in range(100):
            client.pgconn.send_query(b"SELECT 1")
            client.pgconn.flush()
            client.cancel()
            assert end_of(client) in ("", CANCELLED)
            assert client.execute("SELECT 2").fetchall() == [(2,)]


@pytest.mark.parametrize("asks", ["simple", "extended"])
def test_a_first_statement_is_cancelled_whatever_it_is_doing(served: Serving, asks: str) -> None:
    """A fresh session imports what it needs, where no error may be raised; the transaction is aborted behind it."""
    found = []
    for milliseconds in range(10):
        with served.connect() as client:
            client.execute("BEGIN")
            if asks == "simple":
                client.pgconn.send_query(b"SELECT pg_sleep(2)")
            else:
                client.pgconn.send_query_params(b"SELECT pg_sleep($1)", [b"2"])
            client.pgconn.flush()
            time.sleep(milliseconds / 1000)
            client.cancel()
            said = end_of(client)
            behind = client.pgconn.exec_(b"SELECT 1").error_field(psycopg.pq.DiagnosticField.SQLSTATE)
            found.append((said, behind))
    assert found == [(CANCELLED, b"25P02")] * 10


@pytest.mark.parametrize("script", EXTENDED, ids=lambda path: path.stem)
def test_prepared_statements_answer_as_those_of_a_server(served: Serving, server: Server, script: Path) -> None:
    answers = []
    for connect in (partial(connected, server), served.connect):
        with connect() as con:
            con.execute("CREATE DATABASE extended")
        with connect(dbname="extended") as con:
            answers.append(play(con, script.read_text()))
        with connect() as con:
            con.execute("DROP DATABASE extended")
    assert answers[1] == answers[0]
