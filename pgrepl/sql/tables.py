"""The parse tables: the content of `tables.bin`, its loading, and the lookup of a state's row.

`pgrepl.sql.make_tables` writes the file from the grammar when the package is built; this module reads it with marshal
in a few milliseconds. A row maps the name of a terminal to an action. Most of a row are whole classes of key words
with one action, so the file stores layers (class, action) with exceptions, and a default; the parser puts a row
together when it first needs it.

Actions: a number ≥ 0 shifts and goes to that state; -1 - r reduces by rule r; ACCEPT ends the parse; None is an error.
"""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ACCEPT = 1 << 30
MARSHAL_VERSION = 4
PATH = Path(__file__).with_name("tables.bin")
PLPGSQL = PATH.with_name("plpgsql.bin")

Row = dict[str, "int | None"]
TokenClass = tuple[str, ...]
PackedRow = tuple[tuple[tuple[int, "int | None"], ...], Row, "int | None"]
"""Layers (number of a token class, action), exceptions, default."""


@dataclass(slots=True)
class Tables:
    fingerprint: str
    starts: dict[str, int]
    classes: list[TokenClass]
    packed_rows: list[PackedRow | int]
    """One for each state; a lone number is a reduction for which no token is needed."""
    gotos: list[tuple[dict[int, int], int]]
    """Per nonterminal: state before it → state after it, and the most usual one, which is left out of the dict."""
    rules: list[tuple[int, int, str, tuple[int, ...]]]
    """(nonterminal, length, alias, places of the children on the value stack: -length … -1, or 0 for None)."""


def unpack_row(tables: Tables, state: int) -> tuple[Row, int | None]:
    """A state's full row and its default action."""
    packed = tables.packed_rows[state]
    assert not isinstance(packed, int)
    layers, exceptions, default = packed
    row: Row = {}
    for number, action in layers:
        row.update(dict.fromkeys(tables.classes[number], action))
    row.update(exceptions)
    return row, default


def pack(tables: Tables) -> bytes:
    fields = (tables.fingerprint, tables.starts, tables.classes, tables.packed_rows, tables.gotos, tables.rules)
    return marshal.dumps(fields, MARSHAL_VERSION)


@cache
def load(path: Path = PATH) -> Tables:
    fields: tuple[Any, ...] = marshal.loads(path.read_bytes())
    return Tables(*fields)
