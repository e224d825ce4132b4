"""COPY TO of a partitioned table, as PostgreSQL 19 has it, and of a materialized view, as 18 has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.database import Database

TABLES = """
CREATE TABLE p (a int, b text, c int) PARTITION BY RANGE (a);
CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE high (c int, gone int, b text, a int) PARTITION BY LIST (b);
ALTER TABLE high DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION high FOR VALUES FROM (10) TO (20000);
CREATE TABLE rest PARTITION OF high DEFAULT;
INSERT INTO p SELECT g, 'row ' || g, -g FROM generate_series(1, 12) g;
"""


@pytest.mark.parametrize(
    "options, name", [("", "rows"), (", FORMAT parquet", "rows.parquet"), (", FORMAT csv", "rows")]
)
def test_it_is_copied_with_its_partitions(tmp_path: Path, options: str, name: str) -> None:
    """COPY TO reads partitions where that is asked for (A23)."""
    database = Database(tmp_path, "here", new=True)
    database(TABLES)
    copied = f"COPY p (a, c, b) TO '{tmp_path / name}'"
    assert database.says(copied).startswith('cannot copy from partitioned table "p"')
    database("SET pgrepl.copy_partitioned = on; CREATE TABLE q (a int, c int, b text)")
    given = f" WITH ({options.removeprefix(', ')})" if options else ""
    database(copied + given)
    database(f"COPY q FROM '{tmp_path / name}'{given}")
    assert database("SELECT a, c, b FROM p ORDER BY a") == database("SELECT * FROM q ORDER BY a")
    assert len(database("TABLE q")) == 12
    database.close()


def test_a_materialized_view_is_copied_in_18(tmp_path: Path) -> None:
    """A real 18 says the same."""
    database = Database(tmp_path, "here", new=True)
    database("CREATE MATERIALIZED VIEW m AS SELECT g AS a FROM generate_series(1, 2) g WITH NO DATA")
    copied = f"COPY m TO '{tmp_path / 'rows'}'"
    assert database.says(copied).startswith('cannot copy from materialized view "m"')
    database("SET pgrepl.postgres_version = 18")
    assert database.says(copied) == (
        'cannot copy from unpopulated materialized view "m"\nUse the REFRESH MATERIALIZED VIEW command.'
    )
    database("REFRESH MATERIALIZED VIEW m")
    database(copied)
    assert (tmp_path / "rows").read_text() == "1\n2\n"
    database.close()
