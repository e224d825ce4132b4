r"""What `\sf`, `\ef`, `\sv` and `\ev` have in common: their argument, and the look-up of a definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.shell.backslash.command import BackslashCommand
from pgrepl.shell.slash_lexer import Argument

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def name_argument(c: BackslashCommand) -> str | None:
    """The rest of the line, without a semicolon."""
    text = c.word(Argument.WHOLE_LINE)
    stripped = (text or "").strip().rstrip(";").rstrip()
    return stripped or None


def definition(c: BackslashCommand, look_up: Callable[[Session], str | None]) -> str | None:
    """What `look_up` finds in the session; None, after a message: nothing."""
    from pgrepl.catalog.transaction import reading

    connection = c.shell.connection
    if connection is None:
        c.shell.error("You are currently not connected to a database.")
        return None
    try:
        connection.check_open()
        with reading(connection.session):
            return look_up(connection.session)
    except PgError as error:
        c.shell.error(f"{error.report.severity}:  {error.message}")
        return None
