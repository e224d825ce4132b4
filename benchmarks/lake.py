"""Tables in the lake beside bare Spark doing the same in the same session: 10 million rows of four columns.

Bulk statements are compared by ratio; single rows and look-ups by the seconds they take. `PGREPL_BENCH_ROWS` makes it
smaller.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROWS = int(os.environ.get("PGREPL_BENCH_ROWS", 10_000_000))

Line = tuple[str, str, str, str, bool]


class Bench:
    """A catalog, a session in it, and the Spark session that both sides use."""

    def __init__(self, folder: Path) -> None:
        from pgrepl.backend import open_session
        from pgrepl.catalog.store.opening import open_catalog
        from pgrepl.engine import spark

        self.folder = folder
        self.catalog = open_catalog(folder / "catalog.db")
        self.session = open_session(self.catalog)
        self.spark = spark.session()

    def sql(self, text: str) -> list[tuple[str | None, ...]]:
        from pgrepl.statements.run import run

        return [row for result in run(self.session, text) for row in result.rows]

    def timed(self, action: Callable[[], Any]) -> float:
        began = time.perf_counter()
        action()
        return time.perf_counter() - began

    def files(self, table: str) -> list[str]:
        """The data files of a table."""
        from pgrepl.catalog.facts.relation import find_relation, range_var
        from pgrepl.catalog.session.transaction import reading
        from pgrepl.lake.read.files import data_files
        from pgrepl.lake.table import lake_table

        with reading(self.session):
            found = lake_table(self.session, find_relation(self.session, range_var([table])).oid)
            return [file.path for file in data_files(self.session, found)]

    def bytes_of(self, table: str) -> int:
        return sum(os.path.getsize(path) for path in self.files(table))

    def fresh(self, name: str) -> str:
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        return str(path)

    def close(self) -> None:
        self.session.close()
        self.catalog.close()


def best(times: int, action: Callable[[], float]) -> float:
    return min(action() for _ in range(times))


def ratio(what: str, ours: float, floor: float, beside: str, limit: float) -> Line:
    found = ours / floor
    return what, f"{found:.2f} ({ours:.2f} s)", f"{beside}: {floor:.2f} s", f"{limit}", found <= limit


def seconds(what: str, ours: float, limit: float) -> Line:
    return what, f"{ours:.3f} s", "", f"{limit} s", ours <= limit


def source(bench: Bench, rows: int) -> str:
    """A Parquet folder, rows clustered by id."""
    path = bench.fresh(f"source{rows}")
    columns = ("id", "cast(id % 1000 AS int) AS k", "concat('value ', id) AS s", "id * 0.5D AS d")
    bench.spark.range(rows).selectExpr(*columns).write.parquet(path)
    return path


COLUMNS = "(id bigint, k int, s text, d double precision)"


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(Path(work))
        try:
            warm_up(bench)
            yield from bulk(bench)
            yield from single_rows(bench)
            yield from clustered(bench)
        finally:
            bench.close()


def warm_up(bench: Bench) -> None:
    """Both sides once, small: the JVM compiles what it will run."""
    path = source(bench, 300_000)
    bench.sql(f"CREATE TABLE warm {COLUMNS}")
    for _ in range(2):
        bench.sql(f"COPY warm FROM '{path}' (FORMAT parquet)")
        bench.spark.read.parquet(path).write.parquet(bench.fresh("warm"))
    bench.sql("SET pgrepl.engine = spark")
    bench.sql("UPDATE warm SET s = s || '!' WHERE id % 100 = 7")
    bench.sql("SELECT count(*) FROM warm WHERE k < 500")
    bench.sql("SET pgrepl.engine = auto")
    bench.sql("DROP TABLE warm")


def bulk(bench: Bench) -> Iterator[Line]:
    spark = bench.spark
    path = source(bench, ROWS)
    write = best(2, lambda: bench.timed(lambda: spark.read.parquet(path).write.parquet(bench.fresh("floor"))))

    def copied() -> float:
        bench.sql(f"DROP TABLE IF EXISTS t; CREATE TABLE t {COLUMNS}")
        return bench.timed(lambda: bench.sql(f"COPY t FROM '{path}' (FORMAT parquet)"))

    yield ratio(f"COPY FROM parquet, {ROWS:,} rows", best(2, copied), write, "read.write", 1.3)

    def inserted() -> float:
        bench.sql(f"DROP TABLE IF EXISTS u; CREATE TABLE u {COLUMNS}")
        return bench.timed(lambda: bench.sql("INSERT INTO u SELECT * FROM t"))

    yield ratio(f"INSERT … SELECT, {ROWS:,} rows", best(2, inserted), write, "read.write", 1.3)
    bench.sql("DROP TABLE u")

    files = bench.files("t")
    count = "SELECT count(*) FROM t"
    floor = best(5, lambda: bench.timed(lambda: spark.read.parquet(*files).count()))
    yield ratio("SELECT count(*)", best(5, lambda: bench.timed(lambda: bench.sql(count))), floor, "count", 1.2)
    floor = best(5, lambda: bench.timed(lambda: spark.read.parquet(*files).filter("k < 500 AND s LIKE '%7%'").count()))
    query = "SELECT count(*) FROM t WHERE k < 500 AND s LIKE '%7%'"
    ours = best(5, lambda: bench.timed(lambda: bench.sql(query)))
    yield ratio("SELECT count(*) … WHERE", ours, floor, "filter.count", 1.2)

    keys = bench.fresh("keys")
    spark.range(ROWS).filter("id % 100 = 7").write.parquet(keys)

    def joined() -> None:
        from pyspark.sql import functions as F

        found = spark.read.parquet(*files).join(F.broadcast(spark.read.parquet(keys)), "id")
        found.withColumn("s", F.concat("s", F.lit("!"))).write.parquet(bench.fresh("joined"))

    floor = best(2, lambda: bench.timed(joined))
    before = bench.bytes_of("t")
    ours = bench.timed(lambda: bench.sql("UPDATE t SET s = s || '!' WHERE id % 100 = 7"))
    share = (bench.bytes_of("t") - before) / before
    yield ratio("UPDATE of 1 %", ours, floor, "join.write", 1.5)
    yield "… its new files", f"{share:.1%} of the table", "", "3 %", share < 0.03


def single_rows(bench: Bench) -> Iterator[Line]:
    bench.sql("ALTER TABLE t ADD PRIMARY KEY (id)")
    files = len(bench.files("t"))
    numbers = iter(range(ROWS * 2, ROWS * 3))

    def one() -> float:
        return bench.timed(lambda: bench.sql(f"INSERT INTO t VALUES ({next(numbers)}, 1, 'one', 1.5)"))

    one()
    yield seconds("one-row INSERT, primary key", best(5, one), 0.3)
    script = "; ".join(f"INSERT INTO t VALUES ({next(numbers)}, 1, 'one', 1.5)" for _ in range(1000)).split("; ")
    yield seconds("1,000 one-row INSERTs", bench.timed(lambda: [bench.sql(text) for text in script]), 60)
    assert len(bench.files("t")) == files, "single rows are inlined"
    bench.sql("VACUUM t")
    query = "SELECT count(*) FROM t WHERE k < 500 AND s LIKE '%7%'"
    after = bench.files("t")
    floor = best(
        5, lambda: bench.timed(lambda: bench.spark.read.parquet(*after).filter("k < 500 AND s LIKE '%7%'").count())
    )
    ours = best(5, lambda: bench.timed(lambda: bench.sql(query)))
    yield ratio("SELECT after them and VACUUM", ours, floor, "filter.count", 1.2)


def clustered(bench: Bench) -> Iterator[Line]:
    """The same 1,000 rows in a table and in one ten times as large."""
    found = {}
    for rows in (ROWS // 10, ROWS):
        name = f"c{rows}"
        bench.sql(f"CREATE TABLE {name} {COLUMNS}")
        bench.sql(f"COPY {name} FROM '{source(bench, rows)}' (FORMAT parquet)")
        starts = iter(range(rows // 20, rows // 2, 1000))

        def update(name: str = name, starts: Iterator[int] = starts) -> float:
            low = next(starts)
            text = f"UPDATE {name} SET k = k + 1 WHERE id >= {low} AND id < {low + 1000}"
            return bench.timed(lambda: bench.sql(text))

        update()
        found[rows] = best(5, update)
    small, large = found[ROWS // 10], found[ROWS]
    yield ratio("UPDATE of 1,000 clustered rows, 10 times the table", large, small, "the smaller table", 1.5)


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
