"""Random histories of a table that pgrepl and DuckDB write in turn, that is vacuumed and moved: after each step readers
of Iceberg find pgrepl's rows, now and at a snapshot of the past that the metadata tells. Metadata that goes on from its
last making says what metadata says that is made from nothing.

A history takes a fraction of a second: it begins with the copy of a lake, few rows make a file, and no commit waits for
the disk.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.iceberg.metadata import Making, state_of
from pgrepl.iceberg.place import place_of
from tests.iceberg.conftest import Shop
from tests.iceberg.readers import Row
from tests.lake import duck

IN_CATALOG = 10  # rows of an INSERT that stay inlined
SETS = ("k % 2 = 0", "k % 7 = 3", "k < 4", "k BETWEEN 6 AND 24", "k > 20", "k = 5", "k > 40")
CALLS = ("ducklake_flush_inlined_data('lake')", "ducklake_merge_adjacent_files('lake')",
         "ducklake_rewrite_data_files('lake', delete_threshold => 0)")  # fmt: skip
DEFAULTS = ("", "DEFAULT 42", "DEFAULT 7 NOT NULL")


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two lakes with a table that is empty; the second writes deletion vectors."""
    folders = [tmp_path_factory.mktemp(name) for name in ("positions", "vectors")]
    for folder in folders:
        made = Shop(folder / "catalog.db")
        made.sql("CREATE TABLE t (k int, f real, s text)")
        made.close()
        duck.run(folder / "catalog.db", f"CALL lake.set_option('data_inlining_row_limit', {IN_CATALOG})")
    duck.run(folders[1] / "catalog.db", "CALL lake.set_option('write_deletion_vectors', true)")
    for folder in folders:
        duck.close(folder / "catalog.db")
    return folders


class History:
    def __init__(self, lakes: list[Path], folder: Path, seed: int) -> None:
        self.chance, self.pasts = random.Random(seed), random.Random(seed)
        self.folder, self.moves, self.next, self.columns = folder, 0, 0, 0
        self.settings = {"pgrepl.iceberg_snapshots": "2"} if seed % 3 == 0 else {}
        shutil.copytree(lakes[seed % 2], self._at(0))
        self.shop = self._opened()
        self.known: dict[int, list[Row]] = {}
        self.rows: list[Row] = []

    def _opened(self) -> Shop:
        shop = Shop(self.path, is_new=False)
        shop.sql("SET synchronous_commit = off")
        shop.session.close()
        shop.session = shop.open(**self.settings)
        return shop

    def _at(self, move: int) -> Path:
        return self.folder / f"place{'s' * move}"

    def step(self) -> str:
        steps: list[Callable[[], str]] = [
            *[self.insert] * 4, *[self.delete] * 3, *[self.update] * 2, *[self.define] * 2, self.vacuum, self.vacuum,
            self.duck, self.duck, self.move,
        ]  # fmt: skip
        done = self.chance.choice(steps)()
        self.rows = self.known[self.shop.snapshot()] = self.shop.rows("SELECT * FROM t")
        return done

    def run(self, text: str) -> str:
        self.shop.sql(text)
        return text

    def insert(self) -> str:
        count = self.chance.choice([1, 3, 14, 17])
        first, self.next = self.next, self.next + count
        return self.run(f"INSERT INTO t (k, f, s) SELECT g, g / 3.0, CASE WHEN g % 5 > 0 THEN 's' || g END"
                        f" FROM generate_series({first}, {first + count - 1}) g")  # fmt: skip

    def delete(self) -> str:
        return self.run(f"DELETE FROM t WHERE {self.chance.choice(SETS)}")

    def update(self) -> str:
        f = self.chance.choice(["f + 1", "NULL", "'NaN'", "-0.0"])
        return self.run(f"UPDATE t SET s = 'u' || k, f = {f} WHERE {self.chance.choice(SETS)}")

    def define(self) -> str:
        added = [name for (name,) in self.shop.sql(
            "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 3 AND NOT attisdropped"
        )]  # fmt: skip
        choices = [f"ALTER TABLE t ADD c{self.columns} int {self.chance.choice(DEFAULTS)}"]
        if added:
            name = self.chance.choice(added)
            changes = (f"DROP {name}", f"RENAME {name} TO r{self.columns}", f"ALTER {name} TYPE bigint",
                       "ALTER f TYPE double precision")  # fmt: skip
            choices += [f"ALTER TABLE t {change}" for change in changes]
        self.columns += 1
        return self.run(self.chance.choice(choices))

    def vacuum(self) -> str:
        if self.chance.random() < 0.7:
            self.shop.forget_promises()
        return self.run(self.chance.choice(["VACUUM", "VACUUM t", "VACUUM FULL t", "TRUNCATE t"]))

    def duck(self) -> str:
        calls = [f"CALL {call}" for call in CALLS] + [f"DELETE FROM shop.t WHERE {self.chance.choice(SETS)}"]
        call = self.chance.choice(calls)
        try:
            duck.run(self.path, call)
        except duck.DuckError as problem:  # 1.5.5 does not flush a float that was NaN
            return f"{call}: {problem}"
        return call

    @property
    def path(self) -> Path:
        return self._at(self.moves) / "catalog.db"

    def move(self) -> str:
        self.close()
        self.moves += 1
        shutil.move(self._at(self.moves - 1), self._at(self.moves))
        self.shop = self._opened()
        return f"moved to {self.path}"

    def made_anew(self) -> dict[str, Any]:
        with reading(self.shop.session):
            found = self.shop.find("t")
            assert found is not None
            making = Making(found)
            making.read(found, place_of(self.shop.session).of(found), state_of(found))
            return making.metadata()

    def close(self) -> None:
        duck.close(self.path)
        self.shop.close()


def assert_the_same(made: dict[str, Any], anew: dict[str, Any], where: object) -> None:
    """But for ranges, which may end elsewhere, and for snapshots of others, and those that have expired: both are no
    changes of the table."""
    if made["current-snapshot-id"] != anew["current-snapshot-id"]:
        return
    for each in (*made["snapshots"], *anew["snapshots"]):
        del each["manifest-list"]
        each.pop("parent-snapshot-id", None)
    for several in ("snapshots", "snapshot-log", "schemas"):
        known = made.pop(several)
        assert all(each in known for each in anew.pop(several)), where
    assert made == anew, where


def play(lakes: list[Path], folder: Path, seed: int, steps: int) -> None:
    history = History(lakes, folder / str(seed), seed)
    done = []
    try:
        for _ in range(steps):
            done.append(history.step())
            shop = history.shop
            made = json.loads(shop.metadata().json)
            told = [each["snapshot-id"] for each in made["snapshots"]]
            assert_the_same(made, history.made_anew(), (seed, done))
            for reader in ("pyiceberg", "duckdb"):
                assert shop.read(reader) == history.rows, (seed, reader, done)
            past = history.pasts.choice([each for each in told if each in history.known])
            if past != told[-1]:
                reader = history.pasts.choice(["pyiceberg", "duckdb"])
                assert shop.read(reader, snapshot=past) == history.known[past], (seed, reader, past, done)
    finally:
        history.close()
    shutil.rmtree(history.folder)


IN_CI, ALL = 60, 1000


@pytest.mark.parametrize("part", range(4))
def test_readers_follow_a_history(lakes: list[Path], tmp_path: Path, part: int) -> None:
    for seed in range(part, IN_CI, 4):
        play(lakes, tmp_path, seed, 8)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_readers_follow_many_histories(lakes: list[Path], tmp_path: Path, part: int) -> None:
    for seed in range(part, ALL, 10):
        play(lakes, tmp_path, 1000 + seed, 12)
