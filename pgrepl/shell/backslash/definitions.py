r"""The common part of `\sf`, `\ef`, `\sv` and `\ev`: their argument, the look-up of a definition, and its editing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.shell.backslash.command import BackslashCommand
from pgrepl.shell.outcome import Outcome
from pgrepl.shell.slash_lexer import Argument

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_LINE_NUMBER = re.compile(r"(?<=[\s)])([0-9]+)\s*\Z")


def name_argument(c: BackslashCommand) -> str | None:
    """The rest of the line, without a semicolon."""
    text = c.word(Argument.WHOLE_LINE)
    stripped = (text or "").strip().rstrip(";").rstrip()
    return stripped or None


def definition(c: BackslashCommand, look_up: Callable[[Session], str | None]) -> str | None:
    """The definition that `look_up` finds in the session; None, after a message: it finds none."""
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


def edit_definition(
    c: BackslashCommand,
    empty: str,
    find: Callable[[BackslashCommand, str], str | None],
    head_lines: Callable[[str], int] = lambda text: 0,
) -> Outcome:
    """Let the definition of what is named, or an empty one, be edited in the query buffer. The number of a line may
    stand behind the name; it counts from behind the head."""
    from pgrepl.shell.editor import edit_query

    shell, loop = c.shell, c.loop
    if loop is None:
        shell.error("no query buffer")
        return Outcome.FAILED
    name, line = name_argument(c), None
    if name is not None:
        number = _LINE_NUMBER.search(name)
        if number is not None:
            name, line = name[: number.start()].rstrip(), int(number[1])
    text = empty if not name else find(c, name)
    if text is None:
        return Outcome.FAILED
    if line is not None:
        line += head_lines(text)
    edited = edit_query(shell, text, None, line)
    loop.query.text = ""
    if edited is None:
        return Outcome.FAILED
    if edited.changed:
        loop.query.text = edited.text
        return Outcome.EDITED
    shell.say("No changes")
    return Outcome.NEXT
