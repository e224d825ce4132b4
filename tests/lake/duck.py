"""DuckDB with its ducklake extension, in a process of its own: the judge of what stands in a lake.

The catalog is never open in SQLite and in DuckDB within one process: each has locks that the other, in the same
process, would let go of. Answers are text, as DuckDB casts values to VARCHAR; NULL is None.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.harness.programs import PATIENCE

_WORKER = r"""
import glob, importlib, json, os, sys
import duckdb

def extension(name):
    module = importlib.import_module(f"duckdb_extension_{name}")
    folder = next(iter(module.__path__))
    return glob.glob(folder + "/**/*.duckdb_extension", recursive=True)[0]

def connect(catalog):
    link = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("sqlite_scanner", "ducklake"):
        link.execute(f"LOAD '{extension(name)}'")
    link.execute("SET TimeZone = 'UTC'")
    link.execute("SET enable_progress_bar = false")  # it would stand among the answers
    link.execute(f"ATTACH 'ducklake:sqlite:{catalog}' AS lake")
    link.execute("USE lake")
    return link

links = {}
for line in sys.stdin:
    asked = json.loads(line)
    try:
        link = links.get(asked["catalog"])
        if asked["action"] == "close":
            if link is not None:
                links.pop(asked["catalog"]).close()
            answer = []
        else:
            if link is None:
                link = links[asked["catalog"]] = connect(asked["catalog"])
            relation = link.sql(asked["sql"])  # a query is not run yet
            if relation is not None and asked["as_text"]:
                relation = relation.project("COLUMNS(*)::VARCHAR")
            answer = [] if relation is None else relation.fetchall()
        print(json.dumps({"rows": answer}, default=str), flush=True)
    except Exception as problem:
        print(json.dumps({"error": f"{type(problem).__name__}: {problem}"}), flush=True)
"""


class DuckError(Exception):
    pass


class Duck:
    """A worker process, one connection a catalog."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.stop)

    def ask(self, catalog: Path | str, sql: str, *, action: str = "run", as_text: bool = True) -> list[tuple[Any, ...]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"catalog": str(catalog), "sql": sql, "action": action, "as_text": as_text}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise DuckError(answer["error"])
        return [tuple(row) for row in answer["rows"]]

    def stop(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE)


@cache
def _worker() -> Duck:
    return Duck()


def duck(catalog: Path | str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, as text."""
    return _worker().ask(catalog, sql)


def run(catalog: Path | str, *statements: str) -> None:
    """Statements that give no rows."""
    for statement in statements:
        _worker().ask(catalog, statement, as_text=False)


def close(catalog: Path | str) -> None:
    """DuckDB forgets the catalog."""
    _worker().ask(catalog, "", action="close")
