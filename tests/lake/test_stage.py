"""Files that Spark writes: what DuckDB reads of them, their ids and statistics; nothing is left of a failure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.engine import result_spark, scan_spark
from pgrepl.ground.errors import PgError, marked
from pgrepl.lake import commit
from pgrepl.lake.read.extent import locate
from pgrepl.lake.read.files import data_files, last_snapshot
from pgrepl.rows.arrivals import Arrival
from pgrepl.rows.staged import StagedRows
from tests.lake.conftest import Lake
from tests.lake.spark_rows import CLOCK, agree, nothing_inlined
from tests.lake.test_deletion_vectors import VECTORS, formats

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pgrepl.lake.read.data_file import NewFile

TYPES = (
    "a int2, b int4, c int8, d float4, e float8, f numeric(12,3), g numeric, h text, i varchar(20), j char(4), k bool,"
    f" l bytea, m date, n {CLOCK}, o timestamp, p timestamptz, q uuid, r int[], s text[], t jsonb, u uuid[],"
    " v numeric(4,2)[]"
)
VALUES = (
    "(-32768, -2147483648, -9223372036854775808, 'NaN', '-Infinity', 123456789.125, 'NaN', 'it''s \\ ü', 'x', 'ab',"
    " true, '\\x00ff', '2000-01-01', '12:34:56.000001', '1999-12-31 23:59:59.5', '2024-02-29 12:00:00+02',"
    " '00112233-4455-6677-8899-aabbccddeeff', '{1,NULL,3}', '{\"a,b\",NULL}', '{\"k\": [1]}',"
    " '{00112233-4455-6677-8899-aabbccddeeff}', '{1.50,NULL}')"
)
NULLS = "(" + ", ".join(["NULL"] * 22) + ")"


def write(lake: Lake, name: str, rows: DataFrame, *, places: bool = False) -> list[NewFile]:
    """Into the table, as a statement of its own."""
    with lake.statement(writes=True):
        rel = find_relation(lake.session, range_var([name]))
        staged = StagedRows(lake.session, rel, last_snapshot(lake.session))
        (done,) = Arrival(lake.session, rel, rel, frozenset(), places=places).write(rows)
        staged.take(done, versions=places)
        commit.record_writes(lake.session, [staged.write])
    return staged.files


def copy(lake: Lake, source: str, target: str, filter: str = "true") -> list[NewFile]:
    """All rows of a table into another of the same columns."""
    table = lake.table(source)
    with lake.statement():
        rows = scan_spark.frame(lake.session, table, [column.attnum for column in table.columns]).filter(filter)
    return write(lake, target, rows)


def test_every_type_is_what_duckdb_reads(lake: Lake, spark: SparkSession) -> None:
    lake.sql(f"CREATE TABLE s ({TYPES})")
    lake.sql(f"CREATE TABLE t ({TYPES})")
    lake.sql(f"INSERT INTO s VALUES {VALUES}, {NULLS}")
    (file,) = copy(lake, "s", "t")
    assert file.record_count == 2
    assert agree(lake, "t") == 2
    assert lake.duck("SELECT * FROM postgres.t ORDER BY a") == lake.duck("SELECT * FROM postgres.s ORDER BY a")
    assert lake.duck("SELECT rowid, r[2], s[1], u[1], v[1] FROM postgres.t WHERE b < 0") == [
        ("0", None, "a,b", "00112233-4455-6677-8899-aabbccddeeff", "1.50")
    ]


def test_files_carry_all_field_ids_and_true_statistics(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE t (a int, b float8, c text[], d numeric(30,2), e float4, f uuid, g date)")
    rows = spark.sql(
        "SELECT CAST(id AS INT) c1, IF(id = 7, double('NaN'), double(id)) c2, array('x', string(id)) c3,"
        " CAST(-id AS DECIMAL(30,2)) c4, float(id) c5, unhex(lpad(hex(id), 32, '0')) c6, CAST(NULL AS DATE) c7"
        " FROM range(0, 10, 1, 1)"
    )
    (file,) = write(lake, "t", rows)
    table = lake.table("t")
    schema = pq.read_metadata(table.location + file.name).schema
    names = [schema.column(i).path for i in range(len(schema))]
    assert names == ["a", "b", "c.list.element", "d", "e", "f", "g"]
    arrow = pq.read_schema(table.location + file.name)
    inner = arrow.field("c").type.value_field
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in (*arrow, inner)]
    assert ids == [*(column.column_id for column in table.columns), table.columns[2].fields[0].column_id]
    found = {column: (s.low, s.high, s.values, s.nulls, s.has_nan) for column, s in file.statistics.items()}
    assert found == {
        ids[0]: ("0", "9", 10, 0, None),
        ids[1]: ("0.0", "9.0", 10, 0, True),
        ids[7]: ("0", "x", 20, 0, None),
        ids[3]: ("-9.00", "0.00", 10, 0, None),
        ids[4]: ("0", "9", 10, 0, False),
        ids[5]: ("0" * 8 + "-0000-0000-0000-" + "0" * 12, "0" * 8 + "-0000-0000-0000-" + "0" * 11 + "9", 10, 0, None),
        ids[6]: (None, None, 0, 10, None),
    }
    assert lake.duck("SELECT min(d), max(d), count(b), count(g) FROM postgres.t") == [("-9.00", "0.00", "10", "0")]


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, 200])
def test_many_columns_have_their_ids(lake: Lake, spark: SparkSession, count: int) -> None:
    """A list of many schema elements has another header in the footer."""
    last = count - 1
    lake.sql("CREATE TABLE t (" + ", ".join(f"c{i} int[]" for i in range(count)) + ")")
    write(lake, "t", spark.range(3).select(*[_list(i) for i in range(count)]))
    assert lake.duck(f"SELECT c0, c{last} FROM postgres.t ORDER BY c0") == [
        (f"[{i}, 0]", f"[{i}, {last}]") for i in range(3)
    ]


def _list(number: int) -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"array(int(id), {number})").alias(f"c{number + 1}")


COMPRESSIONS = ("lz4", "snappy", "zstd", "gzip", "uncompressed", "brotli")


@pytest.mark.parametrize("option", [None, *COMPRESSIONS])
def test_the_compression_is_that_of_the_lakes_option(lake: Lake, spark: SparkSession, option: str | None) -> None:
    """Of files that Spark writes, and Python. Spark cannot read brotli."""
    lake.sql("CREATE TABLE t (a int, b text)")
    nothing_inlined(lake)
    if option is not None:
        lake.duck_runs(
            f"CALL lake.set_option('parquet_compression', '{option}', table_name => 't', schema => 'postgres')"
        )
    texts = "CASE WHEN id % 7 = 0 THEN NULL ELSE repeat('abc', 10) || id END AS c2"
    write(lake, "t", spark.range(0, 3000, 1, 1).selectExpr("int(id) AS c1", texts))
    lake.insert("t", *[(str(n), f"{n} is it") for n in range(3000)])
    with lake.statement():
        files = data_files(lake.session, lake.table("t"))
    by_spark, by_python = [{column.compression for column in columns_of(file.path)} for file in files]
    assert by_spark == by_python == {"ZSTD" if option == "brotli" else (option or "lz4").upper()}
    assert agree(lake, "t") == 6000
    assert lake.duck("SELECT count(*), sum(a), count(b) FROM postgres.t") == [("6000", "8997000", "5571")]


def test_an_option_of_a_schema_stays_when_it_is_renamed(lake: Lake) -> None:
    lake.sql("CREATE DATABASE shop")
    nothing_inlined(lake)
    lake.duck_runs("CALL lake.set_option('parquet_compression', 'zstd', schema => 'shop')")
    lake.sql("ALTER DATABASE shop RENAME TO store")
    assert lake.query(
        "SELECT s.schema_name, m.value FROM ducklake_metadata m JOIN ducklake_schema s ON s.schema_id = m.scope_id"
        " AND s.end_snapshot IS NULL WHERE m.scope = 'schema'"
    ) == [("store", "zstd")]


def columns_of(path: str) -> list[pq.ColumnChunkMetaData]:
    group = pq.read_metadata(path).row_group(0)
    return [group.column(n) for n in range(group.num_columns)]


def test_no_rows_make_no_file(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE t (a int)")
    assert write(lake, "t", spark.range(100, numPartitions=4).selectExpr("int(id) c1").filter("c1 < 0")) == []
    assert os.listdir(lake.table("t").location) == []


def test_partitions_of_few_rows_become_one_file_in_their_order(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE t (a int, b text[])")
    files = write(lake, "t", spark.range(0, 1000, 1, 7).selectExpr("int(id) c1", "array(string(id)) c2"))
    assert [file.record_count for file in files] == [1000]
    assert [row[0] for row in lake.rows("t")] == [str(i) for i in range(1000)]
    assert lake.duck("SELECT count(*), sum(b[1]::INT) FROM postgres.t") == [("1000", "499500")]


@pytest.mark.slow
def test_much_stays_in_as_many_files_as_there_are_partitions(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE t (a int)")
    files = write(lake, "t", spark.range(0, 4000, 1, 3).selectExpr("int(id) c1"))
    assert [file.record_count for file in files] == [1333, 1333, 1334]
    location = Path(lake.table("t").location)
    assert sorted(os.listdir(location)) == sorted(file.name for file in files)
    assert all(file.name.startswith("ducklake-") and file.name.endswith(".parquet") for file in files)
    assert agree(lake, "t") == 4000


@pytest.mark.slow
def test_updated_rows_keep_their_ids(lake: Lake, spark: SparkSession) -> None:
    """The places of the old versions are in files, those of rows updated before, or in the catalog."""
    nothing_inlined(lake)
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("INSERT INTO t SELECT i, 'old' FROM generate_series(0, 499) i")
    lake.sql("UPDATE t SET b = 'updated' WHERE a BETWEEN 100 AND 199")
    lake.sql("DELETE FROM t WHERE a % 10 = 9")
    lake.sql("SET search_path = public")
    table = lake.table("t")
    with lake.statement():
        old = scan_spark.frame(lake.session, table, [1, 2], places=True).filter("c1 BETWEEN 150 AND 249")
        new = old.selectExpr("c1", "'new' AS c2", "place")
    (file,) = write(lake, "t", new, places=True)
    assert (file.record_count, file.has_row_ids) == (90, True)
    assert agree(lake, "t") == 450
    counts = "SELECT b, count(*), count(DISTINCT rowid), bool_and(rowid = a) FROM postgres.t GROUP BY b ORDER BY b"
    assert lake.duck(counts) == [
        ("new", "90", "90", "true"), ("old", "315", "315", "true"), ("updated", "45", "45", "true"),
    ]  # fmt: skip


def test_places_become_positions(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE t (a int)")
    for start in (0, 1000):
        lake.sql(f"INSERT INTO t SELECT generate_series({start}, {start + 299})")
    lake.sql("INSERT INTO t VALUES (5000), (5001)")
    table = lake.table("t")
    with lake.statement():
        files = [file.data_file_id for file in data_files(lake.session, table)]
        rows = scan_spark.frame(lake.session, table, [1], places=True).filter("c1 % 100 = 1 OR c1 = 5000")
        found = result_spark.positions(rows.unionAll(rows))
        ids = np.array(found.inlined.tolist() + [1, 301, 100, 100], np.int64)
        located = locate(lake.session, table, ids)
        nothing = result_spark.positions(rows.filter("c1 < 0"))
    assert {file: positions.tolist() for file, positions in found.files.items()} == {
        files[0]: [1, 101, 201],
        files[1]: [1, 101, 201],
    }
    assert found.inlined.tolist() == [600, 601]
    assert {file: positions.tolist() for file, positions in located.files.items()} == {
        files[0]: [1, 100],
        files[1]: [1],
    }
    assert located.inlined.tolist() == [600, 601]
    assert (nothing.files, nothing.inlined.tolist()) == ({}, [])


def test_nothing_is_left_of_a_write_that_fails(lake: Lake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE t (a int)")
    message = marked(PgError("23514", "this will not do", detail="Row 700."))
    rows = spark.range(0, 1000, 1, 3).selectExpr(f"IF(id < 700, int(id), int(raise_error('{message}'))) AS c1")
    table = lake.table("t")
    with pytest.raises(PgError) as raised:
        write(lake, "t", rows)
    assert (raised.value.sqlstate, raised.value.report.detail) == ("23514", "Row 700.")
    assert os.listdir(table.location) == []


def test_deletion_vectors(lake: Lake, spark: SparkSession) -> None:
    """Spark reads DuckDB's and ours, and its tasks write them."""
    lake.duck_runs(*VECTORS)
    lake.sql("CREATE TABLE t (a int, b text)")
    for start in (0, 5000):
        lake.sql(f"INSERT INTO t SELECT g, 'x' FROM generate_series({start}, {start + 4999}) g")
    lake.duck_runs("DELETE FROM postgres.t WHERE a % 7 = 0 AND a < 5000")
    lake.sql("SET pgrepl.engine = spark")
    lake.sql("DELETE FROM t WHERE a % 3 = 0 AND a >= 5000")
    assert formats(lake) == [("puffin", False, False)] * 2
    assert agree(lake, "t") == 10_000 - 715 - 1667
    assert lake.duck("SELECT count(*) FROM postgres.t") == [(str(10_000 - 715 - 1667),)]
