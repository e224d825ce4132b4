"""Random histories of a table that pgrepl and DuckDB write in turn: both see the model's rows, at each snapshot."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrepl.lake.write.statement import Write
from tests.lake.conftest import Lake
from tests.lake.test_write import assert_same_history, files_of

SETS = ["a % 2 = 0", "a % 7 = 3", "a < 20", "a BETWEEN 40 AND 180", "a > 150", "a = 5", "b = 'u'"]
HERE = st.one_of(
    st.tuples(st.just("insert"), st.sampled_from([1, 3, 120, 250])),
    st.tuples(st.just("delete"), st.sampled_from(SETS)),
    st.tuples(st.just("update"), st.sampled_from(SETS)),
    st.tuples(st.just("truncate"), st.none()),
)
THERE = st.one_of(
    st.tuples(st.just("duck insert"), st.sampled_from([1, 15])),
    st.tuples(st.just("duck delete"), st.sampled_from(SETS)),
    st.tuples(st.just("duck update"), st.sampled_from(SETS)),
    st.tuples(
        st.just("duck call"),
        st.sampled_from(
            [
                "ducklake_flush_inlined_data('lake')",
                "ducklake_merge_adjacent_files('lake')",
                "ducklake_rewrite_data_files('lake', delete_threshold => 0)",
            ]
        ),
    ),
)
BLOCK = st.tuples(st.sampled_from(["commit", "rollback", "rollback to"]), st.lists(HERE, min_size=1, max_size=4))
HISTORIES = st.lists(st.one_of(HERE, HERE, THERE, BLOCK), min_size=2, max_size=8)

Model = dict[int, str]


def chosen(model: Model, condition: str) -> list[int]:
    text = condition.replace("BETWEEN 40 AND 180", "in range(40, 181)").replace(" = ", " == ")
    return [a for a, b in model.items() if eval(text, {"range": range}, {"a": a, "b": b})]


class Player:
    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.model: Model = {}
        self.next = 0
        lake.sql("CREATE TABLE t (a int, b text)")

    def play(self, what: str, how: Any) -> None:
        getattr(self, what.replace(" ", "_"))(how)

    def fresh(self, count: int, word: str) -> list[tuple[int, str]]:
        rows = [(self.next + i, word) for i in range(count)]
        self.next += count
        self.model.update(rows)
        return rows

    # --- pgrepl ----------------------------------------------------------------------------------------------------

    def insert(self, count: int) -> None:
        rows = self.fresh(count, "i")
        self.lake.write("t", lambda write: write.insert(rows))

    def delete(self, condition: str) -> None:
        places, gone = self.lake.places("t"), chosen(self.model, condition)
        for a in gone:
            del self.model[a]
        self.lake.write("t", lambda write: write.delete([places[a] for a in gone]))

    def update(self, condition: str) -> None:
        places, changed = self.lake.places("t"), chosen(self.model, condition)
        self.model.update(dict.fromkeys(changed, "u"))

        def change(write: Write) -> None:
            for a in changed:
                write.update(places[a], (a, "u"))

        self.lake.write("t", change)

    def truncate(self, _: None) -> None:
        self.model.clear()
        self.lake.write("t", Write.truncate)

    def block(self, end: str, steps: list[tuple[str, Any]]) -> None:
        before, files = dict(self.model), files_of(self.lake)
        self.lake.sql("BEGIN")
        for number, (what, how) in enumerate(steps):
            if number == len(steps) // 2:
                self.lake.sql("SAVEPOINT s")
                half, half_files = dict(self.model), files_of(self.lake)
            self.play(what, how)
            self.check()
        if end == "rollback to":
            self.lake.sql("ROLLBACK TO s")
            self.model = half
            assert files_of(self.lake) == half_files
            end = "commit"
            self.check()
        self.lake.sql(end)
        if end == "rollback":
            self.model = before
            assert files_of(self.lake) == files

    def commit(self, steps: list[tuple[str, Any]]) -> None:
        self.block("commit", steps)

    def rollback(self, steps: list[tuple[str, Any]]) -> None:
        self.block("rollback", steps)

    def rollback_to(self, steps: list[tuple[str, Any]]) -> None:
        self.block("rollback to", steps)

    # --- DuckDB ----------------------------------------------------------------------------------------------------

    def duck_insert(self, count: int) -> None:
        rows = self.fresh(count, "d")
        self.lake.duck_runs("INSERT INTO postgres.t VALUES " + ", ".join(f"({a}, '{b}')" for a, b in rows))

    def duck_delete(self, condition: str) -> None:
        for a in chosen(self.model, condition):
            del self.model[a]
        self.lake.duck_runs(f"DELETE FROM postgres.t WHERE {condition}")

    def duck_update(self, condition: str) -> None:
        self.model.update(dict.fromkeys(chosen(self.model, condition), "u"))
        self.lake.duck_runs(f"UPDATE postgres.t SET b = 'u' WHERE {condition}")

    def duck_call(self, call: str) -> None:
        self.lake.duck_runs(f"CALL {call}")

    # --- both ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        assert sorted(self.lake.rows("t")) == sorted((str(a), b) for a, b in self.model.items())


def play(history: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        try:
            player = Player(lake)
            for what, how in history:
                player.play(what, how)
                player.check()
            assert_same_history(lake)
            missing = [a for a in (0, 5, 43, 150) if a in player.model]
            assert len(lake.lookup("t", [1], [(a,) for a in (0, 5, 43, 150)])) == len(missing)
        finally:
            lake.close()


@settings(max_examples=4, deadline=None)
@given(HISTORIES)
def test_histories(history: list[tuple[str, Any]]) -> None:
    play(history)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(HISTORIES)
def test_many_histories(history: list[tuple[str, Any]]) -> None:
    play(history)
