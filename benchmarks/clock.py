"""Taking times: the fastest of several runs is the one least disturbed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def process(arguments: list[str], folder: Path, text: str = "", **more: str) -> float:
    """Seconds that `python arguments` takes, from start to end."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(**more),
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    assert done.returncode == 0, done.stderr
    return seconds


def fastest(action: Callable[[], float], times: int) -> float:
    return min(action() for _ in range(times))


def paired(action: Callable[[], float], floor: Callable[[], float], times: int) -> tuple[float, float]:
    """Both in turns, and of these the turn with the middle ratio: a machine whose speed changes from second to second
    changes both."""
    turns = sorted([(action(), floor()) for _ in range(times)], key=lambda turn: turn[0] / turn[1])
    return turns[times // 2]
