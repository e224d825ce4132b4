"""DuckDB with its ducklake extension, in a process of its own: the judge of what stands in a lake.

The catalog is never open in SQLite and in DuckDB within one process: each has locks that the other, in the same
process, would let go of. Answers are text, as DuckDB casts values to VARCHAR; NULL is None.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from subprocess import PIPE
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


_REPEATABLE = "CALL ducklake_flush_inlined_data"  # it does the same if it was done before the crash


class DuckError(Exception):
    pass


class Duck:
    """A worker process, one connection a catalog. DuckDB sometimes crashes: then another process goes on."""

    def __init__(self) -> None:
        self._process = self._start()
        atexit.register(self.stop)

    @staticmethod
    def _start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", _WORKER], stdin=PIPE, stdout=PIPE, text=True)

    def ask(self, catalog: Path | str, sql: str, *, action: str = "run", as_text: bool = True) -> list[tuple[Any, ...]]:
        asked = json.dumps({"catalog": str(catalog), "sql": sql, "action": action, "as_text": as_text})
        may_repeat = as_text or sql.startswith(_REPEATABLE)
        answer = self._asked(asked) or (self._asked(asked) if may_repeat else None)
        if not answer:
            raise DuckError("DuckDB has crashed")
        found = json.loads(answer)
        if "error" in found:
            raise DuckError(found["error"])
        return [tuple(row) for row in found["rows"]]

    def _asked(self, asked: str) -> str:
        """The answer; empty: the process has crashed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(asked + "\n")
            self._process.stdin.flush()
            if answer := self._process.stdout.readline():
                return answer
        self._process.wait(PATIENCE)
        self._process = self._start()
        return ""

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
