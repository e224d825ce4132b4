"""Asks a real PostgreSQL 17 what each query of `queries.txt` gives, and writes `queries.jsonl`.

python -m tests.expr.make_queries "host=/var/run/postgresql user=postgres"
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.types.asked import ask_rows, save

QUERIES = Path(__file__).with_name("queries.txt")
ANSWERS = QUERIES.with_suffix(".jsonl")


def make(conninfo: str) -> None:
    queries = [line for line in QUERIES.read_text("utf-8").splitlines() if line]
    save(ANSWERS, ([query, answer] for query, answer in zip(queries, ask_rows(conninfo, queries), strict=True)))


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else "")
