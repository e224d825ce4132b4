"""What DuckDB writes is read without a JVM, at every snapshot."""

from __future__ import annotations

import pytest

from pgrepl.lake.read.bounds import Bound
from tests.harness.dose import dose
from tests.lake.conftest import Lake

EVERY_TYPE = """
    CREATE TABLE main.t (
      a TINYINT, b UTINYINT, c USMALLINT, d UINTEGER, e UBIGINT, f HUGEINT, g UHUGEINT, h SMALLINT, i INTEGER, j BIGINT,
      k VARCHAR, l TIMESTAMPTZ, m DATE, n TIMESTAMP, o TIME, p TIMETZ, q UUID, r BLOB, s DECIMAL(10, 2), t BOOLEAN,
      u FLOAT, v DOUBLE, w INTEGER[], x VARCHAR[], y JSON, z INTERVAL, aa TIMESTAMP_S, ab TIMESTAMP_MS,
      ac TIMESTAMP_NS, ad STRUCT(a INTEGER, b VARCHAR), ae MAP(VARCHAR, INTEGER), af DECIMAL(38, 5), ag DATE[],
      ah STRUCT(a DECIMAL(5, 2)[])[], ai UUID[]
    )"""
ROWS = r"""
    INSERT INTO main.t VALUES
    (-128, 255, 65535, 4294967295, 18446744073709551615, 1701411, 3402823, -32768, 2147483647, 9007199254740993,
     'it''s', '2024-01-02 03:04:05.1+00', '0044-03-15 (BC)', '0044-01-01 (BC) 00:00:00.5', '12:00:00.5', '10:00:00+00',
     '58aa937a-c590-4880-a920-c872ebcab382', '\x01a''\xFF'::BLOB, 1.5, true, 1.1, 2.5e300, [1, NULL],
     ['a,b', 'it''s', '', 'NULL', NULL, 'x\y', '"q"', ' s ', '[', 'ü'], '{"a": 1}', '1 year 2 months 3 days 04:05:06.7',
     '2020-01-01 00:00:01', '2020-01-01 00:00:00.123', '2020-01-01 00:00:00.123456789', {a: 1, b: 'x, y'}, MAP {'k': 1},
     '123456789012345678901234567890123.12345', ['2020-01-01', 'infinity'], [{a: [1.5, NULL]}, NULL],
     ['58aa937a-c590-4880-a920-c872ebcab382']),
    (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, '', 'infinity', '10000-01-01', '-infinity', '24:00:00', '00:00:00+00', NULL, '',
     -1.5, false, 'nan', '-inf', [], [], NULL, '1 day', '1900-01-01', '1900-01-01', '1970-01-01', {a: NULL, b: ''},
     MAP {},
     -0.00001, [], [], []),
    (0, 0, 0, 0, 0, -5, 0, 0, 0, 0, 'x', '290000-01-01 00:00:00+00', 'infinity', '290000-01-01 00:00:00', '00:00:00',
     '23:59:59+00', NULL, NULL, 0, NULL, 'inf', 1e-7, NULL, NULL, '[]', '00:00:00', '1969-12-31 23:59:59',
     '1969-12-31 23:59:59.999', '1969-12-31 23:59:59.999999999', NULL, NULL, 0, NULL, NULL, NULL),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""
READ = [
    (
        "-128", "255", "65535", "4294967295", "18446744073709551615", "1701411", "3402823", "-32768", "2147483647",
        "9007199254740993", "it's", "2024-01-02 03:04:05.1+00", "0044-03-15 BC", "0044-01-01 00:00:00.5 BC",
        "12:00:00.5", "10:00:00+00", "58aa937a-c590-4880-a920-c872ebcab382", "\\x016127ff", "1.50", "t", "1.1",
        "2.5e+300", "{1,NULL}", '{"a,b",it\'s,"","NULL",NULL,"x\\\\y","\\"q\\""," s ",[,ü}', '{"a": 1}',
        "1 year 2 mons 3 days 04:05:06.7", "2020-01-01 00:00:01", "2020-01-01 00:00:00.123",
        "2020-01-01 00:00:00.123456", '{"a": 1, "b": "x, y"}', '{"k": 1}', "123456789012345678901234567890123.12345",
        "{2020-01-01,infinity}", '[{"a": [1.50, null]}, null]', "{58aa937a-c590-4880-a920-c872ebcab382}",
    ),
    (
        "1", "1", "1", "1", "1", "1", "1", "1", "1", "1", "", "infinity", "10000-01-01", "-infinity", "24:00:00",
        "00:00:00+00", None, "\\x", "-1.50", "f", "NaN", "-Infinity", "{}", "{}", None, "1 day", "1900-01-01 00:00:00",
        "1900-01-01 00:00:00", "1970-01-01 00:00:00", '{"a": null, "b": ""}', "{}", "-0.00001", "{}", "[]", "{}",
    ),
    (
        "0", "0", "0", "0", "0", "-5", "0", "0", "0", "0", "x", "290000-01-01 00:00:00+00", "infinity",
        "290000-01-01 00:00:00", "00:00:00", "23:59:59+00", None, None, "0.00", None, "Infinity", "1e-07", None, None,
        "[]", "00:00:00", "1969-12-31 23:59:59", "1969-12-31 23:59:59.999", "1969-12-31 23:59:59.999999", None, None,
        "0.00000", None, None, None,
    ),
    (None,) * 35,
]  # fmt: skip


@pytest.mark.parametrize("where", ["inlined", "file", "flushed"])
def test_every_type_of_duckdb_is_read(lake: Lake, where: str) -> None:
    if where == "file":
        lake.duck_runs("CALL lake.set_option('data_inlining_row_limit', 0)")
    lake.duck_runs(EVERY_TYPE, ROWS)
    if where == "flushed":
        lake.duck_runs("CALL ducklake_flush_inlined_data('lake')")
    assert lake.rows(lake.duck_table("t")) == READ


def assert_same_history(lake: Lake, name: str, first: int) -> None:
    """Each snapshot of the table has the same rows, with the same row ids, here and in DuckDB."""
    for snapshot in range(first, lake.last_snapshot() + 1):
        table = lake.duck_table(name, snapshot)
        here = sorted(lake.rows(table, snapshot=snapshot, row_ids=True))
        there = sorted(lake.duck(f"SELECT rowid, * FROM main.{name} AT (VERSION => {snapshot})"))
        assert here == there, f"at snapshot {snapshot}"


STATEMENTS = (
    "INSERT INTO main.t SELECT i, 'row ' || i FROM range(1000) s(i)",
    "INSERT INTO main.t VALUES (2000, 'inlined'), (2001, 'too'), (2002, NULL)",
    "DELETE FROM main.t WHERE a = 5",
    "DELETE FROM main.t WHERE a < 100",
    "DELETE FROM main.t WHERE a BETWEEN 200 AND 299 OR a = 2001",
    "UPDATE main.t SET b = 'updated' WHERE a % 100 = 0",
    "UPDATE main.t SET a = a + 10000 WHERE a % 3 = 0",
)


def made_by_duckdb(lake: Lake) -> int:
    lake.duck_runs("CREATE TABLE main.t (a INTEGER, b VARCHAR)")
    first = lake.last_snapshot()
    lake.duck_runs(*STATEMENTS)
    return first


def test_deletes_and_updates_of_duckdb(lake: Lake) -> None:
    assert_same_history(lake, "t", made_by_duckdb(lake))


@pytest.mark.parametrize(
    "call",
    dose(
        [
            "ducklake_flush_inlined_data('lake')",
            "ducklake_merge_adjacent_files('lake')",
            "ducklake_rewrite_data_files('lake', delete_threshold => 0)",
        ],
        3,
    ),
)
def test_after_maintenance_by_duckdb(lake: Lake, call: str) -> None:
    first = made_by_duckdb(lake)
    lake.duck_runs(f"CALL {call}", "INSERT INTO main.t SELECT i, 'again' FROM range(100) s(i)", f"CALL {call}")
    assert_same_history(lake, "t", first)


def test_after_a_checkpoint_of_several_small_files(lake: Lake) -> None:
    lake.duck_runs("CALL lake.set_option('data_inlining_row_limit', 0)", "CREATE TABLE main.t (a INTEGER, b VARCHAR)")
    first = lake.last_snapshot()
    lake.duck_runs(*(f"INSERT INTO main.t VALUES ({i}, 'r{i}')" for i in range(5)), "DELETE FROM main.t WHERE a = 2")
    lake.duck_runs("CALL ducklake_merge_adjacent_files('lake')", "DELETE FROM main.t WHERE a = 3", "CHECKPOINT lake")
    assert_same_history(lake, "t", first)


@pytest.mark.slow
def test_columns_come_and_go(lake: Lake) -> None:
    """Columns are found by id: a name may have been another column's."""
    first = made_by_duckdb(lake)
    lake.duck_runs(
        "ALTER TABLE main.t ADD COLUMN c INTEGER DEFAULT 42",
        "INSERT INTO main.t VALUES (3000, 'with c', 1)",
        "ALTER TABLE main.t RENAME COLUMN b TO old_b",
        "ALTER TABLE main.t ADD COLUMN b INTEGER",
        "INSERT INTO main.t SELECT i, 'both', i, i FROM range(500) s(i)",
        "ALTER TABLE main.t DROP COLUMN old_b",
        "ALTER TABLE main.t ALTER COLUMN a TYPE BIGINT",
        "INSERT INTO main.t VALUES (9007199254740993, 5, 6)",
        "UPDATE main.t SET c = -1 WHERE a < 1000",
        "ALTER TABLE main.t RENAME COLUMN c TO d",
        "DELETE FROM main.t WHERE d = 1",
    )
    assert_same_history(lake, "t", first)


def test_floats_that_became_doubles(lake: Lake) -> None:
    lake.duck_runs(
        "CREATE TABLE main.t (a FLOAT)",
        "INSERT INTO main.t VALUES (1.1)",
        "INSERT INTO main.t SELECT 1.1 FROM range(20)",
        "ALTER TABLE main.t ALTER COLUMN a TYPE DOUBLE",
        "INSERT INTO main.t VALUES (1.1)",
    )
    table = lake.duck_table("t")
    assert sorted(lake.rows(table)) == [("1.1",)] + [("1.100000023841858",)] * 21
    assert len(lake.rows(table, Bound(1, values=(1.100000023841858,)))) >= 21


def test_files_that_others_wrote_are_read_by_name(lake: Lake) -> None:
    file = lake.path.parent / "k=7" / "other.parquet"
    file.parent.mkdir()
    lake.duck_runs(
        f"COPY (SELECT 'x' AS b, 5 AS a, [1, 2] AS c) TO '{file}'",
        "CREATE TABLE main.t (a BIGINT, b VARCHAR, c INTEGER[], k INTEGER, d INTEGER DEFAULT 3)",
        f"CALL ducklake_add_data_files('lake', 't', '{file}', schema => 'main', hive_partitioning => true,"
        " allow_missing => true)",
    )
    table = lake.duck_table("t")
    assert lake.rows(table) == [("5", "x", "{1,2}", "7", "3")]
    assert lake.duck("SELECT a, b, c, k, d FROM main.t") == [("5", "x", "[1, 2]", "7", "3")]
    assert lake.rows(table, Bound(4, values=(8,))) == []
    assert lake.rows(table, Bound(1, low=5)) == [("5", "x", "{1,2}", "7", "3")]


@pytest.mark.parametrize("name", ["per%20cent", "a b", "ü", "q?m=1&x#y", "br[ack]et{s}*", "quote'd"])
def test_odd_names(lake: Lake, name: str) -> None:
    quoted = '"' + name + '"'
    lake.duck_runs(
        "CALL lake.set_option('data_inlining_row_limit', 0)",
        f"CREATE TABLE main.{quoted} ({quoted} INTEGER)",
        f"INSERT INTO main.{quoted} SELECT i FROM range(3) s(i)",
        f"DELETE FROM main.{quoted} WHERE {quoted} = 1",
    )
    assert lake.rows(lake.duck_table(name)) == [("0",), ("2",)]
