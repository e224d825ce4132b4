"""VACUUM's work beside others': what they do to a table while its new files are written is in the new files, too."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.catalog.session.transaction import statement
from pgrepl.lake import compact
from pgrepl.lake.commit import Stale
from tests.lake.conftest import Lake
from tests.lake.test_changes import difference, feed, state


def fold_beside(lake: Lake, meanwhile: Callable[[], None]) -> int:
    """Deleted positions of `t` go into files; how many files."""
    session = open_session(lake.catalog)
    with closing(session), statement(session):
        staged = compact.stage_folded(session, find_relation(session, range_var(["t"])).oid, rewrites=True)
        meanwhile()
        if staged is None:
            return 0
        session.transaction.require_write()
        return compact.commit_folded(session, staged)


def vacuum_beside(lake: Lake, meanwhile: Callable[[], None], *, full: bool = False) -> bool:
    """A compaction of `t` in a session of its own, others' work between its stage and its commit; was there any?"""
    session = open_session(lake.catalog)
    with closing(session), statement(session):
        staged = compact.stage(session, find_relation(session, range_var(["t"])).oid, full=full)
        meanwhile()
        if staged is None:
            return False
        session.transaction.require_write()
        compact.commit(session, staged)
        return True


@pytest.fixture
def t(lake: Lake) -> Lake:
    """Rows in two files and in the catalog, some of them deleted; a slot keeps all of it."""
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    lake.sql("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 300) g")
    lake.sql("INSERT INTO t SELECT g, 'x' FROM generate_series(301, 500) g")
    for n in range(12):
        lake.sql(f"INSERT INTO t SELECT {1000 + 10 * n} + g, 'i' FROM generate_series(0, 8) g")
    lake.sql("DELETE FROM t WHERE a % 10 = 3")
    return lake


def test_rows_that_others_delete_and_change_meanwhile(t: Lake) -> None:
    def meanwhile() -> None:
        t.sql("DELETE FROM t WHERE a IN (1, 250, 301, 500, 1000, 1111)")
        t.sql("UPDATE t SET b = 'new' WHERE a IN (2, 299, 302, 1001)")
        t.sql("UPDATE t SET b = b || '!' WHERE a IN (2, 1001); INSERT INTO t VALUES (9999, 'came')")
        t.sql("DELETE FROM t WHERE a = 299")

    start = t.last_snapshot()
    assert vacuum_beside(t, meanwhile)
    last = t.last_snapshot()
    assert feed(t, last - 1, last) == []
    assert state(t, last) == state(t, last - 1)
    told = {(row_id, new) for _, row_id, _, new in feed(t, start, last)}
    assert {new for _, new in told} >= {None, (9999, "came"), (2, "new!"), (1001, "new!")}
    rows = sorted(state(t, last).values())
    assert [row for row in rows if row[0] in (1, 2, 299, 302, 1001, 9999)] == [
        (2, "new!"), (302, "new"), (1001, "new!"), (9999, "came"),
    ]  # fmt: skip
    assert sorted((int(a or 0), b) for a, b in t.duck("SELECT a, b FROM postgres.t")) == rows
    t.sql("SELECT pg_drop_replication_slot('s')")
    t.sql("VACUUM FULL")
    assert sorted(state(t, t.last_snapshot()).values()) == rows


@pytest.mark.parametrize(
    "change",
    ["TRUNCATE t", "ALTER TABLE t ADD COLUMN c int", "VACUUM FULL t", "DELETE FROM t", "CREATE INDEX ON t (a)"],
)
def test_what_cannot_be_followed_is_stale(t: Lake, change: str) -> None:
    with pytest.raises(Stale):
        vacuum_beside(t, lambda: t.sql(change))


def play(t: Lake, chance: random.Random, rounds: int) -> None:
    statements = (
        "DELETE FROM t WHERE a % {m} = 1", "UPDATE t SET b = b || '.' WHERE a % {m} = 2", "DELETE FROM t WHERE a = {n}",
        "UPDATE t SET b = 'u' WHERE a BETWEEN {n} AND {n} + 3", "INSERT INTO t VALUES ({n}, 'v'), ({n} + 1, 'w')",
        "INSERT INTO t SELECT g, 'f' FROM generate_series({n}, {n} + 200) g",
        "BEGIN; DELETE FROM t WHERE a % {m} = 3; INSERT INTO t VALUES ({n}, 'z'); COMMIT",
    )  # fmt: skip
    for _ in range(rounds):
        start = t.last_snapshot()
        states = {start: state(t, start)}

        def meanwhile(states: dict[int, dict[int, tuple[object, ...]]] = states) -> None:
            for _ in range(chance.randrange(5)):
                before = t.last_snapshot()
                t.sql(chance.choice(statements).format(n=chance.randrange(2000), m=chance.choice((17, 23, 41))))
                for snapshot in range(before + 1, t.last_snapshot() + 1):
                    states[snapshot] = state(t, snapshot)

        try:
            if chance.random() < 0.5:
                fold_beside(t, meanwhile)
            else:
                vacuum_beside(t, meanwhile, full=chance.random() < 0.5)
        except Stale:
            continue
        last = t.last_snapshot()
        assert state(t, last) == states[max(states)]
        expected = set()
        for snapshot in sorted(states)[1:]:
            told = feed(t, snapshot - 1, snapshot)
            written = {row_id for _, row_id, old, new in told if old == new}
            expected |= difference(states[snapshot - 1], states[snapshot], snapshot, written)
            assert state(t, snapshot) == states[snapshot]
        assert set(feed(t, start, last)) == expected
    theirs = sorted((int(a or 0), b) for a, b in t.duck("SELECT a, b FROM postgres.t"))
    assert theirs == sorted(state(t, t.last_snapshot()).values())


def test_deleted_positions_go_into_files(t: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "POSITIONS", 10)
    start = t.last_snapshot()

    def meanwhile() -> None:
        t.sql("DELETE FROM t WHERE a IN (1, 250, 301); UPDATE t SET b = 'y' WHERE a = 2")

    assert fold_beside(t, meanwhile) == 2
    last = t.last_snapshot()
    assert feed(t, last - 1, last) == []
    assert state(t, last) == state(t, last - 1)
    t.sql("DELETE FROM t WHERE a BETWEEN 11 AND 29")
    assert fold_beside(t, lambda: t.sql("TRUNCATE t; INSERT INTO t VALUES (7, 'x')")) == 0
    assert len({(c[0], c[1]) for c in feed(t, start - 1, start)}) == 62
    assert t.duck("SELECT a, b FROM postgres.t") == [("7", "x")]


def test_a_data_file_that_gets_a_delete_file_meanwhile(t: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "POSITIONS", 10)
    assert fold_beside(t, lambda: t.sql("DELETE FROM t WHERE a <= 290 AND a % 2 = 0")) == 1
    last = t.last_snapshot()
    assert state(t, last) == state(t, last - 1)
    assert fold_beside(t, lambda: None) == 1  # what came before stands beside the new delete file
    assert state(t, t.last_snapshot()) == state(t, last)
    theirs = sorted((int(a or 0), b) for a, b in t.duck("SELECT a, b FROM postgres.t"))
    assert theirs == sorted(state(t, last).values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_work_of_others(t: Lake, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "POSITIONS", 5)
    play(t, random.Random(seed), 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_much_random_work_of_others(t: Lake, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "POSITIONS", 5)
    play(t, random.Random(seed), 15)


def test_a_tier_is_files_that_together_are_as_large_as_the_next() -> None:
    k = 1024
    assert compact.tier([]) == 0
    assert compact.tier([10 * k] * 3) == 0
    assert compact.tier([10 * k] * 4) == 10 * k
    assert compact.tier([10 * k] * 4 + [900 * k]) == 10 * k
    assert compact.tier([60 * k] * 4 + [400 * k]) == 400 * k
    assert compact.tier([compact.SMALL_BYTES] * 9) == 0
