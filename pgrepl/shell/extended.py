r"""`\bind`: a query with parameters `$1`, `$2`, … and their values, as in PostgreSQL's extended protocol.

The parameters are replaced by constants of unknown type, which is what untyped parameters are; positions in error
messages are those in the query as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.sql.nodes import DeleteStmt, InsertStmt, MergeStmt, SelectStmt, UpdateStmt
from pgrepl.sql.parser import parse
from pgrepl.sql.quote import quote_literal
from pgrepl.sql.scanner import scan

if TYPE_CHECKING:
    from pgrepl.query.result import Result
    from pgrepl.shell.connection import Connection

_WITH_PARAMETERS = (SelectStmt, InsertStmt, UpdateStmt, DeleteStmt, MergeStmt)
Place = tuple[int, int, int]  # a parameter's number, and where it begins and ends


def run_extended(connection: Connection, text: str, values: Sequence[str]) -> Iterator[Result]:
    """The result of the one statement; PgError if it fails."""
    places = _checked(connection, text, values)
    bound, shifts = _bind(text, places, [quote_literal(value) for value in values])
    try:
        yield from connection.run(bound)
    except PgError as error:
        position = error.report.position
        if position is not None:
            error.report = replace(error.report, position=_unshifted(position, shifts))
        raise


def _checked(connection: Connection, text: str, values: Sequence[str]) -> list[Place]:
    """The places of the parameters; an error unless each has a value."""
    from pgrepl.statements.describe import describe

    transaction = connection.session.transaction
    try:
        statements = parse(text, lambda report: None, connection.session.settings.string_rules)
    except PgError:
        transaction.fail_statement()
        raise
    if len(statements) > 1:
        transaction.fail_statement()
        raise PgError("42601", "cannot insert multiple commands into a prepared statement")
    takes_values = bool(statements) and isinstance(statements[0].stmt, _WITH_PARAMETERS)
    places = _places(text) if takes_values else []
    needed = max((number for number, _, _ in places), default=0)
    unknown = set(range(1, needed + 1)) - {number for number, _, _ in places}
    if needed != len(values) or unknown:
        describe(connection.session, _bind(text, places, ["NULL"] * needed)[0])
        transaction.fail_statement()
        if unknown:
            raise PgError("42P18", f"could not determine data type of parameter ${min(unknown)}")
        raise PgError(
            "08P01",
            f'bind message supplies {len(values)} parameters, but prepared statement "" requires {needed}',
        )
    return places


def _places(text: str) -> list[Place]:
    tokens = takewhile(lambda token: token[0] != "$END", scan(text))
    return [(int(token[1]), token[2], token[3]) for token in tokens if token[0] == "PARAM"]


def without_values(text: str) -> str:
    """The query with NULL for its parameters, which returns the same columns."""
    try:
        places = _places(text)
    except PgError:
        return text  # the parser reports the error
    return _bind(text, places, ["NULL"] * max((number for number, _, _ in places), default=0))[0]


def _bind(text: str, places: Sequence[Place], constants: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text with the constants, and by how much it is longer from which place on."""
    out: list[str] = []
    shifts: list[tuple[int, int]] = []
    at = longer = 0
    for number, begin, end in places:
        constant = constants[number - 1]
        out += (text[at:begin], constant)
        at = end
        longer += len(constant) - (end - begin)
        shifts.append((begin + longer + (end - begin), longer))
    return "".join(out) + text[at:], shifts


def _unshifted(position: int, shifts: Sequence[tuple[int, int]]) -> int:
    behind = [longer for place, longer in shifts if place < position]
    return position - (behind[-1] if behind else 0)
