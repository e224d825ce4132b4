"""What changed, as whole columns and as Spark's rows: the same as change by change, whatever happened."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

from pgrepl.engine.changes_frame import ALL, LEFT_OUT, ChangedRows, ChangesFrame
from pgrepl.lake.changes.changes import changes
from tests.lake.conftest import Lake
from tests.lake.spark_rows import nothing_inlined


def images(found: ChangesFrame, columns: list[int], *, new: bool) -> dict[int, tuple[Any, ...]]:
    """The new or the old rows by the numbers of their changes."""
    at = np.flatnonzero(found.has_new if new else found.has_old)
    values = [
        found.table.column(attnum).form.from_array(array)
        for attnum, array in zip(columns, found.pick(columns, at, new=new), strict=True)
    ]
    return dict(zip(at.tolist(), zip(*values, strict=True), strict=True))


def agree(lake: Lake, name: str, after: int, upto: int, *, by_spark: bool) -> int:
    """Both tell the same; how many changes."""
    oid = lake.table(name).oid
    with lake.statement():
        expected = [(c.snapshot, c.row_id, c.old, c.new) for c in changes(lake.session, oid, after, upto)]
        found = ChangesFrame(ChangedRows(lake.session, oid, after, upto))
        columns = sorted(column.attnum for column in found.table.columns)
        forms = [found.table.column(n).form for n in columns]
        new, old = (images(found, columns, new=side) for side in (True, False))
        told = [
            (s, r, old.get(n), new.get(n))
            for n, (s, r) in enumerate(zip(found.snapshot.tolist(), found.row_id.tolist(), strict=True))
        ]
        assert told == expected
        if by_spark:
            numbers = [n if n % 5 else LEFT_OUT for n in range(found.count)]
            rows = found.rows(columns, np.array(numbers, np.int64)).toArrow()
            values = [f.from_array(rows[f"c{n}"]) for n, f in zip(columns, forms, strict=True)]
            spark_rows = sorted(zip(rows["at"].to_pylist(), *values, strict=True), key=lambda row: row[0])
            assert spark_rows == [(n, *new[n]) for n in numbers if n >= 0 and found.has_new[n]]
    return len(expected)


def history(lake: Lake, chance: random.Random, steps: int) -> int:
    """Random statements; the snapshot before them."""
    lake.sql("CREATE TABLE t (a int, b text)")
    start = lake.last_snapshot()
    count = 0
    for _ in range(steps):
        what = chance.choice(["insert", "insert", "update", "delete", "both", "vacuum", "duck", "flush", "truncate"])
        low = chance.randrange(200)
        if what == "insert":
            more = chance.choice([1, 3, 60])
            lake.sql(f"INSERT INTO t SELECT g, 'i' || g FROM generate_series({count}, {count + more - 1}) g")
            count += more
        elif what == "update":
            lake.sql(f"UPDATE t SET b = b || '!' WHERE a >= {low} AND a < {low + chance.choice([1, 40])}")
        elif what == "delete":
            lake.sql(f"DELETE FROM t WHERE a >= {low} AND a < {low + chance.choice([1, 20])}")
        elif what == "both":
            lake.sql(f"BEGIN; UPDATE t SET a = a + 1000 WHERE a = {low}; DELETE FROM t WHERE a % 7 = 3; COMMIT")
        elif what == "vacuum":
            lake.sql("VACUUM t")
        elif what == "duck":
            lake.duck_runs(f"UPDATE postgres.t SET b = 'duck' WHERE a % 11 = {low % 11}")
        elif what == "flush":
            lake.duck_runs("CALL ducklake_flush_inlined_data('lake')")
        elif chance.random() < 0.3:
            lake.sql("TRUNCATE t")
    return start


@pytest.mark.slow
def test_deleted_positions_are_not_sent_to_tasks(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 2000) g")
    before = lake.last_snapshot()
    lake.sql("DELETE FROM t WHERE a % 3 = 0")
    with lake.statement():
        rows = ChangedRows(lake.session, lake.table("t").oid, before, lake.last_snapshot())
        unread = pickle.dumps(rows)
        deleted = rows.deleted_rows(ALL).row_ids
        assert pickle.dumps(rows) == unread
        sent = pickle.loads(unread)
        assert (deleted == sent.deleted_rows(ALL).row_ids).all()
        assert (len(deleted), pickle.dumps(sent)) == (666, unread)


@pytest.mark.slow
def test_random_histories_are_told_alike(lake: Lake) -> None:
    chance = random.Random(7)
    start = history(lake, chance, 25)
    last = lake.last_snapshot()
    told = agree(lake, "t", start, last, by_spark=True)
    assert told > 50
    for _ in range(6):
        after = chance.randrange(start, last)
        agree(lake, "t", after, chance.randrange(after + 1, last + 1), by_spark=False)


@pytest.mark.slow
def test_rows_in_files_are_told_alike(lake: Lake) -> None:
    nothing_inlined(lake)
    chance = random.Random(11)
    start = history(lake, chance, 14)
    assert agree(lake, "t", start, lake.last_snapshot(), by_spark=True) > 20
