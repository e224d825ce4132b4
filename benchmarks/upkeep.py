"""An hour of a following worker under 10 changes a second, with autovacuum and without: files, the catalog's size,
memory, the time of a round. Draws docs/upkeep.svg.

    python -m benchmarks.upkeep [SECONDS]

The clock is simulated: a second is 10 transactions at the publisher and a round of the worker, a minute ends with what
autovacuum does in a naptime, and files are left for 10 minutes after nothing refers to them. Publisher and subscriber
are databases of one instance; each has a table of 100,000 rows that neither grows nor shrinks.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.clock import ROOT, environment

ROWS, MINUTE, GRACE = 100_000, 60, 600
PICTURE = ROOT / "docs" / "upkeep.svg"


@dataclass(frozen=True)
class Sample:
    """Of a minute, at its end."""

    second: int
    round_ms: float  # CPU time of a round of 10 changes
    upkeep_ms: float  # of what autovacuum did in this minute
    files: int
    catalog_mb: float
    memory_mb: int


def hour(folder: Path, seconds: int, *, upkeep: bool, told: Callable[[Sample], None]) -> None:
    from pgrepl.backend import open_session
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.opening import open_catalog
    from pgrepl.replication.log import ServerLog
    from pgrepl.replication.subscriber.launcher import Launcher
    from pgrepl.statements.run import run
    from pgrepl.statements.upkeep.background import Autovacuum

    catalog = open_catalog(folder / "catalog.db")

    def play(session: Session, *texts: str) -> None:
        for text in texts:
            for _ in run(session, text):
                pass

    first = open_session(catalog)
    play(first, "CREATE DATABASE pub", "CREATE DATABASE sub")
    pub, sub = open_session(catalog, "pub"), open_session(catalog, "sub")
    for session in (pub, sub):
        play(session, "CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
    play(pub, "CREATE PUBLICATION p FOR TABLE t")
    play(pub, f"INSERT INTO t SELECT g, 'row ' || g, 0 FROM generate_series(1, {ROWS}) g")
    play(sub, "CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p")
    log = ServerLog(folder / "log")
    launcher = Launcher(sub, log, keeps_leases=True)
    worker = launcher.worker(launcher.subscriptions()[0])
    assert worker.round().error is None
    autovacuum = Autovacuum(first, log)
    chance = random.Random(1)
    living, last = list(range(1, ROWS + 1)), ROWS
    rounds = 0.0
    moments: list[float] = []
    for second in range(seconds):
        moments.append(time.monotonic())
        for number in range(10):
            at = chance.randrange(len(living))
            if number < 3:
                last += 1
                living.append(last)
                play(pub, f"INSERT INTO t VALUES ({last}, 'new', {second})")
            elif number < 6:
                living[at], living[-1] = living[-1], living[at]
                play(pub, f"DELETE FROM t WHERE a = {living.pop()}")
            else:
                play(pub, f"UPDATE t SET c = {second} WHERE a = {living[at]}")
        began = time.process_time()
        done = worker.round()
        assert done.error is None and done.changes == 10, done
        rounds += time.process_time() - began
        if second % MINUTE == MINUTE - 1:
            began = time.process_time()
            if upkeep:
                grace = time.monotonic() - moments[max(0, second - GRACE)]
                play(first, f"ALTER SYSTEM SET pgrepl.file_grace = {int(grace)}")
                autovacuum.look()
            spent = time.process_time() - began
            files = sum(1 for _ in folder.rglob("*.parquet"))
            size = (folder / "catalog.db").stat().st_size / 2**20
            told(Sample(second + 1, rounds / MINUTE * 1000, spent * 1000, files, size, _memory()))
            rounds = 0.0
    launcher.close()
    counted = [row for result in run(sub, "SELECT count(*), sum(a) FROM t") for row in result.rows]
    assert counted == [(str(len(living)), str(sum(living)))], counted


def _memory() -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


# --- the picture ---------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, GAP = 340, 130, 40, 44, 64
PANELS: tuple[tuple[str, Callable[[Sample], float]], ...] = (
    ("a round of 10 changes, ms", lambda each: each.round_ms),
    ("catalog.db, MB", lambda each: each.catalog_mb),
    ("data and delete files", lambda each: each.files),
    ("memory, MB", lambda each: each.memory_mb),
)
LINES = (("without autovacuum", "#b45309", "4 3"), ("with autovacuum", "#1d4ed8", ""))


def picture(without: list[Sample], beside: list[Sample]) -> str:
    """Four small curves over the hour."""
    width, height = 2 * (WIDTH + GAP) + LEFT, 2 * (HEIGHT + GAP) + TOP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, (name, colour, dashes) in enumerate(LINES):
        x = LEFT + place * 190
        parts.append(f'<path d="M{x} 16h28" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>')
        parts.append(f'<text x="{x + 34}" y="20">{name}</text>')
    for number, (title, measured) in enumerate(PANELS):
        x, y = LEFT + number % 2 * (WIDTH + GAP), TOP + number // 2 * (HEIGHT + GAP)
        parts += _panel(x, y, title, [[measured(each) for each in run] for run in (without, beside)], beside)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(x: int, y: int, title: str, runs: list[list[float]], samples: list[Sample]) -> list[str]:
    top = max(1.0, max(value for run in runs for value in run) * 1.1)
    longest = samples[-1].second
    parts = [
        f'<text x="{x}" y="{y + 8}" font-weight="bold">{title}</text>',
        f'<path d="M{x} {y + 16}v{HEIGHT}h{WIDTH}" fill="none" stroke="#888"/>',
        f'<text x="{x - 4}" y="{y + 26}" text-anchor="end" fill="#555">{top:.0f}</text>',
        f'<text x="{x - 4}" y="{y + 16 + HEIGHT}" text-anchor="end" fill="#555">0</text>',
        f'<text x="{x + WIDTH}" y="{y + 32 + HEIGHT}" text-anchor="end" fill="#555">{longest // 60} min</text>',
    ]
    for run, (_, colour, dashes) in zip(runs, LINES, strict=True):
        points = " ".join(
            f"{x + WIDTH * (n + 1) / len(samples):.1f},{y + 16 + HEIGHT * (1 - value / top):.1f}"
            for n, value in enumerate(run)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        )
    return parts


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--one"]:  # in a process of its own
        with tempfile.TemporaryDirectory() as folder:

            def say(sample: Sample) -> None:
                print(json.dumps(asdict(sample)), flush=True)

            hour(Path(folder), int(arguments[1]), upkeep=arguments[2] == "with", told=say)
        return
    found = []
    for which in ("without", "with"):
        command = [sys.executable, "-m", "benchmarks.upkeep", "--one", *(arguments or ["3600"]), which]
        done = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
        found.append([Sample(**json.loads(line)) for line in done.stdout.splitlines()])
        spent = sum(each.upkeep_ms for each in found[-1]) / len(found[-1])
        print(f"{which}: {spent:.0f} ms of upkeep a minute", found[-1][0], found[-1][-1], sep="\n  ")
    PICTURE.write_text(picture(*found), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
