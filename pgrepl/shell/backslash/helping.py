r"""`\? \h \copyright \errverbose \q`, and the pages of `--help`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from pgrepl.shell import streams
from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.formats.table import message_text
from pgrepl.shell.scripts.slash_lexer import Argument, Outcome
from pgrepl.shell.shell import Shell

_PAGES = Path(__file__).parent / "data"


def _read(name: str) -> str:
    return (_PAGES / f"{name}.txt").read_text(encoding="utf-8")


def page(shell: Shell, text: str) -> None:
    """Print a text, through the pager if it is long."""
    pager = streams.pager(text.count("\n"), shell.options.pager, shell.options.pager_min_lines)
    (pager or shell.stdout).write(text)
    if pager is not None:
        pager.close()


def show_commands(shell: Shell) -> None:
    options, connection = shell.options, shell.connection
    database = "no connection" if connection is None else f'"{connection.database}"'
    page(
        shell,
        _read("commands").format(
            html=_on(options.format == "html"),
            tuples_only=_on(options.tuples_only),
            expanded=options.expanded,
            database=database,
            timing=_on(shell.timing),
        ),
    )


def show_options(shell: Shell) -> None:
    page(shell, _read("options"))


def show_copyright(shell: Shell) -> None:
    shell.stdout.write(_read("copyright"))


def show_variables(shell: Shell) -> None:
    page(shell, _read("variables"))


def _on(value: bool) -> str:
    return "on" if value else "off"


# --- sql help ---------------------------------------------------------------------------------------------------------


_DATA = Path(__file__).parent / "data" / "sql_help.json"
_URL = "https://www.postgresql.org/docs/17/{}.html"


class Topic(NamedTuple):
    command: str
    description: str
    synopsis: str
    document: str


def topics() -> list[Topic]:
    """All commands, in alphabetical order."""
    return [Topic(*entry) for entry in json.loads(_DATA.read_text(encoding="utf-8"))]


def show_sql_help(shell: Shell, wanted: str | None) -> None:
    page(shell, _list(topics()) if not wanted else _synopses(topics(), wanted))


def _list(entries: list[Topic]) -> str:
    """The commands in as many columns as the screen allows."""
    size = streams.screen_size()
    width = max(len(entry.command) for entry in entries) + 1
    columns = max(((size.columns if size is not None else 80) - 3) // width, 1)
    rows = -(-len(entries) // columns)
    lines = ["Available help:\n"]
    for row in range(rows):
        cells = [entries[at].command if at < len(entries) else "" for at in range(row, rows * columns, rows)]
        lines.append("  " + "".join(f"{cell:<{width}}" for cell in cells[:-1]) + cells[-1] + "\n")
    return "".join(lines)


def _synopses(entries: list[Topic], wanted: str) -> str:
    """The synopses of the commands that begin with the words, or with the first two, or with the first (helpSQL)."""
    for prefix in _prefixes(wanted):
        chosen = []
        for entry in entries:
            if wanted == "*" or entry.command.lower().startswith(prefix.lower()):
                chosen.append(entry)
                if entry.command.lower() == wanted.lower():
                    break
        if chosen:
            return "".join(_synopsis(entry) for entry in chosen)
    return f'No help available for "{wanted}".\nTry \\h with no arguments to see available help.\n'


def _prefixes(wanted: str) -> list[str]:
    words = wanted.split(" ")
    prefixes = [wanted]
    if len(words) > 2:
        prefixes.append(" ".join(words[:2]))
    if len(words) > 1:
        prefixes.append(words[0])
    return prefixes


def _synopsis(entry: Topic) -> str:
    return (
        f"Command:     {entry.command}\n"
        f"Description: {entry.description}\n"
        f"Syntax:\n{entry.synopsis}\n\n"
        f"URL: {_URL.format(entry.document)}\n\n"
    )


# --- helping ----------------------------------------------------------------------------------------------------------


@command("?")
def slash_help(c: BackslashCommand) -> bool:

    topic = c.word()
    {"options": show_options, "variables": show_variables}.get(topic or "", show_commands)(c.shell)
    return True


@command("h", "help", rest=Argument.WHOLE_LINE)
def sql_help(c: BackslashCommand) -> bool:

    show_sql_help(c.shell, c.word(Argument.WHOLE_LINE, semicolon=True))
    return True


@command("copyright")
def copyright_notice(c: BackslashCommand) -> bool:

    show_copyright(c.shell)
    return True


@command("errverbose")
def verbose_error(c: BackslashCommand) -> bool:
    if c.shell.last_error is None:
        c.shell.say("There is no previous error.")
    else:
        report, query = c.shell.last_error
        c.shell.error(message_text(report, query, "verbose", "always"))
    return True


@command("q", "quit")
def leave(c: BackslashCommand) -> Outcome:
    return Outcome.QUIT
