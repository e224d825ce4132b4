"""Random tables in all of psql's formats, drawn by the real psql and by ours."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from pgrepl.shell.formats.table import PrintOptions, result_table
from pgrepl.shell.streams import Stream, print_table
from tests.postgres.play import Pair

OIDS = {"text": 25, "int": 23, "numeric": 1700, "bool": 16}
PIECES = [
    "a", "b", " ", "x y", "\n", "\t", "\r", "é", "日", "|", '"', ",", "\\", "<&>", "\x01", "\u0085", "e\u0301",
    "\u200b", "1", ".", "~", "😀", "$", "\ufffe", "-", "\u1100",
]  # fmt: skip
SETTINGS = (
    "border", "columns", "csv_fieldsep", "expanded", "footer", "format", "linestyle", "null", "numericlocale",
    "tuples_only", "unicode_border_linestyle", "unicode_column_linestyle", "unicode_header_linestyle", "xheader_width",
    "fieldsep", "recordsep",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    headers: list[str]
    types: list[str]
    rows: list[list[str | None]]
    options: PrintOptions


class Paper(Stream):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__(99)
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)


def text(chance: random.Random, longest: int) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(0, longest)))


def value(chance: random.Random, kind: str) -> str | None:
    if chance.random() < 0.15:
        return None
    if kind == "text":
        return text(chance, chance.choice([3, 10, 30]))
    if kind == "int":
        return str(chance.randint(-99999, 99999))
    if kind == "bool":
        return chance.choice("tf")
    return chance.choice(["1.50", "-1234567.891", "0", "NaN", "12345678901234567890"])


def options(chance: random.Random) -> PrintOptions:
    pick = chance.choice
    lines = ["single", "double"]
    drawn = PrintOptions(
        border=pick([0, 1, 1, 2, 3]),
        columns=pick([0, 0, 20, 40, 10, 70]),
        expanded=pick(["off", "off", "on", "auto"]),
        csv_fieldsep=pick([",", ";", "."]),
        fieldsep=pick(["|", "ab"]),
        fieldsep_zero=chance.random() < 0.1,
        footer=chance.random() < 0.8,
        format=pick(
            ["aligned", "aligned", "wrapped", "wrapped", "unaligned", "csv", "html", "asciidoc", "latex",
             "latex-longtable", "troff-ms"]
        ),
        linestyle=pick(["ascii", "old-ascii", "unicode"]),
        null=pick(["", "(null)", "¤"]),
        numericlocale=chance.random() < 0.3,
        recordsep=pick(["\n", "\n", "--"]),
        recordsep_zero=chance.random() < 0.1,
        tableattr=pick([None, "0.3 0.2", "a b c"]),
        title=pick([None, None, "Ti tle", "a long title that is much longer than the table ever is", "t|\\<"]),
        tuples_only=chance.random() < 0.2,
        unicode_border_linestyle=pick(lines),
        unicode_column_linestyle=pick(lines),
        unicode_header_linestyle=pick(lines),
        xheader_width=pick(["full", "column", "page", 5, 20]),
    )  # fmt: skip
    if drawn.format == "aligned" and drawn.expanded != "off" and drawn.border >= 2:
        # Only later releases widen a narrow value to the record's header line here.
        return replace(drawn, border=1)
    return drawn


def case(chance: random.Random) -> Case:
    types = [
        chance.choice(["text", "int", "numeric", "bool", "text"]) for _ in range(chance.choice([0, 1, 1, 2, 3, 4, 6]))
    ]
    rows = [[value(chance, kind) for kind in types] for _ in range(chance.choice([0, 1, 2, 3, 5, 12]))]
    return Case([text(chance, 6) or "c" for _ in types], types, rows, options(chance))


def escaped(string: str) -> str:
    """The inside of a U&'' constant."""
    return "".join(c if c.isascii() and c.isalnum() else f"\\+{ord(c):06X}" for c in string)


def quoted(string: str) -> str:
    """An argument of a backslash command."""
    return "'" + string.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"


def commands(drawn: Case) -> list[str]:
    lines = []
    for name in SETTINGS:
        setting = getattr(drawn.options, name)
        shown = {True: "on", False: "off"}[setting] if isinstance(setting, bool) else str(setting)
        lines.append(f"\\pset {name} {quoted(shown)}")
    for name in ("fieldsep_zero", "recordsep_zero"):
        if getattr(drawn.options, name):
            lines.append(f"\\pset {name}")
    for name in ("tableattr", "title"):
        setting = getattr(drawn.options, name)
        lines.append(f"\\pset {name}" + ("" if setting is None else f" {quoted(setting)}"))
    return lines


def query(drawn: Case) -> str:
    if not drawn.types:
        return f"select from generate_series(1, {len(drawn.rows)})"
    names = ", ".join(f'v{at} as U&"{escaped(header)}"' for at, header in enumerate(drawn.headers))
    rows = drawn.rows or [[None] * len(drawn.types)]
    values = []
    for row in rows:
        cells = zip(row, drawn.types, strict=True)
        shown = [f"null::{kind}" if cell is None else f"U&'{escaped(cell)}'::{kind}" for cell, kind in cells]
        values.append(f"({', '.join(shown)})")
    columns = ", ".join(f"v{at}" for at in range(len(drawn.types)))
    where = "" if drawn.rows else " where false"
    return f"select {names} from (values {', '.join(values)}) s({columns}){where}"


@pytest.mark.parametrize("seed", range(4))
def test_tables_are_drawn_as_psql_draws_them(seed: int, pair16: Pair) -> None:
    chance = random.Random(seed)
    cases = [case(chance) for _ in range(120)]
    script = ["\\pset pager off"]
    for drawn in cases:
        script += [*commands(drawn), query(drawn) + ";", "\\echo =====end====="]
    printed = pair16.ask(pair16.publisher, "postgres", "\n".join(script), "-q").split("=====end=====\n")
    assert len(printed) == len(cases) + 1
    for drawn, wanted in zip(cases, printed[:-1], strict=True):
        paper = Paper()
        oids = [OIDS[kind] for kind in drawn.types]
        print_table(result_table(drawn.headers, oids, drawn.rows, drawn.options), drawn.options, paper)
        assert "".join(paper.written) == wanted, drawn
