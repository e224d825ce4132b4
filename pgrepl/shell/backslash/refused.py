r"""psql's commands for views' sources and large objects, which pgrepl refuses by name."""

from __future__ import annotations

from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.outcome import Outcome
from pgrepl.shell.slash_lexer import Argument

_LARGE_OBJECTS = ("lo_export", "lo_import", "lo_list", "lo_list+", "lo_unlink")


@command("ev", "sv", "sv+", rest=Argument.WHOLE_LINE)
def refuse(c: BackslashCommand) -> bool:
    c.shell.error(f"\\{c.name} is not supported")
    return False


@command("lo_")
def large_object(c: BackslashCommand) -> Outcome:
    c.word(semicolon=True)
    c.word(semicolon=True)
    if c.name not in _LARGE_OBJECTS:
        return Outcome.UNKNOWN
    refuse(c)
    return Outcome.FAILED
