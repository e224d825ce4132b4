"""What a real PostgreSQL 17 answered, kept beside the tests: one JSON line a case.

An answer is the text of the result, null, or an object with the fields of the error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pgrepl.errors import PgError

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


def ask(conninfo: str, questions: Iterable[tuple[dict[str, str], str]]) -> Iterator[Answer]:
    """Settings and a query of one value each → what the server answers, as text."""
    from psycopg import pq

    server = pq.PGconn.connect(conninfo.encode())
    assert server.status == pq.ConnStatus.OK, server.error_message.decode()
    fields = pq.DiagnosticField
    wanted = {
        "sqlstate": fields.SQLSTATE,
        "message": fields.MESSAGE_PRIMARY,
        "detail": fields.MESSAGE_DETAIL,
        "hint": fields.MESSAGE_HINT,
        "context": fields.CONTEXT,
    }
    for settings, query in questions:
        server.exec_(b"RESET ALL; SET timezone = 'GMT'; SET client_min_messages = error")
        for name, value in settings.items():
            server.exec_(f"SET {name} = '{value}'".encode())
        result = server.exec_(query.encode())
        if result.status == pq.ExecStatus.TUPLES_OK:
            values = [result.get_value(row, 0) for row in range(result.ntuples)]
            texts = [None if value is None else value.decode() for value in values]
            yield texts[0] if len(texts) == 1 else texts
        else:
            errors = {name: result.error_field(field) for name, field in wanted.items()}
            yield {name: text.decode() for name, text in errors.items() if text is not None}


def save(path: Path, rows: Iterable[list[Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def load(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
