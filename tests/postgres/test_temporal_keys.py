"""Keys WITHOUT OVERLAPS, and foreign keys with PERIOD, under random writes: a real 18 and pgrepl accept and refuse the
same rows."""

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

REFERENCING = """
CREATE TABLE f (id int4range, v int4range, n int, CONSTRAINT fk FOREIGN KEY (id, PERIOD v) REFERENCES t DEFERRABLE);
CREATE TABLE g (id int4range, v int4multirange, n int,
    CONSTRAINT gk FOREIGN KEY (id, PERIOD v) REFERENCES m (id, PERIOD v) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE s (id int4range, v int4range, n int, PRIMARY KEY (id, v WITHOUT OVERLAPS),
    parent int4range, FOREIGN KEY (parent, PERIOD v) REFERENCES s) PARTITION BY LIST (id);
CREATE TABLE s0 PARTITION OF s FOR VALUES IN ('[0,1)', '[1,2)');
CREATE TABLE s2 PARTITION OF s DEFAULT;
"""


def _range(chance: random.Random) -> str:
    lower = chance.randrange(30)
    return f"[{lower},{lower + chance.choice((0, 1, 1, 2, 4))})" if chance.random() > 0.05 else f"[{lower},)"


def _value(chance: random.Random, table: str) -> str:
    if chance.random() < 0.05:
        return "NULL"
    return _literal(table, *[_range(chance) for _ in range(chance.randint(1, 2) if table in "mg" else 1)])


def _literal(table: str, *ranges: str) -> str:
    return f"'{{{', '.join(ranges)}}}'" if table in "mg" else f"'{ranges[0]}'"


def _id(chance: random.Random) -> str:
    number = chance.randrange(3)
    return f"'[{number},{number + 1})'"


def _row(chance: random.Random, table: str) -> str:
    parent = f", {chance.choice(('NULL', _id(chance)))}" if table == "s" else ""
    return f"({_id(chance)}, {_value(chance, table)}, {chance.randrange(100)}{parent})"


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


def _referencing(seed: int) -> Iterator[str]:
    """Many rows of few keys, so that a row is referenced in parts; some writes are in blocks, where `gk` waits."""
    chance = random.Random(seed)
    for table in "tms":
        periods = [(key, f"[{at},{at + 3})", at) for key in range(3) for at in range(0, 30, 3)]
        rows = [f"('[{key},{key + 1})', {_literal(table, period)}, {at})" for key, period, at in periods]
        yield f"INSERT INTO {table} VALUES {', '.join(rows)};"
    for _ in range(90):
        table = chance.choice("tmffggss")
        where = f"WHERE n % {chance.randint(2, 9)} = {chance.randrange(3)}"
        yield chance.choice(
            (
                f"INSERT INTO {table} VALUES {_row(chance, table)};",
                f"INSERT INTO {table} VALUES {_row(chance, table)}, {_row(chance, table)};",
                f"UPDATE {table} SET v = v - {_value(chance, table)} {where} AND id = {_id(chance)};",
                f"UPDATE {table} SET v = {_value(chance, table)} {where} AND n < {chance.randrange(30)};",
                f"UPDATE {table} SET id = {_id(chance)}, n = n + 1 {where} AND n > {chance.randrange(30)};",
                f"DELETE FROM {table} {where} AND id = {_id(chance)};",
                "BEGIN;",
                "SET CONSTRAINTS fk DEFERRED;",
                "SET CONSTRAINTS ALL IMMEDIATE;",
                "COMMIT;",
                "COMMIT;",
                "COMMIT;",
            )
        )
    yield "ROLLBACK;"
    for table in "tmfgs":
        yield f"SELECT * FROM {table} ORDER BY id, v, n;"


@pytest.mark.parametrize("seed", dose(range(100, 124), 24, 2))
def test_rows_that_are_covered_are_taken(seed: int, pair18: Pair, tmp_path: Path) -> None:
    script = TABLES + REFERENCING + "\n".join(_referencing(seed)) + "\n"
    assert difference(pair18.play(script), play_pgrepl(script, tmp_path, release=18)) == ""
