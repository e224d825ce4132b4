"""The Spark data source: tables, published rows, a stream of changes, and writes that happen once."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pgrepl
from tests.api import test_datasource_filters as filtering
from tests.harness.programs import QUICK_JVM, environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


table = filtering.table


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    pgrepl.register(spark)
    yield spark


def read(session: SparkSession, catalog: Path, **options: Any) -> DataFrame:
    return session.read.format("pgrepl").option("catalog", str(catalog)).options(**options).load()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


PUSHED = "spark.sql.python.filterPushdown.enabled"
ORDERS = """
CREATE TABLE orders (id bigint PRIMARY KEY, country text, total numeric(10,2), placed date);
INSERT INTO orders VALUES (900, 'DE', 10, '2026-01-01'), (1001, 'AT', 25.50, '2026-01-02'), (1002, NULL, 99, NULL);
CREATE PUBLICATION big_orders FOR TABLE orders (id, total) WHERE (id > 1000)
"""


@pytest.mark.slow
def test_a_table_and_its_published_rows(session: SparkSession, con: pgrepl.Connection, catalog: Path) -> None:
    con.execute(ORDERS)
    orders = read(session, catalog, table="orders")
    assert orders.schema.simpleString() == "struct<id:bigint,country:string,total:decimal(10,2),placed:date>"
    assert orders.count() == 3
    assert rows(orders.filter("placed >= '2026-01-02'").select("id")) == [(1001,)]
    assert rows(orders.filter("country is null or country = 'DE'").select("id")) == [(900,), (1002,)]
    assert rows(read(session, catalog, publication="big_orders")) == [
        (1001, Decimal("25.50")),
        (1002, Decimal("99.00")),
    ]
    assert rows(read(session, catalog, table="orders", where="total > 20").select("id")) == [(1001,), (1002,)]
    named = session.read.format("pgrepl").option("catalog", str(catalog)).option("table", "orders")
    assert rows(named.schema("country STRING").load().dropna()) == [("AT",), ("DE",)]


def test_a_filter_of_one_query_is_none_of_the_next(
    session: SparkSession, con: pgrepl.Connection, catalog: Path
) -> None:
    """Spark 4.1 to 4.3 keep what a pushed filter has left of a DataFrame, so none is pushed unasked."""
    con.execute(ORDERS)
    session.conf.set(PUSHED, "true")
    try:
        orders = read(session, catalog, table="orders")
        assert orders.filter("id = 900").count() == 1
        assert orders.count() == 3
        assert orders.filter("id = 900").union(orders.filter("id > 1000")).count() == 3
    finally:
        session.conf.unset(PUSHED)


def plan(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().explainString(  # type: ignore[operator]
        frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")  # type: ignore
    )


@pytest.fixture
def pushing(session: SparkSession) -> Iterator[SparkSession]:
    pytest.importorskip("pyspark", "4.1")
    session.conf.set(PUSHED, "true")
    yield session
    session.conf.unset(PUSHED)


def test_filters_are_pushed_when_a_person_says_so(pushing: SparkSession, con: pgrepl.Connection, catalog: Path) -> None:
    con.execute(ORDERS)
    orders = read(pushing, catalog, table="orders", pushdown="true")
    found = orders.filter("id > 900 AND total < 99 AND country LIKE '%T'")
    shown = plan(found)
    assert "GreaterThan(id,900), LessThan(total,99.00)]" in shown and "Condition : EndsWith(country" in shown
    assert rows(found.select("id")) == [(1001,)]
    assert orders.count() == 1, "Spark no longer keeps pushed filters for the next query: pushdown can be the default"


@pytest.mark.slow
def test_pushed_filters_give_what_spark_gives(pushing: SparkSession, table: pgrepl.Connection, catalog: Path) -> None:
    from pyspark.sql import functions as F

    # by its statistics of what it keeps in memory Spark would leave out NaN
    pushing.conf.set("spark.sql.inMemoryColumnarStorage.partitionPruning", "false")
    whole = read(pushing, catalog, table="t").cache()
    kinds = {field.name: field.dataType for field in whole.schema.fields}
    chance = random.Random()

    def literal(name: str, value: Any) -> Any:
        plain = isinstance(value, (bool, str, bytes, type(None)))
        return F.lit(value if plain else str(value)).cast(kinds[name])

    def column(filter: Any) -> Any:
        kind = type(filter).__name__
        if kind == "Not":
            return ~column(filter.child)
        (name,) = filter.attribute
        if kind == "In":
            return F.col(name).isin(*[literal(name, value) for value in filter.value])
        if kind in ("IsNull", "IsNotNull"):
            return getattr(F.col(name), kind[0].lower() + kind[1:])()
        return getattr(F.col(name), SPARKS[kind])(literal(name, filter.value))

    for _ in range(40):
        filters = [filtering.random_filter(chance) for _ in range(chance.randint(1, 3))]
        both = reduce(and_, map(column, filters))
        pushed = read(pushing, catalog, table="t", pushdown="true").filter(both)
        assert rows(pushed.select("id")) == rows(whole.filter(both).select("id")), filters


SPARKS = {
    "EqualTo": "__eq__", "EqualNullSafe": "eqNullSafe", "GreaterThan": "__gt__", "GreaterThanOrEqual": "__ge__",
    "LessThan": "__lt__", "LessThanOrEqual": "__le__", "StringStartsWith": "startswith", "StringEndsWith": "endswith",
    "StringContains": "contains",
}  # fmt: skip


@pytest.mark.slow
def test_what_cannot_be_read_is_told(session: SparkSession, con: pgrepl.Connection, catalog: Path) -> None:
    con.execute(ORDERS)
    for options, message in (
        ({"table": "nosuch"}, 'relation "nosuch" does not exist'),
        ({"publication": "nosuch"}, 'publication "nosuch" does not exist'),
        ({}, 'needs the option "table" or "publication"'),
        ({"tabel": "orders", "table": "orders"}, 'unrecognized option "tabel"'),
    ):
        with pytest.raises(Exception, match=message):
            read(session, catalog, **options).count()


def stream(session: SparkSession, catalog: Path, folder: Path, **options: Any) -> None:
    """Read all that is there, and end."""
    frame = session.readStream.format("pgrepl").option("catalog", str(catalog)).options(**options).load()
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "changes"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def changes(session: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    found = session.read.parquet(str(folder / "changes")).orderBy("_seq")
    return [(row._operation, row.id, row.total and str(row.total)) for row in found.collect()]


@pytest.mark.slow  # docs/spark.md shows it
def test_a_stream_of_changes_goes_on_from_its_checkpoint(
    session: SparkSession, con: pgrepl.Connection, catalog: Path, tmp_path: Path
) -> None:
    con.execute(ORDERS)
    options = {"publication": "big_orders", "slot": "spark"}
    stream(session, catalog, tmp_path, **options)
    first = [("insert", 1001, "25.50"), ("insert", 1002, "99.00")]
    assert sorted(changes(session, tmp_path)) == first
    con.execute("UPDATE orders SET total = total + 1")
    con.execute("UPDATE orders SET id = 5 WHERE id = 1001")
    stream(session, catalog, tmp_path, **options)
    then = [("update", 1001, "26.50"), ("update", 1002, "100.00"), ("delete", 1001, None)]
    assert changes(session, tmp_path)[2:] == then
    stream(session, catalog, tmp_path, **options)
    con.execute("TRUNCATE orders")
    stream(session, catalog, tmp_path, **options)
    assert changes(session, tmp_path)[5:] == [("truncate", None, None)]
    assert con.execute("SELECT slot_name FROM pg_replication_slots WHERE confirmed_flush_lsn > '0/5'").fetchall() == [
        ("spark",)
    ]


@pytest.mark.slow  # docs/spark.md starts one again
def test_a_job_that_is_started_again_writes_nothing_twice(
    session: SparkSession, con: pgrepl.Connection, catalog: Path
) -> None:
    con.execute("CREATE TABLE t (id bigint PRIMARY KEY, name text NOT NULL, at timestamptz DEFAULT now())")
    frame = session.range(100).selectExpr("id", "concat('n', id) AS name").repartition(3)
    written = frame.write.format("pgrepl").mode("append").option("catalog", str(catalog)).option("table", "t")
    for _ in range(2):
        written.option("origin", "nightly").option("position", "1").save()
    assert con.execute("SELECT count(*), count(at), max(name) FROM t").fetchone() == (100, 100, "n99")
    with pytest.raises(Exception, match="duplicate key value violates unique constraint"):
        written.option("position", "2").save()
    assert con.execute("SELECT external_id, remote_lsn FROM pg_replication_origin_status").fetchall() == [
        ("nightly", "0/1")
    ]


@pytest.mark.slow
def test_a_stream_is_written_once(session: SparkSession, con: pgrepl.Connection, catalog: Path, tmp_path: Path) -> None:
    con.execute(ORDERS)
    con.execute("CREATE TABLE copy (id bigint, operation text, PRIMARY KEY (id, operation))")
    source = session.readStream.format("pgrepl").option("catalog", str(catalog))
    frame = source.option("publication", "big_orders").option("slot", "copy").load()

    def play() -> None:
        query = (
            frame.selectExpr("id", "_operation AS operation")
            .writeStream.format("pgrepl")
            .option("catalog", str(catalog))
            .option("table", "copy")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    play()
    con.execute("INSERT INTO orders VALUES (2000)")
    play()
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():  # as if Spark had been killed before it noted that
        if commit.name.lstrip(".").split(".")[0] == "1":
            commit.unlink()
    play()
    assert con.execute("SELECT * FROM copy ORDER BY id").fetchall() == [
        (1001, "insert"),
        (1002, "insert"),
        (2000, "insert"),
    ]


@pytest.mark.slow
def test_a_session_of_the_program_computes_what_is_large(con: pgrepl.Connection, catalog: Path, tmp_path: Path) -> None:
    """In a process of its own: there pgrepl has started no Spark yet."""
    con.execute("CREATE TABLE t (a int, b numeric, c uuid)")
    con.execute("INSERT INTO t SELECT g, g, gen_random_uuid() FROM generate_series(1, 1000) g")
    program = """
import sys, pgrepl
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config(*sys.argv[2].split("=", 1)).getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
with pgrepl.connect(sys.argv[1], spark=spark, autocommit=True) as con:
    con.execute("SET pgrepl.engine = spark")
    cur = con.execute("SELECT a, b, c FROM t WHERE a <= %s ORDER BY a", [3])
    frame = cur.spark()
    print(frame.sparkSession.sparkContext is spark.sparkContext, [row.a for row in frame.collect()])
    print([type(value).__name__ for value in cur.fetchone()], cur.arrow().num_rows)
    print(con.write("copied", spark.range(5)), spark.conf.get("spark.sql.session.timeZone"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(catalog), QUICK_JVM],
        cwd=tmp_path,
        env=environment(PYSPARK_PYTHON=sys.executable),
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["True [1, 2, 3]", "['int', 'Decimal', 'UUID'] 3", "5 Asia/Tokyo"], done.stderr
