"""What a round of a subscription's workers decides before its workers run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pgrepl.api.rounds import start_spark
from pgrepl.engine import spark
from tests.harness.played import Instance


@pytest.mark.parametrize(
    ("of_all", "of_database", "starts"),
    [("local", "spark", True), ("spark", "local", False), ("spark", None, True), ("auto", None, False)],
)
def test_spark_starts_by_the_settings_of_the_subscriptions_database(
    of_all: str, of_database: str | None, *, starts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance(tmp_path / "instance")
    instance.play("postgres", f"ALTER SYSTEM SET pgrepl.engine = {of_all}")
    if of_database is not None:
        instance.play("postgres", f"ALTER DATABASE sub SET pgrepl.engine = {of_database}")
    instance.play("pub", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "CREATE PUBLICATION p FOR TABLE t")
    instance.play("sub", "CREATE TABLE t (a int)", "CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p")
    started: list[bool] = []
    monkeypatch.setattr(spark, "start_in_background", lambda: started.append(True))
    start_spark(instance.session("template1"))
    assert bool(started) is starts


def test_signals_that_come_together_count_once() -> None:
    """Ctrl-C reaches all processes of a terminal, and a server then ends its own by SIGTERM."""
    code = """
import os, signal
from pgrepl.api.rounds import stoppable

try:
    with stoppable([signal.SIGINT, signal.SIGTERM], lambda number: KeyError(number)):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            print("tidied")
except KeyError as stopped:
    print(stopped)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tidied\n2\n"
