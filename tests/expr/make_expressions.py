"""Asks a real PostgreSQL 17 what each expression of `expressions.txt` is worth, and writes `expressions.jsonl`.

    python -m tests.expr.make_expressions "host=/var/run/postgresql user=postgres"

A line is one expression, `#` starts a heading. An answer is the text of the value, a list of them from a set-returning
expression, or the error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.types.asked import ask, save

EXPRESSIONS = Path(__file__).with_name("expressions.txt")
ANSWERS = EXPRESSIONS.with_suffix(".jsonl")


def expressions() -> list[tuple[str, str]]:
    """(heading, expression)."""
    heading = ""
    found = []
    for line in EXPRESSIONS.read_text("utf-8").splitlines():
        if line.startswith("# "):
            heading = line[2:]
        elif line:
            found.append((heading, line))
    return found


def make(conninfo: str) -> None:
    asked = expressions()
    answers = ask(conninfo, [({}, f"SELECT {expression}") for _, expression in asked])
    save(ANSWERS, ([*case, answer] for case, answer in zip(asked, answers, strict=True)))


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else "")
