r"""`\sf` shows a function's definition, `\ef` puts it into the query buffer to be edited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.backslash.definitions import definition, edit_definition, name_argument
from pgrepl.shell.outcome import Outcome
from pgrepl.shell.slash_lexer import Argument
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_EMPTY = """\
CREATE FUNCTION ( )
 RETURNS 
 LANGUAGE 
 -- common options:  IMMUTABLE  STABLE  STRICT  SECURITY DEFINER
AS $function$

$function$
"""  # noqa: W291
_BODY = ("AS ", "BEGIN ", "RETURN ")  # a line that begins so ends the head


@command("sf", "sf+", rest=Argument.WHOLE_LINE)
def show_function(c: BackslashCommand) -> bool:
    name = name_argument(c)
    if name is None:
        c.shell.error("function name is required")
        return False
    text = _definition(c, name)
    if text is None:
        return False
    shown = text if c.name == "sf" else "".join(_numbered(text))
    c.shell.query_out.write(shown)
    return True


@command("ef", rest=Argument.WHOLE_LINE)
def edit_function(c: BackslashCommand) -> Outcome:
    return edit_definition(c, _EMPTY, _definition, _head_lines)


def _definition(c: BackslashCommand, name: str) -> str | None:
    """The definition of a function by its name, with or without argument types; None, after a message: none."""
    return definition(c, lambda session: _of_name(session, name))


def _of_name(session: Session, name: str) -> str | None:
    from pgrepl.expr.routine_text import definition

    oid = session.object_oid(oids.REGPROCEDURE if "(" in name else oids.REGPROC, name)
    return definition(session, oid)


def _head_lines(text: str) -> int:
    return sum(1 for shown in _numbered(text) if shown.startswith(" "))


def _numbered(text: str) -> Iterator[str]:
    r"""Lines with numbers that begin with the body (print_with_linenumbers)."""
    number = 0
    for line in text.splitlines():
        if number or line.startswith(_BODY):
            number += 1
        yield f"{number:<7} {line}\n" if number else f"        {line}\n"
