r"""psql's commands for large objects: there are none to list, and the others are refused by name."""

from __future__ import annotations

from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.outcome import Outcome

_LARGE_OBJECTS = ("lo_export", "lo_import", "lo_unlink")


@command("lo_")
def large_object(c: BackslashCommand) -> Outcome:
    c.word(semicolon=True)
    c.word(semicolon=True)
    if c.name in ("lo_list", "lo_list+"):
        from pgrepl.shell import describe

        return Outcome.NEXT if describe.run(c.shell, c.name.replace("lo_list", "dl"), ()) else Outcome.FAILED
    if c.name not in _LARGE_OBJECTS:
        return Outcome.UNKNOWN
    c.shell.error(f"\\{c.name} is not supported")
    return Outcome.FAILED
