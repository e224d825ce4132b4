r"""`\sv` shows a view's definition, `\ev` puts it into the query buffer to be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.backslash.definitions import definition, edit_definition, name_argument
from pgrepl.shell.outcome import Outcome
from pgrepl.shell.slash_lexer import Argument
from pgrepl.sql.quote import quote_identifier, quote_literal
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_EMPTY = "CREATE VIEW  AS\n SELECT \n  -- something...\n"


@command("sv", "sv+", rest=Argument.WHOLE_LINE)
def show_view(c: BackslashCommand) -> bool:
    name = name_argument(c)
    if name is None:
        c.shell.error("view name is required")
        return False
    text = _definition(c, name)
    if text is None:
        return False
    if c.name == "sv+":
        text = "".join(f"{number:<7} {line}\n" for number, line in enumerate(text.splitlines(), 1))
    c.shell.query_out.write(text)
    return True


@command("ev", rest=Argument.WHOLE_LINE)
def edit_view(c: BackslashCommand) -> Outcome:
    return edit_definition(c, _EMPTY, _definition)


def _definition(c: BackslashCommand, name: str) -> str | None:
    """The statement that makes a view; None, after a message: there is none of that name."""
    return definition(c, lambda session: _statement(c, session, name))


def _statement(c: BackslashCommand, session: Session, name: str) -> str | None:
    """As get_create_object_cmd does."""
    from pgrepl.catalog.relation import relation
    from pgrepl.expr.definitions import view_definition

    view = relation(session, session.object_oid(oids.REGCLASS, name))
    text = view_definition(session, view.oid, True)
    if view.kind != "v" or text is None:
        c.shell.error(f'"{view.schema}.{view.name}" is not a view')
        return None
    options = [str(option).partition("=") for option in view.options or ()]
    check = next((value for key, _, value in options if key == "check_option"), None)
    shown = [f"{key}={_value(value)}" for key, _, value in options if key != "check_option"]
    made = f"CREATE OR REPLACE VIEW {quote_identifier(view.schema)}.{quote_identifier(view.name)}"
    if shown:
        made += f"\n WITH ({', '.join(shown)})"
    made += f" AS\n{text.removesuffix(';')}"
    return made + (f"\n WITH {check.upper()} CHECK OPTION\n" if check is not None else "\n")


def _value(text: str) -> str:
    """As appendReloptionsArray does."""
    return text if quote_identifier(text) == text else quote_literal(text)
