"""The variables that tell about the last query, such as ERROR and ROW_COUNT, and the error for `\\errverbose`."""

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
    """Set the variables after an error; None: an error of the shell, not of the session."""
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
    """The number in a command tag (PQcmdTuples)."""
    found = _COUNTED.fullmatch(result.tag or "") if result is not None else None
    return found[1] if found else "0"
