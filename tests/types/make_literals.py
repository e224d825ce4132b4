"""Asks a real PostgreSQL 17 what it makes of each literal in `literals.json`, and writes `literals.jsonl`.

python -m tests.types.make_literals "host=/var/run/postgresql user=postgres"
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pgrepl.types import oids
from pgrepl.types.builtin import array_type, type_by_name, type_by_oid
from pgrepl.types.names import INTERVAL_FIELDS, typmod_in
from tests.types.asked import ask, save

CASES = Path(__file__).with_name("literals.json")  # groups of literals: for these types, under these settings
ANSWERS = CASES.with_suffix(".jsonl")


def type_of(written: str) -> tuple[int, int]:
    """`numeric(5,2)[]` or `interval day to second(3)` → its OID and modifier."""
    found = re.fullmatch(r'("?\w+"?)((?: \w+)*)(?:\((.*)\))?(\[\])?', written)
    assert found is not None, written
    row = type_by_name(found[1].strip('"'))
    assert row is not None, written
    modifiers = found[3].split(",") if found[3] else []
    if row.oid == oids.INTERVAL and (found[2] or modifiers):
        mask = next(mask for mask, words in INTERVAL_FIELDS.items() if words == found[2])
        modifiers.insert(0, str(mask))
    typmod = typmod_in(row.oid, modifiers) if modifiers else -1
    return (array_type(row.oid) if found[4] else row.oid), typmod


def make(conninfo: str) -> None:
    flat = [
        (typename, group["settings"], literal)
        for group in json.loads(CASES.read_text("utf-8"))
        for typename in group["types"]
        for literal in group["literals"]
    ]
    queries = [(settings, query(typename, literal)) for typename, settings, literal in flat]
    save(ANSWERS, ([*case, answer] for case, answer in zip(flat, ask(conninfo, queries), strict=True)))


def query(typename: str, literal: str) -> str:
    """The input function itself where a cast would also cut what is too long."""
    quoted = "'" + literal.replace("'", "''") + "'"
    typoid, typmod = type_of(typename)
    if typmod < 0:
        return f"SELECT {quoted}::{typename}"
    row = type_by_oid(typoid)
    assert row is not None
    return f"SELECT {row.input}({quoted}, {row.elem or row.oid}, {typmod})"


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else "")
