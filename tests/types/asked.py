"""What a real PostgreSQL 17 answered, kept beside the tests: one JSON line a case.

An answer is the text of the result, null, or an object with the fields of the error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pgrepl.ground.errors import PgError

Answer = Any  # text, None, or {"sqlstate": …, "message": …, …}


def error_of(error: PgError) -> dict[str, str]:
    report = error.report
    fields = {
        "sqlstate": report.sqlstate,
        "message": report.message,
        "detail": report.detail,
        "hint": report.hint,
        "context": report.context,
    }
    return {name: text for name, text in fields.items() if text is not None}


class _Server:
    """A connection that gives texts and errors as they are."""

    def __init__(self, conninfo: str) -> None:
        from psycopg import pq

        self.pq = pq
        self.connection = pq.PGconn.connect(conninfo.encode())
        assert self.connection.status == pq.ConnStatus.OK, self.connection.error_message.decode()
        fields = pq.DiagnosticField
        self.wanted = {
            "sqlstate": fields.SQLSTATE,
            "message": fields.MESSAGE_PRIMARY,
            "detail": fields.MESSAGE_DETAIL,
            "hint": fields.MESSAGE_HINT,
            "context": fields.CONTEXT,
        }

    def rows(self, settings: dict[str, str], query: str) -> list[list[str | None]] | dict[str, str]:
        self.connection.exec_(b"RESET ALL; SET timezone = 'GMT'; SET client_min_messages = error")
        for name, value in settings.items():
            self.connection.exec_(f"SET {name} = '{value}'".encode())
        result = self.connection.exec_(query.encode())
        if result.status != self.pq.ExecStatus.TUPLES_OK:
            errors = {name: result.error_field(field) for name, field in self.wanted.items()}
            return {name: text.decode() for name, text in errors.items() if text is not None}
        cells = [[result.get_value(row, n) for n in range(result.nfields)] for row in range(result.ntuples)]
        return [[None if cell is None else cell.decode() for cell in row] for row in cells]


def ask(conninfo: str, questions: Iterable[tuple[dict[str, str], str]]) -> Iterator[Answer]:
    """Settings and a query of one column each → its one value as text, or a list of several."""
    server = _Server(conninfo)
    for settings, query in questions:
        answer = server.rows(settings, query)
        if isinstance(answer, list):
            texts = [row[0] for row in answer]
            yield texts[0] if len(texts) == 1 else texts
        else:
            yield answer


def ask_rows(conninfo: str, queries: Iterable[str]) -> Iterator[Answer]:
    """Whole results."""
    server = _Server(conninfo)
    for query in queries:
        yield server.rows({}, query)


def save(path: Path, rows: Iterable[list[Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def load(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
