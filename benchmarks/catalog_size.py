r"""`\dRp+ one` and `\d one` in a catalog of 10,000 tables in 1,000 publications, beside a catalog of 10."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import process

LIMIT = 2.0
COMMANDS = (r"\dRp+ p1", r"\d t1")


def script(tables: int, publications: int) -> str:
    lines = ["BEGIN;"]
    lines += [f"CREATE TABLE t{n} (id bigint PRIMARY KEY, name text);" for n in range(tables)]
    per = tables // publications
    for n in range(publications):
        members = ", ".join(f"t{t}" for t in range(n * per, (n + 1) * per))
        lines.append(f"CREATE PUBLICATION p{n} FOR TABLE {members};")
    return "\n".join([*lines, "COMMIT;"]) + "\n"


def describe_time(folder: Path, command: str) -> float:
    """Inside one process, so that the start does not hide the difference."""
    from pgrepl.shell.connection import Connection, ConnectTarget
    from pgrepl.shell.describe import run
    from pgrepl.shell.shell import Shell
    from pgrepl.shell.streams import open_output

    word, _, pattern = command[1:].partition(" ")
    best = float("inf")
    for _ in range(5):
        shell = Shell()
        shell.query_out = open_output("/dev/null")
        shell.connection = Connection(ConnectTarget(str(folder / "catalog.db")), shell.on_notice)
        began = time.perf_counter()
        assert run(shell, word, [pattern])
        best = min(best, time.perf_counter() - began)
        shell.connection.close()
    return best


def measure() -> Iterator[tuple[str, str, str, str, bool]]:
    with tempfile.TemporaryDirectory() as small_work, tempfile.TemporaryDirectory() as large_work:
        small, large = Path(small_work), Path(large_work)
        process(["-m", "pgrepl", "-X", "-q", "-v", "ON_ERROR_STOP=1"], small, script(10, 2))
        process(["-m", "pgrepl", "-X", "-q", "-v", "ON_ERROR_STOP=1"], large, script(10_000, 1_000))
        for command in COMMANDS:
            few, many = describe_time(small, command), describe_time(large, command)
            ratio = many / few
            yield (
                f"{command} among 10,000 tables",
                f"{ratio:.2f} ({many * 1000:.1f} ms)",
                f"among 10: {few * 1000:.1f} ms",
                f"{LIMIT}",
                ratio < LIMIT,
            )
