"""Queries whose answers a real PostgreSQL has given, asked here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run


@contextmanager
def session_after(script: Path, folder: Path) -> Iterator[Session]:
    """A session in a fresh catalog, after a script of definitions."""
    catalog = open_catalog(folder / "catalog.db")
    session = open_session(catalog)
    list(run(session, script.read_text("utf-8")))
    list(run(session, "SET timezone = 'GMT'; SET client_min_messages = error"))
    yield session
    session.close()
    catalog.close()


def answer_to(session: Session, query: str) -> Any:
    """In the form of make_queries."""
    try:
        (result,) = run(session, query)
    except PgError as error:
        return {"sqlstate": error.report.sqlstate, "message": error.report.message}
    assert result.columns is not None
    columns = [[c.name, c.type, c.typmod] for c in result.columns]
    return {"columns": columns, "rows": [list(row) for row in result.rows]}
