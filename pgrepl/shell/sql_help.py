r"""`\h`: the synopsis of each SQL command that pgrepl has, from PostgreSQL 17's documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from pgrepl.shell import streams
from pgrepl.shell.help import page
from pgrepl.shell.shell import Shell

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
        found = []
        for entry in entries:
            if wanted == "*" or entry.command.lower().startswith(prefix.lower()):
                found.append(entry)
                if entry.command.lower() == wanted.lower():
                    break
        if found:
            return "".join(_synopsis(entry) for entry in found)
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
