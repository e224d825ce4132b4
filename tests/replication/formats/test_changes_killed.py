"""`pgrepl changes`, killed or stopped at any moment and started again, loses nothing, and doubles nothing in files."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pgrepl.replication.formats.registry import reader
from pgrepl.replication.wire.messages import INSERT
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.harness.programs import PATIENCE, started

RUNS = 6
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


def written(path: Path, form: str) -> list[int]:
    """The keys in an output, in its order."""
    if form == "parquet":
        files = sorted(path.glob("*/*.parquet"))
        return [key for file in files for key in pq.read_table(file)["id"].to_pylist()]
    events = reader(form).read(path.open("rb"), path.name)
    return [int(event.new["id"] or 0) for event in events if event.kind == INSERT and event.new is not None]


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())


def run(folder: Path, arguments: list[str], out: Path, chance: random.Random, *, to_end: bool) -> int | None:
    """One run, with its standard output in `out` if that is a file; returns the signal that ended it."""
    before = size(out)
    with (
        out.open("wb") if out.suffix == ".run" else open("/dev/null", "wb") as stdout,
        started(*arguments, cwd=folder, stdout=stdout) as program,
    ):
        sent = None
        if not to_end:
            until = time.monotonic() + chance.choice([1, 4])
            while program.poll() is None and size(out) == before and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.2))
            sent = chance.choice(SIGNALS)
            program.send_signal(sent)
        program.wait(PATIENCE)
        assert program.stderr is not None
        said = program.stderr.read()
    if size(out) > before and sent != signal.SIGKILL:  # else it may not have come so far as to hear signals
        assert program.returncode == 0, said
        assert "ERROR" not in said and "Traceback" not in said, said
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True], ids=["once", "follow"])
@pytest.mark.parametrize("form", ["jsonl", "debezium", "wal2json", "parquet"])
def test_killed_changes(form: str, follow: bool, tmp_path: Path) -> None:
    chance = random.Random(f"{form} {follow}")
    ran = partial(pgrepl, cwd=tmp_path)
    ran("-q", "-c", "CREATE TABLE t (id int PRIMARY KEY, s text)", "-c", "CREATE PUBLICATION p FOR TABLE t")
    last = 0
    script = []
    for _ in range(30):
        first, last = last + 1, last + chance.choice([1, 3, 50, 400, 3000])
        script.append(f"INSERT INTO t SELECT g, 'row ' || g FROM generate_series({first}, {last}) g;")
    ran("-q", script="\n".join(script))
    common = ["changes", "p", "--from-lsn", "0/0", "--format", form]
    more = ["--follow", "--interval", "0.05"] if follow else []
    out = tmp_path / "out"
    for number in range(RUNS + 1):
        is_last = number == RUNS
        arguments = [*common, "--slot", "s_file", "-o", "out", *([] if is_last else more)]
        sent = run(tmp_path, arguments, out, chance, to_end=is_last)
        assert sent == signal.SIGKILL or not list(out.rglob("*.part"))
    assert written(out, form) == list(range(1, last + 1))
    if form == "parquet":
        return
    keys: list[int] = []
    may_repeat = False
    for number in range(RUNS + 1):
        path = tmp_path / f"{number}.run"
        is_last = number == RUNS
        arguments = [*common, "--slot", "s_out", *([] if is_last else more)]
        killed = run(tmp_path, arguments, path, chance, to_end=is_last) == signal.SIGKILL
        if killed:  # the last line may have been cut
            data = path.read_bytes()
            path.write_bytes(data[: data.rfind(b"\n") + 1])
        found = written(path, form)
        assert all(two == one + 1 for one, two in pairwise(found))
        if found and keys:
            assert found[0] <= keys[-1] + 1
            assert may_repeat or found[0] == keys[-1] + 1
        if found:
            keys = [*keys[: found[0] - 1], *found]
            may_repeat = killed
    assert keys == list(range(1, last + 1))


@pytest.mark.parametrize("follow", dose([False, True], 2), ids=["once", "follow"])
def test_a_reader_that_leaves(follow: bool, tmp_path: Path) -> None:
    ran = partial(pgrepl, cwd=tmp_path)
    ran("-q", "-c", "CREATE TABLE t (id int PRIMARY KEY)", "-c", "CREATE PUBLICATION p FOR TABLE t")
    ran("-q", "-c", "INSERT INTO t SELECT generate_series(1, 5000)")
    arguments = ["changes", "p", "--from-lsn", "0/0", *(["--follow"] if follow else [])]
    with started(*arguments, cwd=tmp_path, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stderr is not None
        assert program.stdout.readline().startswith('{"op":"begin"')
        program.stdout.close()
        assert program.wait(PATIENCE) == 1
        assert program.stderr.read().startswith("NOTICE:")
    assert ran("changes", "p").stdout.count('"op":"insert"') == 5000
