"""Questions and PostgreSQL's answers: one JSON object a line.

A question is a `query`, asked as the query of a view, or a `statement` with a query that `shows` what it made. The
answer is the view's text (`plain`, `pretty`) and `columns`, or the `rows` shown, or the `error`.

    python -m tests.expr.analysis.answers postgresql://…/empty_database

asks all questions of a server 17 again and writes its answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCHEMA = [statement for statement in (HERE / "schema.sql").read_text().split("\n") if statement]
COLUMNS = (
    "SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attcollation ORDER BY attnum) "
    "FROM pg_attribute WHERE attrelid = 'asked'::regclass AND attnum > 0"
)
VIEW = "SELECT pg_get_viewdef('asked'::regclass), pg_get_viewdef('asked'::regclass, true), "
CREATE_VIEW = "CREATE VIEW asked AS "

Answer = dict[str, Any]


def read(name: str) -> list[Answer]:
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def write(name: str, answers: list[Answer]) -> None:
    lines = [json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers]
    (HERE / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def error(
    sqlstate: str | None, message: str | None, detail: str | None, hint: str | None, position: int | None
) -> Answer:
    """Only the parts that are there."""
    parts = {"sqlstate": sqlstate, "message": message, "detail": detail, "hint": hint, "position": position}
    return {"error": {name: part for name, part in parts.items() if part is not None}}


def ask(connection: Any, question: Answer) -> Answer:
    """The same question with the server's answer; what it makes is undone."""
    import psycopg

    connection.execute("SAVEPOINT question")
    try:
        if "query" in question:
            connection.execute((CREATE_VIEW + question["query"]).encode())
            plain, pretty, columns = connection.execute(f"{VIEW}({COLUMNS})".encode()).fetchone()
            answer: Answer = {"plain": plain, "pretty": pretty, "columns": columns or []}
        else:
            connection.execute(question["statement"].encode())
            rows = connection.execute(question["shows"].encode()).fetchall() if question["shows"] else []
            answer = {"rows": [[None if value is None else str(value) for value in row] for row in rows]}
    except psycopg.Error as failed:
        told = failed.diag
        position = int(told.statement_position) if told.statement_position else None
        if position is not None and "query" in question:
            position -= len(CREATE_VIEW)
        answer = error(told.sqlstate, told.message_primary, told.message_detail, told.message_hint, position)
    connection.execute("ROLLBACK TO question; RELEASE question")
    return {key: question[key] for key in ("query", "statement", "shows") if key in question} | answer


def refresh(where: str) -> None:
    import psycopg

    with psycopg.connect(where) as connection:
        for statement in ["SET timezone TO 'GMT'", *SCHEMA]:
            connection.execute(statement.encode())
        for path in sorted(HERE.glob("*.jsonl")):
            write(path.stem, [ask(connection, question) for question in read(path.stem)])
        connection.rollback()


if __name__ == "__main__":
    refresh(sys.argv[1])
