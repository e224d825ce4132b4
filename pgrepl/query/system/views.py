"""PostgreSQL's system views: the queries of views.sql and information_schema.sql, parsed when one is first used."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse


@cache
def definitions() -> dict[tuple[str, str], str]:
    """(schema, view) → the text of its SELECT."""
    found = {}
    for file in ("views.sql", "information_schema.sql"):
        for paragraph in Path(__file__).with_name(file).read_text("utf-8").split("\n\n"):
            name, _, text = paragraph.partition("\n")
            if not name.startswith("--"):
                schema, _, view = name.partition(".")
                found[schema, view] = text
    return found


@cache
def definition(schema: str, view: str, release: int) -> SelectStmt | None:
    """The SELECT of a system view with the columns that it has in a release; None: a provider has its rows."""
    text = definitions().get((schema, view))
    if text is None:
        return None
    if release >= 18:
        text = "\n".join([line for line in text.split("\n") if not line.endswith("-- up to 17")])
    (statement,) = parse(text)
    assert isinstance(statement.stmt, SelectStmt)
    return statement.stmt
