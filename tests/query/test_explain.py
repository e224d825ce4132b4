"""What EXPLAIN says is read, and what EXPLAIN ANALYZE says has come of it."""

from __future__ import annotations

import re

import pytest

from pgrepl.lake import file_writer, footers, skipping
from tests.harness.played import Instance

_NUMBERS = re.compile(r"\d+kB")


@pytest.fixture
def filled(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """A table of two files, the first with five row groups."""
    monkeypatch.setattr(file_writer, "ROWS_IN_GROUP", 1000)
    instance.play(
        "pub",
        "CREATE TABLE r (id int PRIMARY KEY, v text)",
        "INSERT INTO r SELECT g, 'v' || g FROM generate_series(1, 5000) g",
        "INSERT INTO r SELECT g, 'v' || g FROM generate_series(5001, 5500) g",
    )
    return instance


def reading(instance: Instance, query: str) -> list[str]:
    lines = [line.strip() for line in instance.play("pub", f"EXPLAIN {query}")]
    return [_NUMBERS.sub("nkB", line) for line in lines if re.match("Lake|Files|Row|Size", line)]


def test_explain_says_what_is_skipped(filled: Instance) -> None:
    assert reading(filled, "SELECT * FROM r WHERE id BETWEEN 1500 AND 2500") == [
        "Lake Scan on r  (rows=2000)",
        "Files: 1 read, 1 skipped",
        "Row Groups: 2 read, 3 skipped",
        "Rows: 2000 read, 3500 skipped",
        "Size: nkB read, nkB skipped",
    ]
    assert reading(filled, "SELECT * FROM r") == ["Lake Scan on r  (rows=5500)", "Files: 2 read", "Size: nkB read"]


def test_what_is_read_and_what_is_skipped_are_the_whole(filled: Instance) -> None:
    session = filled.session("pub")
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.table import lake_table

    oid = int(filled.play("pub", "SELECT 'r'::regclass::oid")[0])
    filled.play("pub", "BEGIN")
    table = lake_table(session, oid)
    found = skipping.skipping(session, table, (Bound(1, 1500, 2500),))
    nothing = skipping.skipping(session, table, (Bound(1, 9000, 9001),))
    filled.play("pub", "COMMIT")
    sizes = [path.stat().st_size for path in filled.folder.rglob("*.parquet")]
    assert (found.whole.rows, found.whole.bytes) == (5500, sum(sizes))
    assert max(sizes) / 3 < found.extent.bytes < max(sizes)
    assert (nothing.files, nothing.extent.rows, nothing.extent.bytes, nothing.groups) == (0, 0, 0, None)


def test_no_file_is_read_where_there_are_many(filled: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skipping, "_FEW", 1)
    monkeypatch.setattr(footers, "of", None)
    assert reading(filled, "SELECT * FROM r WHERE id > 4500") == [
        "Lake Scan on r  (rows=5500)",
        "Files: 2 read, 0 skipped",
        "Rows: 5500 read, 0 skipped",
        "Size: nkB read, nkB skipped",
    ]
