"""Filters that Spark pushes to the data source: the same rows as if Spark applied them, without a JVM."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import pgrepl
from pgrepl.api.datasource.source import FilteringReader, TableReader, schema_of
from pgrepl.ground.errors import PgError
from tests.api.test_datasource_parts import rows, said

spark = pytest.importorskip("pyspark.sql.datasource")

TABLE = """
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TABLE t (
    id int PRIMARY KEY, i2 smallint, i8 bigint, f4 real, f8 double precision, n numeric(10,2), b boolean, s text,
    v varchar(20), c char(4), d date, ts timestamp, tz timestamptz, y bytea, u uuid, m numeric, k time, p positive
)
"""
UTC = datetime.timezone.utc
IDS = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(4)]
VALUES: dict[str, list[Any]] = {
    "id": list(range(-3, 60, 7)),
    "i2": [-32768, -1, 0, 1, 32767],
    "i8": [-(2**63), -1, 0, 7, 2**63 - 1],
    "f4": [-math.inf, -1.5, -0.0, 0.0, 0.10000000149011612, 1.5, math.inf, math.nan],
    "f8": [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.5, math.inf, math.nan],
    "n": [Decimal("-1.50"), Decimal("0.00"), Decimal("1.50"), Decimal("99999999.99")],
    "b": [True, False],
    "s": ["", "a", "a ", "ab", "A", "á", "\ud7ff", "\ue000x", "\U0010ffff", "\U0010ffffz", "z", "1"],
    "v": ["", "a", "a ", "ab", "\ud7ffy", "b%", "b_"],
    "c": ["    ", "a   ", "ab  ", "a\t  ", "a"],
    "d": [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2026, 2, 28), datetime.date(9999, 12, 31)],
    "ts": [datetime.datetime(1900, 1, 1), datetime.datetime(2026, 3, 29, 2, 30, 0, 1), datetime.datetime(9999, 12, 31)],
    "tz": [
        datetime.datetime(1900, 1, 1, tzinfo=UTC),
        datetime.datetime(2026, 3, 29, 1, 0, 0, 1, tzinfo=UTC),
        datetime.datetime(2026, 10, 25, 1, 0, tzinfo=UTC),
    ],
    "y": [b"", b"\0", b"\0\1", b"a", b"\xff"],
    "u": [*IDS, IDS[1].upper() + " ", "no uuid"],
    "m": ["1.5", "1.50", "NaN"],
    "k": ["00:00:00", "24:00:00", "12:30:00.5"],
    "p": [1, 2, 3],
}
STORED = VALUES | {"c": ["", "a", "ab", "a\t"], "u": IDS}
EXACT = set(VALUES) - {"c", "m", "k"}  # what is decided by PostgreSQL


@pytest.fixture
def table(con: pgrepl.Connection) -> pgrepl.Connection:
    chance = random.Random(5)
    con.execute(TABLE)
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    for first in range(0, 60, 20):  # files with different bounds
        found = [
            [n, *[None if chance.random() < 0.2 else chance.choice(STORED[name]) for name in list(VALUES)[1:]]]
            for n in range(first, first + 20)
        ]
        marks = ", ".join(["%s"] * len(VALUES))
        with con.cursor() as cur:
            cur.executemany(f"INSERT INTO t VALUES ({marks})", found)
    return con


def key(value: Any) -> tuple[bool, Any]:
    """Spark's order: NaN above all, -0.0 the same as 0.0, text by its UTF-8 bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return (False, value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value)


def is_true(filter: Any, row: dict[str, Any]) -> bool | None:
    """What Spark computes."""
    kind = type(filter).__name__
    if kind == "Not":
        found = is_true(filter.child, row)
        return None if found is None else not found
    value = row[filter.attribute[0]]
    if kind in ("IsNull", "IsNotNull"):
        return (value is None) is (kind == "IsNull")
    if kind == "EqualNullSafe":
        return value is not None and key(value) == key(filter.value)
    if value is None:
        return None
    if kind == "In":
        if any(each is not None and key(each) == key(value) for each in filter.value):
            return True
        return None if None in filter.value else False
    one, other = key(value), key(filter.value)
    return {
        "EqualTo": lambda: one == other,
        "GreaterThan": lambda: one > other,
        "GreaterThanOrEqual": lambda: one >= other,
        "LessThan": lambda: one < other,
        "LessThanOrEqual": lambda: one <= other,
        "StringStartsWith": lambda: value.startswith(filter.value),
        "StringEndsWith": lambda: value.endswith(filter.value),
        "StringContains": lambda: filter.value in value,
    }[kind]()


COMPARISONS = ["EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"]
OF_TEXT = ["StringStartsWith", "StringEndsWith", "StringContains"]


def random_filter(chance: random.Random) -> Any:
    name = chance.choice(list(VALUES))
    value = chance.choice(VALUES[name])
    kinds = [*COMPARISONS, "In", "IsNull", "IsNotNull", *(OF_TEXT if name in "svc" else [])]
    kind = chance.choice(kinds)
    made = getattr(spark, kind)
    if kind == "In":
        filter = made((name,), tuple(chance.choice([*VALUES[name], None]) for _ in range(3)))
    else:
        filter = made((name,)) if kind.startswith("Is") else made((name,), value)
    return spark.Not(filter) if chance.random() < 0.3 else filter


def check(catalog: Path, chance: random.Random, count: int) -> tuple[int, int]:
    options = said(catalog, table="t", pushdown="true")
    schema = schema_of(options)
    everything = rows(whole := TableReader(options, schema), whole.partitions())
    taken = skipped = 0
    for _ in range(count):
        filters = [random_filter(chance) for _ in range(chance.randint(1, 3))]
        reader = FilteringReader(options, schema)
        left = list(reader.pushFilters(filters))
        assert all(filter in filters for filter in left)
        taken += len(filters) - len(left)
        parts = reader.partitions()
        skipped += 3 - sum(len(part.part.rows) for part in parts if hasattr(part.part, "rows"))
        found = [row["id"] for row in rows(reader, parts) if all(is_true(filter, row) for filter in left)]
        expected = [row["id"] for row in everything if all(is_true(filter, row) for filter in filters)]
        assert sorted(found) == sorted(expected), filters
    return taken, skipped


def test_the_same_rows_come_as_if_spark_applied_the_filters(table: pgrepl.Connection, catalog: Path) -> None:
    taken, skipped = check(catalog, random.Random(11), 60)
    assert taken > 50 and skipped > 5


@pytest.mark.slow
def test_the_same_rows_come_for_many_filters(table: pgrepl.Connection, catalog: Path) -> None:
    check(catalog, random.Random(), 3000)


def test_what_postgresql_compares_otherwise_stays_with_spark(table: pgrepl.Connection, catalog: Path) -> None:
    options = said(catalog, table="t", pushdown="true")
    reader = FilteringReader(options, schema_of(options))
    refused = [
        spark.EqualTo(("c",), "a   "),  # char(n) without its blanks
        spark.LessThan(("m",), "2"),  # numeric, of which Spark sees the text
        spark.EqualTo(("k",), "12:00:00"),
        spark.EqualTo(("u",), IDS[1].replace("-", "")),
        spark.GreaterThan(("u",), IDS[1]),
        spark.EqualTo(("s",), "a\0"),
        spark.EqualTo(("tz",), datetime.datetime(2026, 1, 1)),
        spark.EqualTo(("ts",), datetime.datetime(2026, 1, 1, tzinfo=UTC)),
        spark.StringContains(("s",), "a"),
        spark.EqualTo(("s", "x"), "a"),
        spark.EqualTo(("nosuch",), 1),
        spark.EqualTo(("id",), None),
    ]
    assert list(reader.pushFilters(refused)) == refused
    for name in EXACT - {"u"}:
        assert not list(reader.pushFilters([spark.GreaterThan((name,), VALUES[name][-1])])), name


def test_a_filter_leaves_out_files_and_keeps_privileges(table: pgrepl.Connection, catalog: Path) -> None:
    table.execute("CREATE ROLE r LOGIN; CREATE PUBLICATION p FOR TABLE t (id, s) WHERE (id < 50)")
    options = said(catalog, publication="p", pushdown="true", where="id > 3", user="r")
    table.execute("GRANT SELECT (id, s) ON t TO r")
    reader = FilteringReader(options, schema_of(options))
    assert list(reader.pushFilters([spark.GreaterThan(("id",), 45), spark.IsNotNull(("id",))])) == []
    parts = reader.partitions()
    assert sorted(row["id"] for row in rows(reader, parts)) == [46, 47, 48, 49]
    assert sum(len(each.part.rows) for each in parts) == 1


def test_filters_of_a_partitioned_table(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (a int, b text) PARTITION BY RANGE (a)")
    con.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    con.execute("CREATE TABLE t2 (b text, a int); ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (10) TO (20)")
    con.execute("INSERT INTO t VALUES (1, 'x'), (2, NULL), (11, 'x'), (12, 'y')")
    con.execute("CREATE PUBLICATION p FOR TABLE t WHERE (a > 1) WITH (publish_via_partition_root)")
    for options, expected in (({"table": "t"}, [1, 11]), ({"publication": "p"}, [11])):
        reader = FilteringReader(said(catalog, **options), schema_of(said(catalog, **options)))
        assert list(reader.pushFilters([spark.EqualTo(("b",), "x"), spark.Not(spark.IsNull(("a",)))])) == []
        assert sorted(row["a"] for row in rows(reader, reader.partitions())) == expected


def test_a_spark_that_pushes_nothing_is_told(
    table: pgrepl.Connection, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(spark.DataSourceReader, "pushFilters")
    options = said(catalog, table="t", pushdown="true")
    with pytest.raises(PgError, match=r"since 4\.1"):
        FilteringReader(options, schema_of(options))
