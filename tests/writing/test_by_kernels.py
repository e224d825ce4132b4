"""UPDATE, DELETE and INSERT by kernels over Arrow leave what they leave row by row, and say the same of errors."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgrepl.engine import run_kernels
from pgrepl.ground.errors import PgError
from pgrepl.lake.table import LakeTable
from tests.harness.dose import dose
from tests.harness.played import Instance
from tests.lake import duck

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# files, rows in the catalog, deletes of both, versions of rows, a column that older files do not have
TABLES = (
    "CREATE TABLE t (a int PRIMARY KEY, b int, c numeric(6,2), d text, e date, f double precision, g boolean, x int, "
    "h smallint NOT NULL DEFAULT 7, CHECK (b < 5000), CHECK (c IS NULL OR c * 2 < 9000))",
    "ALTER TABLE t DROP COLUMN x",
    "INSERT INTO t SELECT n, n % 13 - 4, n * 0.25, 'v' || n % 7, date '2024-01-01' + n, n / 3.0, n % 3 = 0 "
    "FROM generate_series(1, 60) n",
    "UPDATE t SET b = NULL, d = NULL WHERE a % 5 = 0",
    "ALTER TABLE t ADD COLUMN i varchar(6) DEFAULT 'none'",
    "INSERT INTO t (a, b, d, i) SELECT n, n, 'w' || n, NULL FROM generate_series(61, 90) n",
    "INSERT INTO t (a, b, c, f, g) VALUES (101, 1, 1.5, 'NaN', true), (102, NULL, NULL, '-Infinity', NULL)",
    "DELETE FROM t WHERE a IN (3, 70, 101)",
    "UPDATE t SET i = 'one' WHERE a = 102",
)
CONDITIONS = (
    "a > {n}", "a BETWEEN {n} AND {m}", "b = {k}", "b <> {k}", "b IS NULL", "d IS NOT NULL", "c * 4 > {n}",
    "d LIKE '%{k}'", "d > 'v3'", "d IN ('v1', 'w77', 'v{k}')", "e < date '2024-02-01' + {k}", "f > {n}", "g", "NOT g",
    "a % 7 = {k}", "upper(d) = 'V{k}'", "{n} / (a - {m}) > 0", "b + a < {m}", "coalesce(b, 0) = {k}", "i = 'none'",
    "length(d) = 2", "(b > {k}) IS NOT TRUE", "h * 5000 = 35000", "tableoid = 't'::regclass", "f = 'NaN'",
    "c + {k} < 9", "a::bigint * 2 > {n}",
)  # fmt: skip
VALUES = {
    "b": (
        "b + 1",
        "a",
        "a * {n}",
        "NULL",
        "{k}",
        "a / (b - {k})",
        "b * 1000000000",
        "coalesce(b, a)",
        "length(d)",
        "-b",
        "h",
    ),
    "c": ("c * 2", "a", "c + 0.125", "NULL", "a * 100", "b / 3.0", "f"),
    "d": ("d || '!'", "'x' || a", "upper(d)", "NULL", "i", "d || b || g", "'q'"),
    "e": ("e + 1", "NULL", "date '2020-02-02'", "e - b"),
    "f": ("f / 2", "c", "a * 0.5", "f * f", "NULL", "1 / f", "b"),
    "g": ("NOT g", "a > {n}", "NULL", "b = {k}"),
    "h": ("h + 1", "a", "b", "h * 1000", "NULL", "{k}"),
    "i": ("i || 'z'", "'v' || a", "d", "'longer'", "NULL"),
}


class Random:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.inserted = 0

    def filled(self, text: str) -> str:
        n, m, k = self.random.randrange(1, 100), self.random.randrange(1, 100), self.random.randrange(8)
        return text.format(n=n, m=m, k=k)

    def condition(self, depth: int = 2) -> str:
        if depth and self.random.random() < 0.5:
            join = self.random.choice((" AND ", " OR ", " AND "))
            parts = [self.condition(depth - 1) for _ in range(self.random.choice((1, 2, 2, 3)))]
            return self.random.choice(("({})", "({})", "(NOT ({}))")).format(join.join(parts))
        return self.filled(self.random.choice(CONDITIONS))

    def statement(self) -> str:
        where = self.random.choice((" WHERE " + self.condition(), " WHERE " + self.condition(), ""))
        if where and self.random.random() < 0.25:
            return f"DELETE FROM t{where} AND a % 3 = {self.random.randrange(3)}"
        if self.random.random() < 0.2:
            return self.insert(where)
        columns = self.random.sample(sorted(VALUES), self.random.choice((1, 1, 2, 3)))
        values = [f"{column} = {self.filled(self.random.choice(VALUES[column]))}" for column in columns]
        return f"UPDATE t SET {', '.join(values)}{where}"

    def insert(self, where: str) -> str:
        """Each time with other keys."""
        self.inserted += 1000
        columns = self.random.sample(sorted(VALUES), self.random.choice((1, 2, 4)))
        values = [self.filled(self.random.choice(VALUES[column])) for column in columns]
        if self.random.random() < 0.2:
            return f"INSERT INTO t (a, b, f) SELECT n + {self.inserted}, n % 7, n * 0.5 FROM generate_series(1, 30) n"
        some = f"a < 200 AND a % 3 = {self.random.randrange(3)}"
        joined = f" WHERE {some} AND ({where.removeprefix(' WHERE ')})" if where else f" WHERE {some}"
        if self.random.random() < 0.5:
            named = ", ".join(f"{value} AS v{n}" for n, value in enumerate(values))
            return (
                f"INSERT INTO t (a, {', '.join(columns)}) SELECT k + {self.inserted}, "
                f"{', '.join(f'v{n}' for n in range(len(values)))} FROM (SELECT a AS k, {named} FROM t{joined}) q"
            )
        return f"INSERT INTO t (a, {', '.join(columns)}) SELECT a + {self.inserted}, {', '.join(values)} FROM t{joined}"


ROWS = "SELECT * FROM t"
BY_COLUMNS = "SELECT work, engine, declined FROM pgrepl_stat_engine WHERE datname = 'sub' AND engine <> 'columns'"


def both_ways(instance: Instance, *statements: str) -> list[str]:
    """`pub` does it row by row, `sub` by columns."""
    by_rows = instance.play("pub", *statements)
    assert instance.play("sub", *statements) == by_rows, statements
    return by_rows


@pytest.fixture
def two(instance: Instance) -> Instance:
    instance.play("pub", "SET pgrepl.engine = local", "SET pgrepl.local_rows = 1000000000")
    instance.play("sub", "SET pgrepl.engine = local", "SET pgrepl.local_rows = 0")
    return instance


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(0, marks=pytest.mark.slow, id="many")]
)
def test_random_statements(two: Instance, seed: int, request: pytest.FixtureRequest) -> None:
    many = "many" in request.node.name
    made = Random(random.randrange(1 << 30) if many else seed)
    for round_ in range(40 if many else 1):
        both_ways(two, "DROP TABLE IF EXISTS t")
        for text in TABLES:
            both_ways(two, text)
        said = {"done": 0, "failed": 0}
        for _ in range(40):
            answer = both_ways(two, made.statement())
            said["failed" if answer[0].startswith("ERROR") else "done"] += 1
            both_ways(two, ROWS)
        assert many or all(said.values()), (round_, said)
        assert two.play("sub", BY_COLUMNS) == []
        wanted = two.play("sub", "SELECT count(*), sum(a), sum(b), count(d), sum(h) FROM t")
        query = 'SELECT count(*), sum(a), sum(b), count(d), sum(h) FROM lake."sub".t'
        found = duck.duck(two.folder / "catalog.db", query)
        assert ["|".join("" if value is None else str(value) for value in row) for row in found] == wanted
    duck.close(two.folder / "catalog.db")


@pytest.mark.slow
def test_the_first_error_in_the_order_of_the_rows(two: Instance) -> None:
    """Whatever portion it is in, and whatever column or rule it is about."""
    both_ways(two, "CREATE TABLE t (a int, b int CHECK (b <> 33500), c int NOT NULL)")
    for low, high in ((1, 33_000), (33_001, 34_000)):
        both_ways(two, f"INSERT INTO t SELECT n, 0, n FROM generate_series({low}, {high}) n")
    for value in ("a + 1 - 1", "nullif(a, 33200)", "33499 + 1 / (a - 33400)"):
        assert both_ways(two, f"UPDATE t SET b = {value} WHERE a > 30000")[0].startswith("ERROR"), value
        assert both_ways(two, f"UPDATE t SET c = {value}, b = a WHERE c <> 7")[0].startswith("ERROR"), value
    assert both_ways(two, "DELETE FROM t WHERE 1 / (a - 33999) > 5") == ["ERROR:  division by zero"]
    assert both_ways(two, "UPDATE t SET b = 1 / (a - 33999) WHERE a < 33600") == ["UPDATE 33599"]
    assert both_ways(two, "SELECT count(*), sum(b), sum(c) FROM t") == ["34000|0|578017000"]


def test_few_rows_stand_in_the_catalog(two: Instance) -> None:
    """As they do when they are changed one by one; more of them in files."""
    both_ways(two, "CREATE TABLE t (a int, b text)", "INSERT INTO t SELECT n, 'v' FROM generate_series(1, 500) n")
    path = two.folder / "catalog.db.files" / "sub"
    before = len(list(path.rglob("*.parquet")))
    both_ways(two, "UPDATE t SET b = 'w' WHERE a > 450", "DELETE FROM t WHERE a % 7 = 0", ROWS)
    assert len(list(path.rglob("*.parquet"))) == before
    both_ways(two, "UPDATE t SET b = 'x' WHERE a > 350", "DELETE FROM t WHERE a % 2 = 0", ROWS)
    assert len(list(path.rglob("*.parquet"))) > before + 1


def test_partitions_one_by_one(two: Instance) -> None:
    both_ways(
        two,
        "CREATE TABLE t (a int, b text, c int CHECK (c > -50)) PARTITION BY RANGE (a)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE t2 (c int CONSTRAINT t_c_check CHECK (c > -50), x int, b text, a int)",
        "ALTER TABLE t2 DROP COLUMN x",
        "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (50) TO (100)",
        "INSERT INTO t SELECT n, 'v' || n, n FROM generate_series(1, 99) n",
    )
    both_ways(two, "UPDATE t SET b = b || a, c = c - 1 WHERE a % 3 = 0", ROWS, "SELECT * FROM t2")
    both_ways(two, "DELETE FROM t WHERE a BETWEEN 40 AND 60 OR b = 'v1'", ROWS)
    assert both_ways(two, "UPDATE t SET c = 20 - a")[1] == "DETAIL:  Failing row contains (70, v70, -50)."
    assert two.play("sub", BY_COLUMNS) == []


def test_nothing_is_left_if_the_files_of_one_partition_cannot_be_moved(
    two: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.play(
        "sub",
        "CREATE TABLE t (a int, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (500)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (500) TO (1000)",
        "INSERT INTO t SELECT n, 'v' FROM generate_series(1, 999) n",
    )
    before = files(two)
    take = run_kernels.take
    taken: list[str] = []

    def once(table: LakeTable, folder: str, made: list[Any]) -> Any:
        if taken:
            raise PgError("53100", "disk is full")
        taken.append(table.name)
        return take(table, folder, made)

    monkeypatch.setattr(run_kernels, "take", once)
    assert two.play("sub", "UPDATE t SET b = 'w'") == ["ERROR:  disk is full"]
    assert (taken, files(two)) == (["t1"], before)


def files(instance: Instance) -> set[Path]:
    return set((instance.folder / "catalog.db.files").rglob("*.parquet"))


def test_rows_come_from_partitions_and_series_into_tables_with_keys(two: Instance) -> None:
    both_ways(
        two,
        "CREATE TABLE s (a int, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE s1 PARTITION OF s FOR VALUES FROM (0) TO (300)",
        "CREATE TABLE s2 PARTITION OF s FOR VALUES FROM (300) TO (1000)",
        "INSERT INTO s SELECT n, 'v' || n FROM generate_series(1, 600) n",
        "CREATE TABLE t (k bigint PRIMARY KEY, b varchar(5) DEFAULT 'none', c numeric(8,2) UNIQUE, d float8)",
        "CREATE VIEW w AS SELECT a + 1 AS up, upper(b) AS b FROM s WHERE a % 2 = 0",
    )
    both_ways(two, "INSERT INTO t SELECT up, b, up * 0.25, up / 3.0 FROM w WHERE up > 30", "SELECT * FROM t")
    both_ways(two, "INSERT INTO t (k, c) SELECT -g, g * 1.375 FROM generate_series(1, 200, 3) g", "SELECT * FROM t")
    both_ways(two, "INSERT INTO t (k) SELECT g FROM generate_series(-1000000000000, -999999999900, 7) g")
    both_ways(two, "INSERT INTO t (k, b) SELECT g, 'long' FROM generate_series(-1000, -1100, -1) g", "SELECT * FROM t")
    both_ways(two, "INSERT INTO t (k) SELECT g FROM generate_series(1, 0) g", "SELECT count(*) FROM t")
    assert two.play("sub", BY_COLUMNS) == []
    taken = both_ways(two, "INSERT INTO t (k) SELECT a FROM s WHERE a BETWEEN 40 AND 400")
    assert taken[1] == "DETAIL:  Key (k)=(41) already exists."
    twice = both_ways(two, "INSERT INTO t (k) SELECT 5000 + a / 2 FROM s")
    assert twice[1] == "DETAIL:  Key (k)=(5001) already exists."
    assert two.play("sub", BY_COLUMNS) == ["INSERT|local|a unique key"]
    both_ways(two, "INSERT INTO t (k, b) SELECT a + 5000, b || b FROM s", "SELECT count(*) FROM t")


@pytest.mark.parametrize(
    "statement",
    dose(
        [
            "INSERT INTO t (a, c) SELECT a + 100, c + 10000 FROM t",
            "INSERT INTO u SELECT a FROM t ORDER BY a LIMIT 3",
            "INSERT INTO u SELECT a FROM t",
            "INSERT INTO v (b) SELECT b FROM t",
            "UPDATE t SET a = a + 100",
            "UPDATE t SET e = e WHERE a IN (SELECT a FROM u)",
            "UPDATE t SET c = c + 1",
            "UPDATE t SET b = b + 1",
            "DELETE FROM t",
            "UPDATE t SET e = e RETURNING a",
            "UPDATE t SET e = random() * 0",
        ],
        3,
    ),
)
def test_what_is_done_row_by_row(two: Instance, statement: str) -> None:
    both_ways(
        two,
        "CREATE TABLE t (a int PRIMARY KEY, b int, c int UNIQUE, d int GENERATED ALWAYS AS (b * 2) STORED, e int)",
        "CREATE TABLE u (a int REFERENCES t)",
        "CREATE TABLE v (id serial, b int)",
        "INSERT INTO t SELECT n, n, n * 10 FROM generate_series(1, 30) n",
    )
    both_ways(two, statement, "SELECT * FROM t ORDER BY a", "SELECT * FROM v")
    assert "Engine: local" in "".join(two.play("sub", f"EXPLAIN {statement}"))


def test_tasks_of_spark_do_the_same(spark: SparkSession, two: Instance) -> None:
    def done(statement: str) -> None:
        two.play("sub", "SET pgrepl.engine = spark")
        by_rows = two.play("pub", statement)
        assert two.play("sub", statement) == by_rows, statement
        two.play("sub", "SET pgrepl.engine = local")
        both_ways(two, ROWS)

    for text in TABLES:
        both_ways(two, text)
    made = Random(7)
    for _ in range(6):
        done(made.statement())
    done("UPDATE t SET d = 'x' || a, b = 1 WHERE a % 2 = 0")
    done("DELETE FROM t WHERE upper(d) = 'X8'")
    done("INSERT INTO t (a, d) SELECT n, 'new ' || n FROM generate_series(20000, 20200) n")
    done("UPDATE t SET b = 1 / (a - 20) WHERE a > 8")
    done("UPDATE t SET h = NULL WHERE a > 8")
    declined = "SELECT count(*) FROM pgrepl_stat_engine WHERE datname = 'sub' AND engine = 'local'"
    assert two.play("sub", declined) == ["0"]


USERS = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE DOMAIN year AS int CHECK (VALUE > 1900)",
    "CREATE DOMAIN word AS text NOT NULL CHECK (length(VALUE) < 8)",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TABLE t (n int, m mood, y year, w word DEFAULT 'w', p pair, l mood[], i interval, r int4range, q pair[])",
    "CREATE TABLE u (LIKE t INCLUDING ALL)",
    "INSERT INTO t SELECT g, (ARRAY['sad', 'ok', NULL])[g % 3 + 1]::mood, 1900 + g, 'v' || g, ROW(g, 'b')::pair, "
    "ARRAY['ok']::mood[], g * interval '1 hour', int4range(g, g + 5), ARRAY[ROW(g, NULL)::pair] "
    "FROM generate_series(1, 300) g",
)


def test_columns_of_users_types(two: Instance) -> None:
    for text in ("DROP TABLE IF EXISTS t", *USERS):
        both_ways(two, text)
    two.play("sub", "SELECT pg_stat_reset()")
    for text in (
        "INSERT INTO u SELECT * FROM t WHERE m = 'ok' OR i > interval '100 hours'",
        "INSERT INTO u (n, y, w) SELECT n, n + 1900, 'x' || n FROM t WHERE r = int4range(7, 12) OR 'ok' = ANY (l)",
        "UPDATE u SET y = n + 1901, m = 'happy', p = '(5,x)', l = '{sad,NULL}', r = 'empty' "
        "WHERE y > 1950 AND m <> 'sad'",
        "UPDATE u SET n = n + 1 WHERE l = '{ok}' AND i IN ('120:00:00', '5 days 01:00:00')",
        "UPDATE u SET q = NULL, i = '1 mon' WHERE m < 'happy'",
        "DELETE FROM u WHERE i = interval '30 days' OR l IS DISTINCT FROM '{ok}' AND n % 2 = 0",
    ):
        assert not both_ways(two, text)[0].startswith("ERROR"), text
        both_ways(two, "SELECT * FROM u")
    assert two.play("sub", BY_COLUMNS + " AND engine <> 'local'") == []
    assert two.play("sub", "SELECT sum(calls) > 5 FROM pgrepl_stat_engine WHERE engine = 'columns'") == ["t"]
    for text in (
        "UPDATE u SET y = n",
        "UPDATE u SET w = NULL WHERE n > 250",
        "UPDATE u SET w = 'too long ' || n",
        "INSERT INTO u (n, w) SELECT n, CASE WHEN n > 200 THEN 'much too long' ELSE 'w' END FROM t",
        "INSERT INTO u (n, y) SELECT n, 2000 - n FROM t",
    ):
        assert both_ways(two, text)[0].startswith("ERROR"), text
    both_ways(two, "SELECT * FROM u")
    for text in ("ALTER TYPE pair ADD ATTRIBUTE c int", "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'"):
        both_ways(two, text)
    both_ways(two, "UPDATE t SET n = n + 1 WHERE m = 'fine' OR p = '(1,b,)'::pair", "INSERT INTO u SELECT * FROM t")
    both_ways(two, "SELECT * FROM t", "SELECT * FROM u")
