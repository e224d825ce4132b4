"""Random definitions on both sides: after each, pgrepl and DuckDB know the same tables, columns and rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.lake import duck
from tests.lake.conftest import Lake

# a type here, what DuckDB calls it, and a value's text in both
TYPES = {
    "smallint": ("SMALLINT", "7"),
    "integer": ("INTEGER", "42"),
    "bigint": ("BIGINT", "9000000000"),
    "text": ("VARCHAR", "word"),
    "numeric(8,2)": ("DECIMAL(8,2)", "1.50"),
    "numeric(12,2)": ("DECIMAL(12,2)", "1.50"),
    "date": ("DATE", "2024-02-29"),
    "boolean": ("BOOLEAN", "true"),
    "double precision": ("DOUBLE", "0.25"),
}
OURS = """
    SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY 1, 2, a.attnum"""
THEIRS = """
    SELECT table_schema, table_name, column_name, data_type, is_nullable FROM information_schema.columns
    WHERE table_catalog = 'lake' AND table_name <> 'answer' ORDER BY 1, 2, ordinal_position"""


class Player:
    """Plays one statement after the other on a side that chance chooses. What is refused is fine, if it leaves both
    sides in agreement."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake = lake
        self.chance = random.Random(seed)
        self.session = open_session(lake.catalog, "shop", settings={"pgrepl.engine": "local"})
        self.played: list[str] = []

    def ours(self, text: str) -> list[tuple[str | None, ...]]:
        return [row for result in run(self.session, text) for row in result.rows]

    def step(self) -> None:
        actions: list[Callable[[], str | None]] = [
            self.create, self.create, self.add, self.add, self.drop_column, self.rename_column, self.rename, self.drop,
            self.retype, self.not_null, self.insert, self.insert, self.insert, self.partition, self.move, self.block,
        ]  # fmt: skip
        text = self.chance.choice(actions)()
        if text is None:
            return
        by_duck = text.startswith("duck: ")
        self.played.append(text)
        try:
            if by_duck:
                self.lake.duck_runs(text.removeprefix("duck: "))
            else:
                for part in text.split("; "):
                    self.ours(part)
        except PgError as problem:
            assert problem.sqlstate[:2] in ("42", "23", "0A", "22", "2B"), (problem, self.played)
            if self.session.in_block:
                self.ours("ROLLBACK")
        except duck.DuckError as problem:
            assert "Internal" not in str(problem), (problem, self.played)

    # --- statements ---------------------------------------------------------------------------------------------------

    def tables(self) -> dict[tuple[str, str], dict[str, str]]:
        found: dict[tuple[str, str], dict[str, str]] = {}
        for schema, table, column, kind, _not_null in self.ours(OURS):
            found.setdefault((str(schema), str(table)), {})[str(column)] = str(kind)
        return found

    def pick(self) -> tuple[str, str, str, dict[str, str]] | None:
        """A table as each side names it, with its columns."""
        tables = self.tables()
        if not tables:
            return None
        (schema, table), columns = self.chance.choice(sorted(tables.items()))
        return f"{schema}.{table}", f'"{lake_schema(schema)}".{table}', table, columns

    def side(self, here: str, there: str) -> str:
        return self.chance.choice((here, f"duck: {there}"))

    def name(self) -> str:
        return self.chance.choice("abcdefgh")

    def create(self) -> str:
        schema = self.chance.choice(("public", "sales"))
        columns = self.chance.sample("abcdefgh", self.chance.randint(1, 4))
        kinds = [self.chance.choice(sorted(TYPES)) for _ in columns]
        here = ", ".join(f"{c} {k}" for c, k in zip(columns, kinds, strict=True))
        there = ", ".join(f"{c} {TYPES[k][0]}" for c, k in zip(columns, kinds, strict=True))
        table = "t" + self.name()
        return self.side(
            f"CREATE TABLE {schema}.{table} ({here})", f'CREATE TABLE "{lake_schema(schema)}".{table} ({there})'
        )

    def partition(self) -> str | None:
        parents = [row[0] for row in self.ours("SELECT relname FROM pg_class WHERE relkind = 'p'")]
        if not parents:
            return "CREATE TABLE p (a integer, b text) PARTITION BY LIST (a)"
        parent = self.chance.choice(parents)
        number = self.chance.randint(1, 3)
        return self.chance.choice(
            (
                f"CREATE TABLE p{number} PARTITION OF {parent} FOR VALUES IN ({number})",
                f"ALTER TABLE {parent} DETACH PARTITION p{number}",
                f"ALTER TABLE {parent} ATTACH PARTITION p{number} FOR VALUES IN ({number})",
                f"INSERT INTO {parent} (a) VALUES ({number})",
            )
        )

    def add(self) -> str | None:
        if (picked := self.pick()) is None:
            return None
        here, there, _table, _columns = picked
        column, kind = self.name(), self.chance.choice(sorted(TYPES))
        known, value = TYPES[kind]
        default = self.chance.choice(("", f" DEFAULT '{value}'"))
        return self.side(
            f"ALTER TABLE {here} ADD {column} {kind}{default}",
            f"ALTER TABLE {there} ADD COLUMN {column} {known}{default}",
        )

    def drop_column(self) -> str | None:
        if (picked := self.pick()) is None:
            return None
        here, there, _table, columns = picked
        column = self.chance.choice(sorted(columns))
        return self.side(f"ALTER TABLE {here} DROP {column}", f"ALTER TABLE {there} DROP COLUMN {column}")

    def rename_column(self) -> str | None:
        if (picked := self.pick()) is None:
            return None
        here, there, _table, columns = picked
        column, new = self.chance.choice(sorted(columns)), self.name()
        return self.side(
            f"ALTER TABLE {here} RENAME {column} TO {new}", f"ALTER TABLE {there} RENAME {column} TO {new}"
        )

    def rename(self) -> str | None:
        if (picked := self.pick()) is None:
            return None
        here, there, _table, _columns = picked
        new = "t" + self.name()
        return self.side(f"ALTER TABLE {here} RENAME TO {new}", f"ALTER TABLE {there} RENAME TO {new}")

    def drop(self) -> str | None:
        if (picked := self.pick()) is None or self.chance.random() < 0.5:
            return None
        return self.side(f"DROP TABLE {picked[0]}", f"DROP TABLE {picked[1]}")

    def retype(self) -> str | None:
        if (picked := self.pick()) is None:
            return None
        here, there, _table, columns = picked
        column, kind = self.chance.choice(sorted(columns)), self.chance.choice(sorted(TYPES))
        if (columns[column], kind) in WIDER:
            return self.side(
                f"ALTER TABLE {here} ALTER {column} TYPE {kind}",
                f"ALTER TABLE {there} ALTER {column} TYPE {TYPES[kind][0]}",
            )
        return f"ALTER TABLE {here} ALTER {column} TYPE {kind} USING '{TYPES[kind][1]}'::{kind}"

    def not_null(self) -> str | None:
        if (picked := self.pick()) is None:
            return None
        here, there, _table, columns = picked
        column, verb = self.chance.choice(sorted(columns)), self.chance.choice(("SET", "DROP"))
        return self.side(
            f"ALTER TABLE {here} ALTER {column} {verb} NOT NULL", f"ALTER TABLE {there} ALTER {column} {verb} NOT NULL"
        )

    def insert(self) -> str | None:
        if (picked := self.pick()) is None:
            return None
        here, there, _table, columns = picked
        values = ", ".join(f"'{TYPES[kind][1]}'" for kind in columns.values())
        count = self.chance.choice((1, 12))
        names = ", ".join(columns)
        rows = ", ".join([f"({values})"] * count)
        return self.side(f"INSERT INTO {here} ({names}) VALUES {rows}", f"INSERT INTO {there} ({names}) VALUES {rows}")

    def move(self) -> str | None:
        if (picked := self.pick()) is None:
            return None
        return f"ALTER TABLE {picked[0]} SET SCHEMA {self.chance.choice(('public', 'sales'))}"

    def block(self) -> str:
        parts = [
            self.chance.choice((self.create, self.add, self.rename, self.retype, self.drop_column))() for _ in "123"
        ]
        inside = [part for part in parts if part is not None and not part.startswith("duck: ")]
        return "; ".join(["BEGIN", *inside, self.chance.choice(("COMMIT", "ROLLBACK"))])

    # --- agreement ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        ours = self.ours(OURS)
        parents = set(self.ours("SELECT relnamespace::regnamespace::text, relname FROM pg_class WHERE relkind = 'p'"))
        expected = [
            (
                lake_schema(str(schema)),
                table,
                column,
                TYPES[str(kind)][0],
                is_nullable(not_null == "f" or (schema, table) in parents),
            )
            for schema, table, column, kind, not_null in ours
        ]
        found = [
            (schema, table, column, kind, nullable)
            for schema, table, column, kind, nullable in self.lake.duck(THEIRS)
            if column != "no_columns"
        ]
        assert found == expected, self.played
        for (schema, table), columns in self.tables().items():
            listed = ", ".join(columns)
            here = sorted(self.ours(f"SELECT {listed} FROM {schema}.{table}"), key=str)
            there = self.lake.duck(f'SELECT {listed} FROM "{lake_schema(schema)}".{table}')
            assert sorted([in_duckdbs_words(row) for row in here], key=str) == sorted(there, key=str), self.played


WIDER = {("smallint", "integer"), ("smallint", "bigint"), ("integer", "bigint")}


def is_nullable(value: bool) -> str:
    return "YES" if value else "NO"


def lake_schema(schema: str) -> str:
    return "shop" if schema == "public" else f"shop.{schema}"


def in_duckdbs_words(row: tuple[str | None, ...]) -> tuple[str | None, ...]:
    return tuple({"t": "true", "f": "false"}.get(value, value) if value is not None else None for value in row)


def play(folder: Path, seed: int, steps: int) -> None:
    lake = Lake(folder)
    try:
        lake.sql("CREATE DATABASE shop")
        player = Player(lake, seed)
        player.ours("CREATE SCHEMA sales")
        for _ in range(steps):
            player.step()
            player.check()
        player.session.close()
    finally:
        lake.close()


@pytest.mark.parametrize("seed", dose(range(2), 2))
def test_both_sides_agree_after_each_step(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_both_sides_agree_after_many_steps(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 100)
