"""What a scan by Spark gives is what a scan without it gives, and what DuckDB reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pgrepl.engine import scan_spark
from pgrepl.lake.read.bounds import Bound
from tests.lake.conftest import Lake
from tests.lake.spark_rows import CLOCK, agree, nothing_inlined, values

pytestmark = pytest.mark.usefixtures("spark")

TYPES = (
    "a int2, b int4, c int8, d float4, e float8, f numeric(12,3), g numeric, h text, i varchar(20), j char(4), k bool,"
    f" l bytea, m date, n {CLOCK}, o timestamp, p timestamptz, q uuid, r int[], s text[], t jsonb, u interval, v inet"
)
VALUES = (
    "(-32768, -2147483648, -9223372036854775808, 'NaN', '-Infinity', 123456789.125, 'NaN',"
    " E'it''s \\\\ ü\\n', 'x', 'ab',"
    " true, '\\x00ff', '2000-01-01', '12:34:56.000001', '1999-12-31 23:59:59.5', '2024-02-29 12:00:00+02',"
    " '00112233-4455-6677-8899-aabbccddeeff', '{1,NULL,3}',"
    " '{\"a,b\",NULL}', '{\"k\": [1]}', '1 mon 2 days', '10.0.0.1/8')"
)
NULLS = "(" + ", ".join(["NULL"] * 22) + ")"


def play(lake: Lake, *statements: str) -> None:
    for statement in statements:
        lake.sql(statement)


@pytest.mark.parametrize("inlined", [True, False], ids=["inlined", "in files"])
def test_values_of_every_type(lake: Lake, inlined: bool) -> None:
    if not inlined:
        nothing_inlined(lake)
    play(lake, f"CREATE TABLE t ({TYPES})", f"INSERT INTO t VALUES {VALUES}, {NULLS}")
    assert agree(lake, "t") == 2


@pytest.mark.slow
@pytest.mark.parametrize("inlined", [True, False], ids=["inlined", "in files"])
def test_composite_types_whose_attributes_change(lake: Lake, inlined: bool) -> None:
    if not inlined:
        nothing_inlined(lake)
    play(lake, "CREATE TYPE inside AS (x int, y text)", "CREATE TYPE c AS (a int, i inside, l inside[], u uuid)")
    play(lake, "CREATE TABLE t (n int, s c, l c[])")
    one = "ROW(1, ROW(2, 'y'), ARRAY[ROW(3, NULL)::inside, NULL], '00112233-4455-6677-8899-aabbccddeeff')::c"
    nulls = "ROW(NULL, NULL, NULL, NULL)::c"
    play(lake, f"INSERT INTO t VALUES (1, {one}, ARRAY[{one}]), (2, NULL, NULL), (3, {nulls}, '{{}}')")
    play(lake, "ALTER TYPE inside RENAME ATTRIBUTE x TO k", "ALTER TYPE inside DROP ATTRIBUTE y, ADD ATTRIBUTE y int")
    play(lake, "ALTER TYPE c RENAME ATTRIBUTE a TO x", "INSERT INTO t SELECT n + 3, s, l FROM t")
    assert agree(lake, "t") == 6
    play(lake, "SET pgrepl.engine = spark", "UPDATE t SET s.i.y = n WHERE (s).x = 1")
    assert lake.duck("SELECT n, s.i FROM postgres.t WHERE s.x = 1 ORDER BY n") == [
        ("1", "{'k': 2, 'y': 1}"), ("4", "{'k': 2, 'y': 4}"),
    ]  # fmt: skip
    play(lake, "CREATE TABLE u AS SELECT n, s, l FROM t WHERE ((s).i).k = 2", "ALTER TABLE u ALTER n TYPE text")
    assert lake.duck("SELECT n, s.i.y, l[1].i.k FROM postgres.u ORDER BY n") == [("1", "1", "2"), ("4", "4", "2")]
    assert agree(lake, "u") == 2


def test_nothing_is_a_frame_too(lake: Lake) -> None:
    play(lake, "CREATE TABLE t (a int, b text[])")
    assert agree(lake, "t") == 0


def test_rows_without_columns_are_counted(lake: Lake) -> None:
    play(lake, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (2)")
    nothing_inlined(lake)
    play(lake, "INSERT INTO t SELECT generate_series(1, 5)")
    table = lake.table("t")
    with lake.statement():
        assert scan_spark.frame(lake.session, table, []).count() == 7


@pytest.mark.slow
def test_deleted_and_updated_rows(lake: Lake) -> None:
    """Deletes inlined and in files, twice on one file; updated rows keep their row ids."""
    play(lake, "CREATE TABLE t (a int, b text)", "INSERT INTO t SELECT i, 'x' || i FROM generate_series(1, 1000) i")
    after_insert = lake.last_snapshot()
    play(lake, "DELETE FROM t WHERE a IN (3, 5)", "UPDATE t SET b = 'new' WHERE a % 3 = 0")
    middle = lake.last_snapshot()
    play(lake, "DELETE FROM t WHERE a BETWEEN 500 AND 900", "UPDATE t SET a = a + 1 WHERE a < 10")
    assert [agree(lake, "t", at) for at in (after_insert, middle, None)] == [1000, 998, 597]
    table = lake.table("t")
    with lake.statement():
        ids = [
            place[2]
            for *_, place in values(scan_spark.frame(lake.session, table, [1], places=True), table, [1], places=True)
        ]
    assert len(set(ids)) == 597 and max(ids) < 1000


@pytest.mark.slow
def test_a_file_of_which_little_is_left(lake: Lake) -> None:
    nothing_inlined(lake)
    play(
        lake,
        "CREATE TABLE t (a int)",
        "INSERT INTO t SELECT generate_series(0, 200)",
        "DELETE FROM t WHERE a % 64 <> 63",
    )
    assert agree(lake, "t") == 3


@pytest.mark.slow
def test_columns_come_go_and_change_their_names(lake: Lake) -> None:
    nothing_inlined(lake)
    play(lake, "CREATE TABLE t (a int, b text, c int)", "INSERT INTO t VALUES (1, 'one', 10)")
    first = lake.last_snapshot()
    play(
        lake,
        "ALTER TABLE t DROP c",
        "ALTER TABLE t RENAME b TO d",
        "ALTER TABLE t ADD c date DEFAULT '2020-02-02', ADD e numeric(6,2) DEFAULT 1.5",
        "ALTER TABLE t ADD f text DEFAULT E'it''s \\\\'",
        "ALTER TABLE t ADD g bytea DEFAULT '\\xff00', ADD h int[] DEFAULT '{1,NULL}'",
        "ALTER TABLE t ADD i timestamptz DEFAULT '2020-01-01 00:00+00', ADD p bytea[] DEFAULT '{a}'",
        f"ALTER TABLE t ADD j {CLOCK} DEFAULT '01:02:03.5', ADD k bool DEFAULT true",
        "ALTER TABLE t ADD l numeric DEFAULT 1.500, ADD m float8 DEFAULT 'NaN'",
        "ALTER TABLE t ADD n uuid DEFAULT '00112233-4455-6677-8899-aabbccddeeff'",
        "ALTER TABLE t ADD o timestamp DEFAULT '1969-12-31 23:59:59.5'",
        "INSERT INTO t (a, d) VALUES (2, 'two')",
        "INSERT INTO t (a, c, h) VALUES (3, NULL, NULL)",
    )
    assert agree(lake, "t") == 3
    assert agree(lake, "t", first) == 1


def test_a_filter_on_a_name_that_another_column_had(lake: Lake) -> None:
    """Spark would skip row groups by the file's column of that name."""
    nothing_inlined(lake)
    play(lake, "CREATE TABLE t (a int, b int)", "INSERT INTO t SELECT i, i + 5000 FROM generate_series(1, 1000) i")
    play(lake, "ALTER TABLE t RENAME a TO c", "ALTER TABLE t RENAME b TO a", "ALTER TABLE t RENAME c TO b")
    table = lake.table("t")
    with lake.statement():
        frame = scan_spark.frame(lake.session, table, [1, 2])
        assert (frame.filter("c2 > 5990").count(), frame.filter("c1 <= 10").count()) == (10, 10)
    play(lake, "ALTER TABLE t DROP a", "ALTER TABLE t ADD a int DEFAULT 7")
    table = lake.table("t")
    with lake.statement():
        assert scan_spark.frame(lake.session, table, [3]).filter("c3 = 7").count() == 1000


def test_names_that_mean_something_to_spark(lake: Lake) -> None:
    nothing_inlined(lake)
    play(
        lake,
        'CREATE TABLE t ("_metadata" int, "a`b.c" int, "A" int, "a" int, "__pos" int, place int, "" int)'.replace(
            '""', '" "'
        ),
        "INSERT INTO t VALUES (1, 2, 3, 4, 5, 6, 7), (8, 9, 10, 11, 12, 13, 14)",
        "DELETE FROM t WHERE a = 4",
    )
    assert agree(lake, "t") == 1


def test_files_outside_the_bounds_are_not_read(lake: Lake) -> None:
    nothing_inlined(lake)
    play(lake, "CREATE TABLE t (a int)")
    for start in (0, 1000, 2000):
        play(lake, f"INSERT INTO t SELECT generate_series({start}, {start + 99})")
    table = lake.table("t")
    with lake.statement():
        frame = scan_spark.frame(lake.session, table, [1], bounds=[Bound(1, 1050, 1200)], places=True)
        assert sorted(values(frame, table, [1])) == [(i,) for i in range(1000, 1100)]
        assert len(frame.inputFiles()) == 1


def test_files_of_one_size_are_told_apart(lake: Lake) -> None:
    nothing_inlined(lake)
    play(lake, "CREATE TABLE t (a int)")
    for start in (1000, 2000, 3000):
        play(lake, f"INSERT INTO t SELECT generate_series({start}, {start + 99})")
    assert len(lake.query("SELECT DISTINCT file_size_bytes FROM ducklake_data_file")) == 1
    play(lake, "DELETE FROM t WHERE a IN (1000, 2001, 3002)")
    assert agree(lake, "t") == 297


def test_files_that_differ_neither_in_size_nor_plainly_in_name(lake: Lake) -> None:
    folder = Path(lake.catalog.data_path)
    play(lake, "CREATE TABLE t (a int)")
    for start in (0, 1000, 2000):
        (folder / f"p {start}").mkdir(parents=True)
        file = folder / f"p {start}" / "ü [x] {y}%20.parquet"
        lake.duck_runs(f"COPY (SELECT (range + {start})::INT AS a FROM range(100)) TO '{file}'")
        lake.duck_runs(f"CALL ducklake_add_data_files('lake', 't', '{file}', schema => 'postgres')")
    play(lake, "DELETE FROM t WHERE a IN (0, 1001, 2002)")
    assert agree(lake, "t") == 297


def test_what_duckdb_writes(lake: Lake) -> None:
    """Its files, deletes, updates, inlined rows, merged files of several snapshots, files without field ids."""
    play(lake, f"CREATE TABLE t (a int, b text, c int[], d uuid, e {CLOCK})")
    row = "range::INT, 'x' || range, [range::INT, NULL], md5('' || range)::UUID, TIME '01:02:03.000004'"
    snapshots = []
    for start in (0, 1000, 2000):
        lake.duck_runs(f"INSERT INTO postgres.t SELECT {row} FROM range({start}, {start + 200})")
        snapshots.append(lake.last_snapshot())
    lake.duck_runs("INSERT INTO postgres.t SELECT 5, 'inlined', NULL, NULL, NULL")
    lake.duck_runs("DELETE FROM postgres.t WHERE a % 7 = 0", "UPDATE postgres.t SET b = 'u' WHERE a % 11 = 0")
    lake.duck_runs("DELETE FROM postgres.t WHERE a % 13 = 0")
    snapshots.append(lake.last_snapshot())
    file = Path(lake.catalog.data_path) / "added.parquet"
    lake.duck_runs(f"COPY (SELECT 9 AS a, [1, NULL] AS c, 'n' AS b) TO '{file}'")
    add = f"CALL ducklake_add_data_files('lake', 't', '{file}', schema => 'postgres', allow_missing => true)"
    lake.duck_runs(add)
    play(lake, "ALTER TABLE t RENAME b TO bb")
    counts = [agree(lake, "t", at) for at in (*snapshots, None)]
    lake.duck_runs("CALL ducklake_merge_adjacent_files('lake')")
    assert [agree(lake, "t", at) for at in (*snapshots, None)] == counts
    alive = lake.duck("SELECT count(*) FROM postgres.t")
    assert counts[:3] == [200, 400, 600] and str(counts[-1]) == alive[0][0]


def test_numbers_that_ascend_are_written_as_differences_that_others_read(lake: Lake) -> None:
    """Keys of a file that kernels write, from the least number of a type to its greatest."""
    play(
        lake,
        "CREATE TABLE t (a int2, b int4, c int8, d date, e timestamp, f timestamptz, s text)",
        "SET pgrepl.engine = local",
        "INSERT INTO t SELECT n, 2147483647::int8 * n / 5000, (9223372036854775807 * n::numeric / 5000)::int8,"
        " date '2000-01-01' + n * 10, timestamp '1999-12-31 23:59:59.5' + n * interval '1 s',"
        " timestamptz '2024-02-29 12:00:00+02' + n * interval '1 h', 'value ' || n FROM generate_series(-5000, 5000) n",
    )
    (path,) = lake.path.parent.rglob("t/*.parquet")
    group = pq.ParquetFile(path).metadata.row_group(0)
    ways = {group.column(n).path_in_schema: group.column(n).encodings for n in range(group.num_columns)}
    assert [name for name, encodings in ways.items() if "DELTA_BINARY_PACKED" in encodings] == [*"abcdef"]
    assert agree(lake, "t") == 10001
    sums = "count(*), sum(a), sum(b), sum(c), min(d), max(d), min(e), max(e), min(f), max(f)"
    assert lake.duck(f"SELECT {sums} FROM postgres.t") == [
        ("10001", "0", "0", "0", "1863-02-08", "2136-11-23", "1999-12-31 22:36:39.5", "2000-01-01 01:23:19.5",
         "2023-08-05 02:00:00+00", "2024-09-24 18:00:00+00"),
    ]  # fmt: skip
