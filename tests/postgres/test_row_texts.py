"""Texts of rows and of arrays of rows, read and written by whole columns: as a real server writes them."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from pgrepl.catalog.session.transaction import reading
from pgrepl.types.lake.column_text import column_text
from pgrepl.types.lake.column_values import values_of
from pgrepl.types.lake.structs import file_form
from pgrepl.types.style import TextStyle
from tests.postgres.side_by_side import SideBySide

MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'o k', 'a\"b')",
    "CREATE DOMAIN small AS int CHECK (VALUE < 1000)",
    "CREATE TYPE inside AS (x small, y text, m mood)",
    "CREATE TYPE c AS (i inside, l text[], ii inside[], u uuid, b bytea, n numeric(9,2), d date, z timestamptz,"
    " j jsonb)",
)
LETTERS = [
    "",
    "a",
    "é",
    " ",
    "\t",
    "\v",
    "\f",
    "\n",
    "\r",
    '"',
    "\\",
    "(",
    ")",
    "{",
    "}",
    ",",
    "NULL",
    "null",
    "'",
    "\x01",
]
COUNT = 150


def word(random: Random) -> str | None:
    return None if random.random() < 0.2 else "".join(random.choices(LETTERS, k=random.randrange(4)))


def values(random: Random) -> dict[str, object]:
    return {
        "n": random.choice([None, 1, -7]),
        "word": word(random),
        "mood": random.choice([None, "sad", "o k", 'a"b']),
        "words": [word(random) for _ in range(random.randrange(4))],
        "bytes": random.choice([None, b"", b"\x00\xff"]),
        "number": random.choice([None, "1.50", "-3"]),
        "when": random.choice([None, "2024-02-29", "infinity", "0044-03-15 BC"]),
        "json": random.choice([None, '{"a": "b,c\\"d"}', "[]"]),
    }


ROW = (
    "ROW(ROW(%(n)s, %(word)s, %(mood)s)::inside, %(words)s::text[], ARRAY[ROW(1, %(word)s, %(mood)s), NULL]::inside[],"
    " md5(%(n)s::text)::uuid, %(bytes)s::bytea, %(number)s, %(when)s::date, %(when)s::timestamptz, %(json)s::jsonb)::c"
)


def test_rows_and_arrays_of_rows(sides: SideBySide) -> None:
    for text in MADE:
        sides.run(text)
    sides.link.execute("SET timezone = 'GMT'; CREATE TABLE t (c c, a c[], i inside)")
    random = Random(5)
    for _ in range(COUNT):
        made = values(random)
        sides.link.execute(
            f"INSERT INTO t VALUES ({ROW}, ARRAY[{ROW}, NULL]::c[], ROW(%(n)s, %(word)s, %(mood)s))".encode(), made
        )
    sides.link.execute(
        "INSERT INTO t VALUES (NULL, NULL, NULL), (ROW(NULL), '{}', '(,,)')".replace("ROW(NULL)", "'(,,,,,,,,)'")
    )
    session = sides.ours.session
    with reading(session):
        for column, name in (("c", "c"), ("a", "c[]"), ("i", "inside")):
            texts = [text for (text,) in sides.link.execute(f"SELECT {column}::text FROM t".encode())]
            ((oid,),) = sides.ours(f"SELECT '{name}'::regtype::oid")
            typoid = session.type_of(int(oid or 0))
            kind = file_form(typoid, -1)
            array = values_of(pa.array(texts, pa.string()), typoid, -1, TextStyle(), kind)
            assert column_text(array, typoid, kind, TextStyle()).to_pylist() == texts
