"""Sizes of tables and databases follow what is in the lake."""

from __future__ import annotations

from pathlib import Path

from tests.harness.played import Instance

SIZES = "SELECT pg_relation_size('t'), pg_table_size('t'), pg_total_relation_size('t')"
CLASS = "SELECT reltuples, relpages FROM pg_class WHERE relname = 't'"


def files(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def test_sizes_are_those_of_files_and_of_inlined_rows(instance: Instance) -> None:
    assert instance.play("pub", "CREATE TABLE t (a int PRIMARY KEY, b text)", SIZES, CLASS) == [
        "CREATE TABLE", "0|8192|16384", "-1|0",
    ]  # fmt: skip
    instance.play("pub", "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 100) n")
    assert instance.play("pub", SIZES) == ["16384|24576|32768"]
    instance.play("pub", "VACUUM t")
    size = files(instance.folder)
    assert instance.play("pub", SIZES, CLASS) == [f"{size}|{size + 8192}|{size + 16384}", "100|1"]
    assert instance.play("pub", "SELECT pg_database_size('pub')", "SELECT pg_database_size('sub')") == [
        str(size + 16384), "0",
    ]  # fmt: skip
    assert instance.play("sub", "SELECT pg_database_size('pub') > 0") == ["t"]
    assert instance.play("pub", "DELETE FROM t WHERE a <= 30", "VACUUM t", CLASS) == ["DELETE 30", "VACUUM", "70|1"]
    assert instance.play("pub", "TRUNCATE t", SIZES, CLASS) == ["TRUNCATE TABLE", "0|8192|16384", "-1|0"]
