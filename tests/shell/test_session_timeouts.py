"""A session that is ended by a timeout: a script ends, as psql's does when its server has gone; others go on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.shell.connection import Connection, ConnectTarget
from pgrepl.shell.prompt.prompt import prompt_text
from pgrepl.shell.scripts.lexer import Prompt
from pgrepl.shell.shell import Shell
from tests.harness.programs import PATIENCE, cpu_seconds, environment, eventually
from tests.shell.conftest import Run

LOST = """server closed the connection unexpectedly
\tThis probably means the server terminated abnormally
\tbefore or while processing the request.
connection to server was lost
"""


def test_a_transaction_that_takes_too_long(pgrepl: Run) -> None:
    done = pgrepl(script="SET transaction_timeout = 300;\nSELECT pg_sleep(5);\nSELECT 5;\n")
    assert done.stdout.decode() == "SET\nFATAL:  terminating connection due to transaction timeout\n" + LOST
    assert done.returncode == 2


def test_an_idle_session(pgrepl: Run) -> None:
    done = pgrepl(script="SET idle_session_timeout = 300;\n\\! sleep 0.6\n\\d\n")
    assert done.stdout.decode() == "SET\nFATAL:  terminating connection due to idle-session timeout\n" + LOST
    assert done.returncode == 2


def test_an_idle_transaction_gives_its_locks_back(tmp_path: Path, pgrepl: Run) -> None:
    idle = subprocess.Popen(
        [sys.executable, "-m", "pgrepl", "-X"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert idle.stdin is not None
    assert idle.stdout is not None
    idle.stdin.write(b"BEGIN;\nCREATE TABLE t (a int);\nSET idle_in_transaction_session_timeout = '1s';\n")
    idle.stdin.flush()
    for tag in (b"BEGIN\n", b"CREATE TABLE\n", b"SET\n"):
        assert idle.stdout.readline() == tag
    assert pgrepl("-c", "CREATE TABLE t (b int)").stdout == b"CREATE TABLE\n"
    said, _ = idle.communicate(b"SELECT 1;\n", timeout=PATIENCE)
    assert said.decode() == "FATAL:  terminating connection due to idle-in-transaction timeout\n" + LOST
    assert idle.returncode == 2


@pytest.mark.slow
def test_control_c_ends_a_script_whose_statement_is_still_being_read(tmp_path: Path) -> None:
    script = tmp_path / "large.sql"
    script.write_text("\\echo begun\nSELECT " + ", ".join(f"'text {n}'" for n in range(1_500_000)) + ";\n")
    running = subprocess.Popen(
        [sys.executable, "-m", "pgrepl", "-X", "-f", str(script)],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"begun\n"
    begun = cpu_seconds(running.pid)
    eventually(lambda: cpu_seconds(running.pid) > begun + 0.5)
    running.send_signal(signal.SIGINT)
    assert running.wait(PATIENCE) == 3


def test_the_prompt_of_a_session_that_has_ended(tmp_path: Path) -> None:
    """It is as before: the next statement says that the session has ended."""
    shell = Shell()
    shell.connection = Connection(ConnectTarget(str(tmp_path / "catalog.db")), shell.on_notice)
    before = prompt_text(shell, Prompt.READY)
    shell.connection.terminate(PgError("57P05", "terminating connection due to idle-session timeout", severity="FATAL"))
    assert (before, prompt_text(shell, Prompt.READY)) == ("postgres=# ", "postgres=# ")
    shell.connection.close()
