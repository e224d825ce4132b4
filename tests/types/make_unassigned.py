"""Asks a real PostgreSQL 17 and a real 18 which characters Unicode has not assigned, and writes `unassigned.tsv`.

    python -m tests.types.make_unassigned "host=/var/run/postgresql user=postgres" "host=/tmp user=postgres"

A line is a range of characters that 15.1, Unicode's version of 17, has not assigned, in hexadecimal digits; its third
field is 18 where 16.0, that of 18, has assigned them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path

import psycopg

UNASSIGNED = Path(__file__).parents[2] / "pgrepl" / "types" / "data" / "unassigned.tsv"

# a text has neither zero bytes nor surrogates
QUERY = """SELECT n FROM generate_series(1, 1114111) n
    WHERE n NOT BETWEEN 55296 AND 57343 AND NOT unicode_assigned(chr(n)) ORDER BY n"""


def asked(conninfo: str) -> list[int]:
    """The unassigned characters, as a server knows them."""
    with psycopg.connect(conninfo) as connection:
        return [number for (number,) in connection.execute(QUERY)]


def lines(unassigned: Collection[int], later: Collection[int]) -> Iterator[str]:
    """`later`: those that 18 has not assigned, either."""
    yield "first\tlast\tsince"
    numbered = enumerate(unassigned)
    for (_, still), group in groupby(numbered, lambda each: (each[1] - each[0], each[1] in later)):
        numbers = [number for _, number in group]
        yield f"{numbers[0]:x}\t{numbers[-1]:x}\t{'' if still else '18'}"


def make(of_17: str, of_18: str) -> None:
    text = "\n".join(lines(asked(of_17), frozenset(asked(of_18)))) + "\n"
    UNASSIGNED.write_text(text, "ascii")


if __name__ == "__main__":
    make(*sys.argv[1:])
