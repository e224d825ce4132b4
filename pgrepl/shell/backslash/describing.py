r"""`\d` and its family, `\l`, `\z`, and psql's commands for large objects: reads the arguments for `shell.describe`."""

from __future__ import annotations

from pgrepl.shell import describe as describing
from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.scripts.slash_lexer import Outcome


@command("describe")
def describe(c: BackslashCommand) -> Outcome:
    patterns = []
    first = c.word(semicolon=True)
    if first is not None:
        patterns.append(first)
        patterns += _more_patterns(c)
    known = describing.run(c.shell, c.name, patterns)
    return Outcome.UNKNOWN if known is None else Outcome.NEXT if known else Outcome.FAILED


def _more_patterns(c: BackslashCommand) -> list[str]:
    r"""The arguments after the first: of `\df` and `\do` types, of `\drds` a database, of `\dAc` a second pattern."""
    name = c.name
    if name.startswith(("df", "do")):
        return c.words(semicolon=True)
    if name.startswith("drds") or (name.startswith("dA") and name[2:3] not in ("", "+")):
        second = c.word(semicolon=True)
        return [second] if second is not None else []
    return []


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
