r"""`\e`, `\ef` and `\ev`: the query buffer, a file, a function's or a view's definition in the editor; `\sf` and `\sv`
show it.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.session.transaction import reading
from pgrepl.expr.print.definitions import view_definition
from pgrepl.ground.errors import PgError
from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.scripts.slash_lexer import Argument, Outcome
from pgrepl.shell.shell import Shell
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


@dataclass(frozen=True, slots=True)
class Edited:
    text: str
    changed: bool


def edit_query(shell: Shell, text: str, file: str | None, line: int | None) -> Edited | None:
    """The edited text; None, after a message: the editor failed."""
    if file is not None:
        return _edit(shell, file, line)
    folder = os.environ.get("TMPDIR", "/tmp")
    name = f"{folder}/pgrepl.edit.{os.getpid()}.sql"
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        shell.error(f'could not open temporary file "{name}": {error.strerror}')
        return None
    try:
        with open(descriptor, "wb") as draft:
            draft.write((text + "\n" if text and not text.endswith("\n") else text).encode("utf-8", "surrogateescape"))
        # a time in the past, so that an edit within the file system's clock tick changes it, too
        past = time.time() - 2
        os.utime(name, (past, past))
        return _edit(shell, name, line)
    except OSError as error:
        shell.error(f"{name}: {error.strerror}")
        return None
    finally:
        try:
            os.unlink(name)
        except OSError as error:  # the editor has removed it
            shell.error(f"{name}: {error.strerror}")


def _edit(shell: Shell, name: str, line: int | None) -> Edited | None:
    try:
        before = os.stat(name)
        if not _run_editor(shell, name, line):
            return None
        after = os.stat(name)
        if (before.st_size, int(before.st_mtime)) == (after.st_size, int(after.st_mtime)):
            return Edited("", changed=False)
        with open(name, "rb") as file:
            return Edited(file.read().decode("utf-8", "surrogateescape").replace("\0", ""), changed=True)
    except OSError as error:
        shell.error(f"{name}: {error.strerror}")
        return None


def _run_editor(shell: Shell, name: str, line: int | None) -> bool:
    environment = os.environ
    editor = environment.get("PSQL_EDITOR") or environment.get("EDITOR") or environment.get("VISUAL") or "vi"
    place = f" {environment.get('PSQL_EDITOR_LINENUMBER_ARG', '+')}{line}" if line is not None else ""
    shell.stdout.flush()
    # EDITOR may hold options, so it is not quoted.
    return subprocess.run(f"exec {editor}{place} '{name}'", shell=True, check=False).returncode == 0


# --- definitions ------------------------------------------------------------------------------------------------------


_LINE_NUMBER = re.compile(r"(?<=[\s)])([0-9]+)\s*\Z")


def name_argument(c: BackslashCommand) -> str | None:
    """The rest of the line, without a semicolon."""
    text = c.word(Argument.WHOLE_LINE)
    stripped = (text or "").strip().rstrip(";").rstrip()
    return stripped or None


def definition(c: BackslashCommand, look_up: Callable[[Session], str | None]) -> str | None:
    """The definition that `look_up` finds in the session; None, after a message: it finds none."""
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


# --- routines ---------------------------------------------------------------------------------------------------------


_EMPTY_ROUTINE = """\
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
    text = _routine_definition(c, name)
    if text is None:
        return False
    shown = text if c.name == "sf" else "".join(_numbered(text))
    c.shell.query_out.write(shown)
    return True


@command("ef", rest=Argument.WHOLE_LINE)
def edit_function(c: BackslashCommand) -> Outcome:
    return edit_definition(c, _EMPTY_ROUTINE, _routine_definition, _head_lines)


def _routine_definition(c: BackslashCommand, name: str) -> str | None:
    """The definition of a function by its name, with or without argument types; None, after a message: none."""
    return definition(c, lambda session: _of_name(session, name))


def _of_name(session: Session, name: str) -> str | None:
    from pgrepl.expr.print.print_routine import definition

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


# --- views ------------------------------------------------------------------------------------------------------------


_EMPTY_VIEW = "CREATE VIEW  AS\n SELECT \n  -- something...\n"


@command("sv", "sv+", rest=Argument.WHOLE_LINE)
def show_view(c: BackslashCommand) -> bool:
    name = name_argument(c)
    if name is None:
        c.shell.error("view name is required")
        return False
    text = _view_definition(c, name)
    if text is None:
        return False
    if c.name == "sv+":
        text = "".join(f"{number:<7} {line}\n" for number, line in enumerate(text.splitlines(), 1))
    c.shell.query_out.write(text)
    return True


@command("ev", rest=Argument.WHOLE_LINE)
def edit_view(c: BackslashCommand) -> Outcome:
    return edit_definition(c, _EMPTY_VIEW, _view_definition)


def _view_definition(c: BackslashCommand, name: str) -> str | None:
    """The statement that makes a view; None, after a message: there is none of that name."""
    return definition(c, lambda session: _statement(c, session, name))


def _statement(c: BackslashCommand, session: Session, name: str) -> str | None:
    """The CREATE statement of a function or a view (get_create_object_cmd)."""
    view = relation(session, session.object_oid(oids.REGCLASS, name))
    text = view_definition(session, view.oid, True)
    if view.kind != "v" or text is None:
        c.shell.error(f'"{view.schema}.{view.name}" is not a view')
        return None
    options = [str(option).partition("=") for option in view.options or ()]
    check = next((value for key, _, value in options if key == "check_option"), None)
    shown = [f"{key}={_value(value)}" for key, _, value in options if key != "check_option"]
    statement = f"CREATE OR REPLACE VIEW {quote_identifier(view.schema)}.{quote_identifier(view.name)}"
    if shown:
        statement += f"\n WITH ({', '.join(shown)})"
    statement += f" AS\n{text.removesuffix(';')}"
    return statement + (f"\n WITH {check.upper()} CHECK OPTION\n" if check is not None else "\n")


def _value(text: str) -> str:
    """A storage parameter's value, quoted where it must be (appendReloptionsArray)."""
    return text if quote_identifier(text) == text else quote_literal(text)
