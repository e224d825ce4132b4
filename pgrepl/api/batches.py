"""executemany: an INSERT of one row of VALUES runs for many sets of parameters at a time, other statements for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from pgrepl.api.dumping import dumped
from pgrepl.api.placeholders import Parameters, numbered
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Parameter

_ROWS = 1000  # of one INSERT
_INSERT = re.compile(r"\s*insert\b", re.IGNORECASE)


def batches(query: str, sets: Iterable[Parameters]) -> Iterator[tuple[str, list[Parameter]]]:
    """Statements with their values. Each is its own statement, so that what is inserted before an error stays or goes
    with the transaction."""
    rows = iter(sets)
    first = next(rows, None)
    if first is None:
        return
    text, given = numbered(query, first)
    values = row_of_values(text) if _INSERT.match(text) else None
    if values is None:
        yield text, _dumped(given)
        for each in rows:
            text, given = numbered(query, each)
            yield text, _dumped(given)
        return
    begin, end, spans = values
    sets_of = _numbered_rows(query, given, rows)
    while portion := list(islice(sets_of, _ROWS)):
        width = len(portion[0])
        repeated = ", ".join(_shifted(text, begin, end, spans, width * n) for n in range(len(portion)))
        yield text[:begin] + repeated + text[end:], [value for row in portion for value in row]


def _numbered_rows(query: str, first: list[Any], rest: Iterable[Parameters]) -> Iterator[list[Parameter]]:
    yield _dumped(first)
    for each in rest:
        yield _dumped(numbered(query, each)[1])


def _dumped(values: Sequence[Any]) -> list[Parameter]:
    return [dumped(value) for value in values]


ParameterSpan = tuple[int, int, int]  # a parameter's number, and where it begins and ends


def row_of_values(text: str) -> tuple[int, int, list[ParameterSpan]] | None:
    """The begin and the end of the one row of `INSERT … VALUES (…)`, and its parameters; None for any other statement,
    or if a parameter stands elsewhere."""
    from pgrepl.sql.nodes import InsertStmt
    from pgrepl.sql.parser import parse
    from pgrepl.sql.scanner import scan

    try:
        statements = parse(text)
        tokens = list(takewhile(lambda token: token[0] != "$END", scan(text)))
    except PgError:
        return None  # running it reports the error
    stmt = statements[0].stmt if len(statements) == 1 else None
    if not isinstance(stmt, InsertStmt) or stmt.select is None or stmt.returning or stmt.with_ is not None:
        return None
    if stmt.select.values is None or len(stmt.select.values) != 1 or stmt.on_conflict is not None:
        return None
    at = next((n for n, token in enumerate(tokens) if token[0] == "VALUES"), None)
    if at is None:
        return None
    depth, begin = 0, tokens[at + 1][2]
    for n, (kind, _, _, stop) in enumerate(tokens[at + 1 :], at + 1):
        depth += {"LPAR": 1, "RPAR": -1}.get(kind, 0)
        if depth == 0:
            inside = [(int(t[1]), t[2], t[3]) for t in tokens[at + 1 : n] if t[0] == "PARAM"]
            outside = [t for t in (*tokens[:at], *tokens[n:]) if t[0] == "PARAM"]
            return None if outside else (begin, stop, inside)
    return None


def _shifted(text: str, begin: int, end: int, spans: Sequence[ParameterSpan], by: int) -> str:
    """The row with parameters of higher numbers."""
    out, at = "", begin
    for number, start, stop in spans:
        out += f"{text[at:start]}${number + by}"
        at = stop
    return out + text[at:end]
