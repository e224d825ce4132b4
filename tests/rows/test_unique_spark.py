"""A unique index over expressions of a table that is too large to be looked through here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.played import Instance


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_keys_that_are_computed_are_looked_for_by_spark(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "here")
    assert instance.play(
        "pub",
        "CREATE TABLE t (a int, b text, n numeric)",
        "CREATE UNIQUE INDEX t_lower ON t (lower(b), (n * 2)) WHERE a > 0",
        "INSERT INTO t SELECT i, 'B' || i, i * 1.5 FROM generate_series(1, 50) i",
        "SET pgrepl.local_rows = 10",
        "INSERT INTO t VALUES (1, 'b7', 10.500)",
        "INSERT INTO t VALUES (0, 'b7', 10.5), (1, 'b7', 10.6)",
        "INSERT INTO t VALUES (1, 'B7', 10.60)",
    )[3:] == [
        "SET",
        'ERROR:  duplicate key value violates unique constraint "t_lower"',
        "DETAIL:  Key (lower(b), (n * 2::numeric))=(b7, 21.000) already exists.",
        "INSERT 0 2",
        'ERROR:  duplicate key value violates unique constraint "t_lower"',
        "DETAIL:  Key (lower(b), (n * 2::numeric))=(b7, 21.20) already exists.",
    ]
    instance.catalog.close()
