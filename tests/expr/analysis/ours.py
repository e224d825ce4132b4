"""The same questions, answered by pgrepl."""

from __future__ import annotations

import json

from pgrepl.catalog.session.session import Session
from pgrepl.expr import stored
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.print.deparse import query_text
from pgrepl.expr.print.printer import type_with_typmod
from pgrepl.ground.errors import PgError, Report
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from pgrepl.statements.run import run
from tests.expr.analysis.answers import Answer, error


def answer(session: Session, question: Answer) -> Answer:
    try:
        return question_of_query(session, question["query"]) if "query" in question else statement(session, question)
    except PgError as failed:
        return error_of(failed.report)


def error_of(report: Report) -> Answer:
    return error(report.sqlstate, report.message, report.detail, report.hint, report.position)


def question_of_query(session: Session, text: str) -> Answer:
    """A query through the catalog and back: as a view would keep and print it."""
    stmt = parse(text)[0].stmt
    assert isinstance(stmt, SelectStmt)
    query = stored.from_json(json.loads(json.dumps(stored.to_json(analyze_query(session, stmt)))), session)
    names = [column.name for column in query.columns]
    return {
        "plain": query_text(session, query, False, names) + ";",
        "pretty": query_text(session, query, True, names) + ";",
        "columns": [f"{c.name} {type_with_typmod(session, c.type, c.typmod)} {c.collation}" for c in query.columns],
    }


def statement(session: Session, question: Answer) -> Answer:
    _run(session, "BEGIN")
    try:
        _run(session, question["statement"])
        return {"rows": _run(session, question["shows"]) if question["shows"] else []}
    finally:
        _run(session, "ROLLBACK")


def _run(session: Session, text: str) -> list[list[str | None]]:
    rows: list[list[str | None]] = []
    for result in run(session, text):
        rows = [list(row) for row in result.rows] if result.columns else []
    return rows
