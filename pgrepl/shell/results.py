"""What the shell remembers of a query that has ended: variables like ERROR and ROW_COUNT, and the error for
`\\errverbose`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.shell.shell import Shell

if TYPE_CHECKING:
    from pgrepl.query.result import Result

_COUNTED = re.compile(r"(?:INSERT [0-9]+|UPDATE|DELETE|SELECT|MOVE|FETCH|COPY|MERGE) ([0-9]+)")


def remember_error(shell: Shell, error: PgError, query: str) -> None:
    shell.last_error = (error.report, query)


def set_error_variables(shell: Shell, error: PgError | None) -> None:
    """Without an error of the session it is the shell that could not do its part."""
    sqlstate, message = (error.sqlstate, error.message) if error is not None else ("", "")
    for name, value in (
        ("ERROR", "true"),
        ("SQLSTATE", sqlstate),
        ("ROW_COUNT", "0"),
        ("LAST_ERROR_SQLSTATE", sqlstate),
        ("LAST_ERROR_MESSAGE", message),
    ):
        shell.variables.set(name, value)


def set_success_variables(shell: Shell, row_count: str) -> None:
    for name, value in (("ERROR", "false"), ("SQLSTATE", "00000"), ("ROW_COUNT", row_count)):
        shell.variables.set(name, value)


def row_count(result: Result | None) -> str:
    """The number in a command tag, as PQcmdTuples finds it."""
    found = _COUNTED.fullmatch(result.tag or "") if result is not None else None
    return found[1] if found else "0"
