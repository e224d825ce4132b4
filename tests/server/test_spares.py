"""A backend is forked before its client comes, and is like any other then."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.harness.programs import eventually
from tests.harness.serving import Serving, serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux is one forked ahead")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("spares")) as found:
        yield found


def spare(served: Serving) -> int:
    """The process that waits for a client: the last child of the postmaster, which has a child of its own."""
    pid = served.process.pid

    def children(of: int) -> list[int]:
        return [int(each) for each in Path(f"/proc/{of}/task/{of}/children").read_text().split()]

    def found() -> int:
        with served.connect() as con:  # there is another one behind it
            con.execute("SELECT 1")
        last = max(children(pid))
        return last if children(last) else 0

    eventually(found)
    return max(children(pid))


def test_the_next_client_is_the_spares(served: Serving) -> None:
    waiting = spare(served)
    with served.connect() as con:
        assert con.execute("SELECT pg_backend_pid()").fetchone() == (waiting,)
        with served.connect() as other:
            there = other.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'").fetchall()
            assert len(there) == 2 and (waiting,) in there
            assert other.execute("SELECT pg_terminate_backend(%s, 60000)", [waiting]).fetchone() == (True,)
        with pytest.raises(psycopg.errors.AdminShutdown):
            con.execute("SELECT 1")


def test_a_running_statement_of_one_is_cancelled(served: Serving) -> None:
    spare(served)
    with served.connect() as con:
        timer = threading.Timer(0.3, con.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            con.execute("SELECT pg_sleep(60)")
        timer.join()
        assert con.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_is_killed_is_followed_by_another(served: Serving, number: int) -> None:
    gone = spare(served)
    before = served.log
    os.kill(gone, number)
    eventually(lambda: not Path(f"/proc/{gone}").exists())
    with served.connect() as con:
        assert con.execute("SELECT 1").fetchone() == (1,)
    assert spare(served) != gone
    assert "terminated" not in served.log.removeprefix(before)


def test_what_has_changed_since_it_was_forked_holds(served: Serving) -> None:
    first = spare(served)
    with served.connect() as con:
        con.execute("CREATE ROLE newcomer LOGIN")
        con.execute("ALTER SYSTEM SET work_mem = '7MB'")
        waiting = spare(served)
        served.process.send_signal(signal.SIGHUP)
        eventually(lambda: spare(served) not in (first, waiting))
        eventually(lambda: con.execute("SHOW work_mem").fetchone() == ("7MB",))
    rules = served.folder / "pg_hba.conf"
    with served.connect(user="newcomer") as con:
        assert con.execute("SHOW work_mem").fetchone() == ("7MB",)
    spare(served)
    rules.write_text("local all newcomer reject\n" + rules.read_text())
    served.process.send_signal(signal.SIGHUP)
    eventually(lambda: "reloading" in served.log)
    spare(served)
    with pytest.raises(psycopg.OperationalError, match="rejects connection"):
        served.connect(user="newcomer")


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGINT, signal.SIGQUIT)),
    ],
)
def test_it_ends_with_its_server(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as served:
        waiting = spare(served)
        served.process.send_signal(number)
        served.process.wait(timeout=60)
        eventually(lambda: not Path(f"/proc/{waiting}").exists())
