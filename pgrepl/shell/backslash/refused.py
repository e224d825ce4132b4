r"""Commands of psql that pgrepl does not have: functions, large objects, `\copy`. They are refused by name."""

from __future__ import annotations

from pgrepl.shell.backslash.command import Command, command
from pgrepl.shell.slash_lexer import Argument


@command("ef", "ev", "sf", "sf+", "sv", "sv+", "copy", rest=Argument.WHOLE_LINE)
@command("lo_export", "lo_import", "lo_list", "lo_list+", "lo_unlink")
def refuse(c: Command) -> bool:
    c.shell.error(f"\\{c.name} is not supported")
    return False
