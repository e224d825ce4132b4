"""What changed between snapshots is what differs between them: whoever wrote, and whatever VACUUM did meanwhile."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.ground.errors import PgError
from pgrepl.lake.changes.changes import changes
from pgrepl.lake.changes.history import snapshots
from pgrepl.lake.read import local
from pgrepl.lake.table import lake_table
from tests.harness.dose import dose
from tests.lake.conftest import Lake

Rows = dict[int, tuple[Any, ...]]


def oid(lake: Lake) -> int:
    with lake.statement():
        return find_relation(lake.session, range_var(["t"])).oid


def state(lake: Lake, snapshot: int) -> Rows:
    """The rows at a snapshot by row id."""
    with lake.statement():
        table = lake_table(lake.session, find_relation(lake.session, range_var(["t"])).oid, snapshot)
        attnums = [column.attnum for column in table.columns]
        found = local.rows(lake.session, table, attnums, places=True, snapshot=snapshot)
        return {row[-1].row: row[:-1] for row in found}


def feed(lake: Lake, after: int, upto: int) -> list[tuple[int, int, Any, Any]]:
    with lake.statement():
        found = changes(lake.session, find_relation(lake.session, range_var(["t"])).oid, after, upto)
    return [(c.snapshot, c.row_id, c.old, c.new) for c in found]


def difference(before: Rows, after: Rows, snapshot: int, written: set[int]) -> set[tuple[int, int, Any, Any]]:
    """Rows that came, went or were written anew."""
    found = set()
    for row_id in before.keys() | after.keys():
        old, new = before.get(row_id), after.get(row_id)
        if old != new or row_id in written:
            found.add((snapshot, row_id, old, new))
    return found


def test_each_statement_is_told_as_it_was(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    start = lake.last_snapshot()
    lake.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    lake.sql("UPDATE t SET b = 'z' WHERE a = 2")
    lake.sql("DELETE FROM t WHERE a = 1")
    lake.sql("BEGIN; INSERT INTO t VALUES (3, NULL); UPDATE t SET a = 4 WHERE a = 3; COMMIT")
    assert feed(lake, start, start + 5) == [
        (start + 1, 0, None, (1, "x")),
        (start + 1, 1, None, (2, "y")),
        (start + 2, 1, (2, "y"), (2, "z")),
        (start + 3, 0, (1, "x"), None),
        (start + 4, 2, None, (3, None)),
        (start + 5, 2, (3, None), (4, None)),
    ]
    with lake.statement():
        found = snapshots(lake.session, start, start + 5)
    assert [(s.id, s.tables, s.first, s.is_last) for s in found] == [
        (start + 1, (oid(lake),), start + 1, True),
        (start + 2, (oid(lake),), start + 2, True),
        (start + 3, (oid(lake),), start + 3, True),
        (start + 4, (oid(lake),), start + 4, False),
        (start + 5, (oid(lake),), start + 4, True),
    ]


def test_a_truncation_is_told_apart_from_deletes(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int)")
    lake.sql("INSERT INTO t VALUES (1)")
    lake.sql("TRUNCATE t RESTART IDENTITY")
    with lake.statement():
        (told,) = snapshots(lake.session, lake.session.transaction.numbering.last_snapshot() - 1, 10**9)
    assert (told.truncated, told.restart_identity) == ((oid(lake),), True)


STATEMENTS = [
    "INSERT INTO t SELECT g, 'v' || g FROM generate_series({n}, {n} + {few}) g",
    "INSERT INTO t SELECT g, 'w' || g FROM generate_series({n}, {n} + {many}) g",
    "UPDATE t SET b = b || '!' WHERE a % {m} = 0",
    "UPDATE t SET b = b WHERE a % {m} = 1",
    "DELETE FROM t WHERE a % {m} = 2",
    "DELETE FROM t WHERE a BETWEEN {n} - 20 AND {n}",
    "BEGIN; UPDATE t SET b = 'k' WHERE a % {m} = 3; DELETE FROM t WHERE a % {m} = 3; COMMIT",
    "BEGIN; INSERT INTO t VALUES ({n}, 'q'); ROLLBACK",
    "VACUUM t",
    "VACUUM FULL t",
    "duck: INSERT INTO lake.postgres.t SELECT range, 'd' || range FROM range({n}, {n} + {few})",
    "duck: UPDATE lake.postgres.t SET b = 'duck' WHERE a % {m} = 0",
    "duck: DELETE FROM lake.postgres.t WHERE a % {m} = 4",
    "duck: CALL ducklake_flush_inlined_data('lake')",
    "duck: CALL ducklake_merge_adjacent_files('lake')",
    "duck: CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.1)",
]


@pytest.mark.parametrize("seed", dose(range(6), 6))
def test_random_histories_are_told_as_the_snapshots_differ(lake: Lake, seed: int) -> None:
    play(lake, random.Random(seed), 18)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_many_random_histories(lake: Lake, seed: int) -> None:
    play(lake, random.Random(seed), 40)


def play(lake: Lake, chance: random.Random, steps: int) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    # whoever asks what changed holds a slot; VACUUM leaves it what it needs
    lake.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    lake.sql("SET pgrepl.file_grace = 0")
    start = lake.last_snapshot()
    expected: list[set[tuple[int, int, Any, Any]]] = []
    states = {start: state(lake, start)}
    for number in range(steps):
        text = chance.choice(STATEMENTS).format(
            n=100 * number, few=chance.randrange(1, 8), many=chance.randrange(120, 400), m=chance.choice([5, 7, 11])
        )
        before = lake.last_snapshot()
        if text.startswith("duck: "):
            lake.duck_runs(text.removeprefix("duck: "))
        else:
            for part in text.split("; "):
                lake.sql(part)
        for snapshot in range(before + 1, lake.last_snapshot() + 1):
            states[snapshot] = state(lake, snapshot)
            told = set(feed(lake, snapshot - 1, snapshot))
            differ = difference(states[snapshot - 1], states[snapshot], snapshot, {c[1] for c in told if c[2] == c[3]})
            if "merge_adjacent" in text and differ and are_numbered_anew(lake, states[snapshot - 1], states[snapshot]):
                assert told == set()
                return
            assert told == differ, (text, snapshot)
            if "SET b = b WHERE" in text:
                assert len(told) == sum(
                    row[0] % int(text.split("% ")[1].split()[0]) == 1 for row in states[snapshot].values()
                )
            expected.append(told)
    last = lake.last_snapshot()
    for _ in range(4):
        low = chance.randrange(start, last + 1)
        high = chance.randrange(low, last + 1)
        assert set(feed(lake, low, high)) == set().union(*expected[low - start : high - start]), (low, high)
    for snapshot in chance.sample(sorted(states), min(3, len(states))):
        assert state(lake, snapshot) == states[snapshot]


def are_numbered_anew(lake: Lake, before: Rows, after: Rows) -> bool:
    """DuckDB's merge forgets the row ids that updated rows have kept, when a file of such is merged with one of new
    rows. It then sees other row ids itself; what follows can no longer be told by them."""
    theirs = {int(row or 0): (int(a or 0), b) for row, a, b in lake.duck("SELECT rowid, a, b FROM postgres.t")}
    return theirs == after and sorted(before.values()) == sorted(after.values())


def test_vacuum_leaves_a_slot_what_it_needs(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("SET pgrepl.file_grace = 0")
    lake.sql("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 500) g")
    lake.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    start = lake.last_snapshot()
    lake.sql("DELETE FROM t WHERE a <= 400")
    told = feed(lake, start, start + 1)
    lake.sql("VACUUM FULL t")
    assert feed(lake, start, lake.last_snapshot()) == told
    assert len(told) == 400
    lake.sql("SELECT pg_drop_replication_slot('s')")
    lake.sql("VACUUM t")
    assert lake.query("SELECT count(*) FROM ducklake_snapshot") == [(1,)]
    assert len(lake.rows("t")) == 100
    assert lake.duck("SELECT count(*) FROM postgres.t") == [("100",)]


def test_vacuum_removes_files_that_nothing_refers_to(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 500) g")
    folder = lake.table("t").location
    stray = f"{folder}ducklake-01234567-89ab-7cde-8000-000000000000.parquet"
    with open(stray, "wb") as file:
        file.write(b"left by a process that was killed")
    lake.sql("VACUUM")
    with open(stray, "rb"):
        pass  # it is young: somebody may be about to refer to it
    lake.sql("SET pgrepl.file_grace = 0")
    lake.sql("VACUUM")
    with pytest.raises(FileNotFoundError):
        os.stat(stray)
    assert len(lake.rows("t")) == 500


def test_vacuum_is_no_part_of_a_transaction(lake: Lake) -> None:
    lake.sql("BEGIN")
    with pytest.raises(PgError, match="VACUUM cannot run inside a transaction block"):
        lake.sql("VACUUM")
