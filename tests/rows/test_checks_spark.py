"""Rows that Spark writes are held to the same rules, with the same words, as those written here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.played import Instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETUP = (
    "CREATE TABLE m (id int PRIMARY KEY)",
    "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text, g int GENERATED ALWAYS AS (a * 2) STORED,"
    " m int REFERENCES m ON DELETE CASCADE, CHECK (a < 100), UNIQUE (b, a))",
    "CREATE TABLE p (k int, v text) PARTITION BY RANGE (k)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE p2 (v text, k int, CHECK (v <> 'no'))",
    "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE h (k bigint, v text) PARTITION BY HASH (k, v)",
    "CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    "INSERT INTO m VALUES (1), (2), (3)",
)
STATEMENTS = (
    "INSERT INTO t (id, a, b, m) SELECT i, i, 'b' || i, i % 3 + 1 FROM generate_series(1, 50) i",
    "INSERT INTO t (id, a) SELECT i, nullif(i, 77) FROM generate_series(70, 80) i",
    "INSERT INTO t (id, a) SELECT i, i FROM generate_series(90, 120) i",
    "INSERT INTO t (id, a) SELECT i % 60 + 60, 1 FROM generate_series(1, 100) i",
    "INSERT INTO t (id, a) SELECT 100 - i, 1 FROM generate_series(1, 60) i",
    "INSERT INTO t (id, a, m) SELECT i, 1, i - 200 FROM generate_series(201, 210) i",
    "UPDATE t SET a = 60 - a, b = upper(b)",
    "UPDATE t SET id = id + 1",
    "UPDATE t SET a = a + 50",
    "DELETE FROM m WHERE id = 2",
    "SELECT count(*), sum(id), sum(g), min(b) FROM t",
    "INSERT INTO p SELECT i, 'x' || i FROM generate_series(0, 19) i",
    "INSERT INTO p SELECT i, 'y' FROM generate_series(15, 25) i",
    "INSERT INTO p SELECT i, CASE i WHEN 13 THEN 'no' ELSE 'y' END FROM generate_series(5, 15) i",
    "INSERT INTO p2 (k, v) SELECT i, 'y' FROM generate_series(15, 25) i",
    "UPDATE p SET k = k + 5 WHERE k < 12",
    "UPDATE p1 SET k = 10",
    "SELECT tableoid::regclass, count(*), sum(k), max(v) FROM p GROUP BY 1 ORDER BY 1",
    "INSERT INTO h SELECT i, 'v' || i FROM generate_series(1, 40) i",
    "SELECT tableoid::regclass, sum(k) FROM h GROUP BY 1 ORDER BY 1",
    "ALTER TABLE t ADD s serial, ALTER a TYPE text USING 'n' || a",
    "SELECT min(a), max(a), min(s), max(s), count(DISTINCT s) FROM t",
    "INSERT INTO h0 SELECT k, v FROM h1",
)


SOME = (*STATEMENTS[:8:4], *STATEMENTS[8:10], *STATEMENTS[10::4])


@pytest.mark.parametrize("statements", [SOME, pytest.param(STATEMENTS, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.usefixtures("spark")
def test_both_engines_say_the_same(tmp_path: Path, statements: tuple[str, ...]) -> None:
    said = {}
    for engine in ("local", "spark"):
        instance = Instance(tmp_path / engine)
        instance.play("pub", *SETUP, f"SET pgrepl.engine = {engine}")
        said[engine] = [(statement, *instance.play("pub", statement)) for statement in statements]
        instance.catalog.close()
    assert said["spark"] == said["local"]
    tags = {answer[0]: answer[1] for answer in said["local"]}
    assert tags[STATEMENTS[0]] == "INSERT 0 50" and tags[STATEMENTS[8]].startswith("ERROR")
    assert tags[STATEMENTS[9]] == "DELETE 1"


@pytest.mark.slow  # test_both_engines_say_the_same has a cascade
def test_what_cascades_to_many_rows_is_spark_s_again(spark: SparkSession, tmp_path: Path) -> None:
    instance = Instance(tmp_path / "here")
    instance.play(
        "pub",
        "CREATE TABLE m (id int PRIMARY KEY)",
        "CREATE TABLE c (id int PRIMARY KEY, m int DEFAULT 1 REFERENCES m ON DELETE SET DEFAULT)",
        "CREATE TABLE d (c int REFERENCES c ON DELETE CASCADE)",
        "INSERT INTO m SELECT * FROM generate_series(1, 4) i",
        "INSERT INTO c SELECT i, i % 4 + 1 FROM generate_series(1, 40) i",
        "INSERT INTO d SELECT i % 40 + 1 FROM generate_series(1, 80) i",
        "SET pgrepl.engine = spark",
        "SET pgrepl.local_rows = 5",
    )
    assert instance.play("pub", "DELETE FROM m WHERE id > 2", "SELECT m, count(*) FROM c GROUP BY 1 ORDER BY 1") == [
        "DELETE 2",
        "1|30",
        "2|10",
    ]
    assert instance.play("pub", "DELETE FROM m WHERE id = 1") == [
        'ERROR:  update or delete on table "m" violates foreign key constraint "c_m_fkey" on table "c"',
        'DETAIL:  Key (id)=(1) is still referenced from table "c".',
    ]
    assert instance.play("pub", "DELETE FROM c", "SELECT count(*) FROM d") == ["DELETE 40", "0"]
    instance.catalog.close()


@pytest.mark.usefixtures("spark")
def test_what_cascades_to_a_key_that_may_be_checked_later_is_done_row_by_row(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "here")
    instance.play(
        "pub",
        "CREATE TABLE m (id int PRIMARY KEY)",
        "CREATE TABLE c (id int PRIMARY KEY, m int REFERENCES m ON DELETE CASCADE)",
        "CREATE TABLE d (c int REFERENCES c DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO m VALUES (1), (2)",
        "INSERT INTO c SELECT i, i % 2 + 1 FROM generate_series(1, 9) i",
        "INSERT INTO d SELECT * FROM generate_series(1, 9) i",
        "SET pgrepl.engine = spark",
        "SET pgrepl.local_rows = 2",
    )
    said = instance.play("pub", "BEGIN", "DELETE FROM m WHERE id = 2", "DELETE FROM d WHERE c % 2 = 1", "COMMIT")
    assert said == ["BEGIN", "DELETE 1", "DELETE 5", "COMMIT"]
    assert instance.play("pub", "SELECT count(*) FROM c", "SELECT count(*) FROM d") == ["4", "4"]
    instance.catalog.close()
