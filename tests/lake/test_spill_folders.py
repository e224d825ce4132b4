"""What a killed process has left in the temporary folder goes, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pgrepl.engine import spark, spark_options
from pgrepl.engine.result_spark import result_folder

HOLDER = "from pgrepl.engine import spark_options; spark_options.make(spark_options.{}); print(flush=True); input()"


def hold(kind: str, folder: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(kind)],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_what_the_dead_have_left_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, alive = hold("CHANGES", tmp_path), hold("RESULT", tmp_path)
    try:
        (left,) = tmp_path.glob("pgrepl-changes-*")
        (left / "rows").mkdir()
        (left / "rows" / "part").write_text("half")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        others = [tmp_path / f"pgrepl-result-elsewhere-{killed.pid}-abc", tmp_path / "pgrepl-result-mine"]
        for other in others:
            other.mkdir()
        (linked := tmp_path / left.name.replace("changes", "result")).symlink_to(others[0])
        spark_options.clean.cache_clear()
        made = Path(spark_options.make(spark_options.RESULT))
        (working,) = tmp_path.glob(f"pgrepl-result-*-{alive.pid}-*")
        assert sorted(tmp_path.iterdir()) == sorted([*others, linked, made, working])
    finally:
        for process in (killed, alive):
            process.kill()
            process.communicate()


def test_what_the_dead_have_left_beside_the_data_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "is_elsewhere", lambda: True)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    machine = spark_options.prefix(spark_options.RESULT).removesuffix(f"{os.getpid()}-")
    (left := tmp_path / f"{machine}{dead.pid}-abc" / "rows").mkdir(parents=True)
    (left / "part.parquet").write_text("half")
    (others := tmp_path / f"pgrepl-result-elsewhere-{dead.pid}-abc").mkdir()
    (table := tmp_path / "main").mkdir()
    with result_folder(f"{tmp_path}/") as made:
        assert sorted(tmp_path.iterdir()) == sorted([others, table, Path(made)])
    assert sorted(tmp_path.iterdir()) == sorted([others, table])
