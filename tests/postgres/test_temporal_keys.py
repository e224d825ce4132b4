"""Keys WITHOUT OVERLAPS under random writes: a real 18 and pgrepl accept and refuse the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.play import Pair, difference, play_pgrepl

TABLES = """\\set VERBOSITY sqlstate
CREATE TABLE t (id int4range, v int4range, n int, CONSTRAINT tp PRIMARY KEY (id, v WITHOUT OVERLAPS));
CREATE TABLE m (id int4range, v int4multirange, n int, CONSTRAINT mu UNIQUE (id, v WITHOUT OVERLAPS));
"""


def _range(chance: random.Random) -> str:
    lower = chance.randrange(30)
    return f"[{lower},{lower + chance.choice((0, 1, 1, 2, 4))})" if chance.random() > 0.05 else f"[{lower},)"


def _value(chance: random.Random, table: str) -> str:
    if chance.random() < 0.05:
        return "NULL"
    text = _range(chance)
    return f"'{text}'" if table == "t" else f"'{{{', '.join([text, _range(chance)][: chance.randint(1, 2)])}}}'"


def _row(chance: random.Random, table: str) -> str:
    number = chance.randrange(3)
    return f"('[{number},{number + 1})', {_value(chance, table)}, {chance.randrange(100)})"


def _statements(seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(70):
        table = chance.choice("tm")
        rows = ", ".join(_row(chance, table) for _ in range(chance.choice((1, 1, 2, 3))))
        where = f"WHERE n % {chance.randint(2, 6)} = 0"
        yield chance.choice(
            (
                f"INSERT INTO {table} VALUES {rows};",
                f"INSERT INTO {table} VALUES {rows} ON CONFLICT DO NOTHING;",
                f"UPDATE {table} SET id = '[{chance.randrange(3)},3)', n = n + 1 {where};",
                f"UPDATE {table} SET v = {_value(chance, table)} {where} AND upper(v) < {chance.randrange(30)};",
                "UPDATE t SET v = int4range(lower(v) + 40, upper(v) + 40) WHERE lower(v) < 40;",
                f"DELETE FROM {table} {where};",
            )
        )
    for table in "tm":
        yield f"SELECT * FROM {table} ORDER BY id, v, n;"
        yield f"CREATE TABLE {table}2 AS SELECT id, v FROM {table} UNION ALL SELECT id, v FROM {table} LIMIT 40;"
        yield f"ALTER TABLE {table}2 ADD UNIQUE (id, v WITHOUT OVERLAPS);"


@pytest.mark.parametrize("seed", dose(range(24), 24, 2))
def test_the_same_rows_are_taken(seed: int, pair18: Pair, tmp_path: Path) -> None:
    script = TABLES + "\n".join(_statements(seed)) + "\n"
    assert difference(pair18.play(script), play_pgrepl(script, tmp_path, release=18)) == ""
