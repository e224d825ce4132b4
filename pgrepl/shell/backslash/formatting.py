r"""`\a \C \f \H \pset \t \T \x`: print options."""

from __future__ import annotations

from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.pset import listing, set_option


def _set(c: BackslashCommand, name: str, value: str | None) -> bool:
    return set_option(c.shell, name, value, quiet=c.shell.quiet)


@command("a")
def align(c: BackslashCommand) -> bool:
    return _set(c, "format", "unaligned" if c.shell.options.format == "aligned" else "aligned")


@command("C")
def title(c: BackslashCommand) -> bool:
    return _set(c, "title", c.word(semicolon=True))


@command("f")
def field_separator(c: BackslashCommand) -> bool:
    return _set(c, "fieldsep", c.word())


@command("H", "html")
def html(c: BackslashCommand) -> bool:
    return _set(c, "format", "aligned" if c.shell.options.format == "html" else "html")


@command("pset")
def print_option(c: BackslashCommand) -> bool:
    name, value = c.word(), c.word()
    if name is None:
        c.shell.stdout.write(listing(c.shell.options))
        return True
    return _set(c, name, value)


@command("t")
def tuples_only(c: BackslashCommand) -> bool:
    return _set(c, "tuples_only", c.word(semicolon=True))


@command("T")
def table_attributes(c: BackslashCommand) -> bool:
    return _set(c, "tableattr", c.word())


@command("x")
def expanded(c: BackslashCommand) -> bool:
    return _set(c, "expanded", c.word(semicolon=True))
