"""One Spark for all sessions of a server: it starts once, nobody ends another's jobs, and it ends with the server."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psycopg
import pytest

from tests.harness.forked import pgrepl
from tests.harness.programs import cpu_seconds, eventually
from tests.harness.serving import Serving, serving
from tests.postgres.server import free_port
from tests.server.test_page import basic

Client = psycopg.Connection[Any]

LONG = b"SELECT count(*) FROM generate_series(1, 9999999999) g WHERE md5(g::text) = 'x'"
SHORT = "SELECT count(*), sum(a) FROM t"
OPTIONS = ("--master", "local[2]", "--conf", "spark.default.parallelism=1")  # of two cores LONG takes one
WATCHED = ("--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={free_port()}")
HTTP = free_port()

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served"), *OPTIONS, *WATCHED, "--http", str(HTTP)) as found:
        found.ask("CREATE TABLE t AS SELECT generate_series(1, 2000) AS a")
        yield found


def by_spark(served: Serving, release: int = 0) -> closing[Client]:
    return closing(served.connect(options=f"-c pgrepl.engine=spark -c pgrepl.idle_session_release={release}"))


def worker_of(client: Client) -> list[int]:
    """The session's process, if it is not at rest."""
    pid = client.info.backend_pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def answers(client: Client) -> bool:
    return client.execute(SHORT).fetchall() == [(2000, 2001000)]


def jvms(served: Serving) -> list[int]:
    """The groups of processes that have been started, one for each JVM."""
    return [int(pid) for pid in re.findall(r"started Spark \(PID (\d+)\)", served.log)]


def wait_for_end(jvm: int) -> None:
    def is_gone() -> bool:
        try:
            os.killpg(jvm, 0)
        except ProcessLookupError:
            return True
        return False

    eventually(is_gone)


def computes(jvm: int, seconds: float = 0.3) -> bool:
    """Does a JVM compute, more than a JVM without jobs?"""
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _group_of(each) == jvm]
    before = sum(cpu_seconds(pid) for pid in pids)
    time.sleep(seconds)
    return sum(cpu_seconds(pid) for pid in pids) - before > seconds / 5


def _group_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[2])
    except OSError:
        return 0


def begin(client: Client, jvm: int) -> None:
    """Begin a job that does not end by itself."""
    eventually(lambda: not computes(jvm))
    client.pgconn.send_query(LONG)
    client.pgconn.flush()
    eventually(lambda: computes(jvm))


def is_busy(client: Client) -> bool:
    client.pgconn.consume_input()
    return bool(client.pgconn.is_busy())


def failure(client: Client) -> tuple[str, str]:
    """SQLSTATE and message of the statement that runs."""
    result = client.pgconn.get_result()
    assert result is not None
    sqlstate = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b""
    message = result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b""
    while client.pgconn.get_result() is not None:
        pass
    return sqlstate.decode(), message.decode()


CANCELLED = ("57014", "canceling statement due to user request")
LOST = ("58000", "Spark ended unexpectedly while the statement ran")


def test_sessions_share_one_spark_and_nobody_ends_the_jobs_of_another(served: Serving) -> None:
    assert jvms(served) == []
    with by_spark(served) as one, by_spark(served) as two:
        assert answers(one)
        (jvm,) = jvms(served)
        begin(one, jvm)
        assert answers(two)
        assert is_busy(one)
        two.pgconn.send_query(LONG)
        two.pgconn.flush()
        one.cancel()
        assert failure(one) == CANCELLED
        assert answers(one)
        assert is_busy(two)
        os.kill(*worker_of(two), signal.SIGKILL)
        eventually(lambda: not computes(jvm))
        assert answers(one)
    with by_spark(served, release=20) as resting:
        assert answers(resting)
        eventually(lambda: not worker_of(resting))
        assert answers(resting)
    assert jvms(served) == [jvm]


def test_the_page_shows_running_jobs_and_the_way_to_sparks_ui(served: Serving) -> None:
    def page() -> str:
        asked = Request(f"http://127.0.0.1:{HTTP}/", headers={"Authorization": basic("postgres", "")})
        return str(urlopen(asked).read().decode())

    with by_spark(served) as client:
        assert answers(client)
        eventually(lambda: "No job runs." in page())
        begin(client, jvms(served)[-1])
        eventually(lambda: "Running jobs of Spark" in page())
        shown = page()
        done = pgrepl("status", "--html", "page.html", cwd=served.folder)
        assert done.returncode == 0, done.stderr
        assert "Running jobs of Spark" in (served.folder / "page.html").read_text()
        client.cancel()
        assert failure(client) == CANCELLED
    assert "0 of 1" in shown
    assert "spark.ui.enabled" not in shown
    address = re.findall(r'<a href="(http://127\.0\.0\.1:\d+)" rel="noreferrer">', shown)
    assert "Spark Jobs" in urlopen(f"{address[0]}/jobs/").read().decode()


@pytest.mark.slow
def test_a_spark_that_cannot_start_is_an_error_of_each_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with serving(tmp_path / "served") as served:
        served.ask("CREATE TABLE t AS SELECT generate_series(1, 2000) AS a")
        with by_spark(served) as client:
            for _ in range(2):
                with pytest.raises(psycopg.Error) as caught:
                    client.execute(SHORT)
                assert caught.value.sqlstate == "58000"
                assert f'JAVA_HOME is "{tmp_path}", and no Java is there' in str(caught.value)
            client.execute("SET pgrepl.engine = local")
            assert answers(client)


@pytest.mark.slow
def test_a_killed_jvm_is_an_error_of_who_uses_it_and_then_another_one(served: Serving) -> None:
    with by_spark(served) as one, by_spark(served) as two:
        assert answers(one) and answers(two)
        *_, jvm = jvms(served)
        begin(one, jvm)
        os.killpg(jvm, signal.SIGKILL)
        assert failure(one) == LOST
        assert answers(two)
        assert answers(one)
        *_, second = jvms(served)
        assert f"Spark (PID {jvm}) was terminated by signal 9: Killed" in served.log
        begin(two, second)
        host = served.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgrepl spark'")[0][0]
        os.kill(host, signal.SIGKILL)
        assert failure(two) == LOST
        wait_for_end(second)
        assert answers(two)
        assert answers(one)
        assert len(jvms(served)) == len({*jvms(served)})


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_no_jvm_is_left_when_the_server_is_stopped(number: signal.Signals, tmp_path: Path) -> None:
    with serving(tmp_path, *OPTIONS) as served:
        served.ask("CREATE TABLE t AS SELECT generate_series(1, 2000) AS a")
        with by_spark(served) as client:
            assert answers(client)
            (jvm,) = jvms(served)
            if number != signal.SIGTERM:  # which waits until it has left
                begin(client, jvm)
                assert served.end(number) == 0
        assert served.end(number) == 0
        wait_for_end(jvm)


@pytest.mark.slow
def test_no_jvm_is_left_of_a_server_that_is_killed(served: Serving) -> None:
    with by_spark(served) as client:
        assert answers(client)
        *_, jvm = jvms(served)
        served.process.kill()
        served.process.wait()
        wait_for_end(jvm)
