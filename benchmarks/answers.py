"""What is to take no longer than a look: a key, aggregates and groups, COPY of a CSV file, joins of small tables, and
Spark's first answer.

Cold: a whole command, the fastest of three. Where no JVM may start there is none to be found. `PGREPL_BENCH_ROWS` makes
the large table smaller.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import fastest, process
from benchmarks.lake import COLUMNS, ROWS, Line, seconds
from benchmarks.replicate_copy import write_source

FEW, PAIR, TIMES = 150_000, 10_000, 3
NO_JAVA = {"JAVA_HOME": "/nonexistent"}
COLD = (
    ("SELECT * … WHERE id = 5", "SELECT * FROM t WHERE id = 5", 0.5),
    ("count(*)", "SELECT count(*) FROM t", 0.5),
    ("sum", "SELECT sum(id), sum(d) FROM t", 1.5),
    ("GROUP BY", "SELECT k, count(*), sum(d) FROM t GROUP BY k", 1.5),
)
OF_FEW = "SELECT k, count(*), sum(d) FROM few GROUP BY k"
JOINS = (
    ("IN", "SELECT count(*) FROM a WHERE x IN (SELECT y FROM b)"),
    ("NOT IN", "SELECT count(*) FROM a WHERE x NOT IN (SELECT y FROM b)"),
    ("EXISTS", "SELECT count(*) FROM a WHERE EXISTS (SELECT FROM b WHERE b.y = a.x)"),
    ("NOT EXISTS", "SELECT count(*) FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.y = a.x)"),
    (
        "LEFT JOIN LATERAL",
        "SELECT count(*), count(q.s) FROM a LEFT JOIN LATERAL (SELECT s FROM b WHERE b.y = a.x LIMIT 1) q ON true",
    ),
    ("a join of three", "SELECT count(*) FROM a JOIN b ON b.y = a.x JOIN a c ON c.g = b.g"),
    ("a join of three, FROM a, b, c", "SELECT count(*) FROM a, a c, b WHERE c.g = b.g AND b.y = a.x"),
)
CSV_COLUMNS = "(id bigint, k int, s text, d double precision, n numeric(12,2), b boolean, day date, at timestamp)"


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make(folder)
        for what, query, limit in COLD:
            yield seconds(f"{what}, {ROWS:,} rows, cold", cold(folder, query), limit)
        yield seconds(f"GROUP BY, {FEW:,} rows, cold", cold(folder, OF_FEW), 1)
        yield seconds(f"COPY of a CSV file, {FEW:,} rows of 8 columns, cold", copied(folder), 2)
        yield from joins(folder)
        on_spark = ["-m", "pgrepl", "-X", "-c", "SET pgrepl.engine = spark", "-c", OF_FEW]
        yield seconds("Spark's first answer, cold", fastest(lambda: process(on_spark, folder), TIMES), 4)


def make(folder: Path) -> None:
    write_source(folder / "source.parquet")
    write_csv(folder / "rows.csv")
    script = [
        f"CREATE TABLE t {COLUMNS};",
        f"COPY t FROM '{folder}/source.parquet' (FORMAT parquet);",
        f"CREATE TABLE few {COLUMNS};",
        f"INSERT INTO few SELECT g, g % 1000, 'value ' || g, g * 0.5 FROM generate_series(1, {FEW}) g;",
        "CREATE TABLE a (g int, x int, s text);",
        "CREATE TABLE b (g int, y int, s text);",
        f"INSERT INTO a SELECT g, g * 2, 'a ' || g FROM generate_series(1, {PAIR}) g;",
        f"INSERT INTO b SELECT g, g * 3, 'b ' || g FROM generate_series(1, {PAIR}) g;",
    ]
    process(["-m", "pgrepl", "-X", "-q", "-v", "ON_ERROR_STOP=1"], folder, "\n".join(script) + "\n")


def write_csv(path: Path) -> None:
    """Plain, but for a quoted column."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(FEW):
            day = f"20{n % 24:02}-{n % 12 + 1:02}-{n % 28 + 1:02}"
            numbers = f'{n},{n % 1000},"value, {n}",{n * 0.5},{n}.{n % 100:02}'
            file.write(f"{numbers},{'tf'[n % 2]},{day},{day} 12:30:{n % 60:02}\n")


def cold(folder: Path, query: str) -> float:
    return fastest(lambda: process(["-m", "pgrepl", "-X", "-c", query], folder, **NO_JAVA), TIMES)


def copied(folder: Path) -> float:
    """Each time into a table of its own."""

    def once(table: str) -> float:
        process(["-m", "pgrepl", "-X", "-c", f"CREATE TABLE {table} {CSV_COLUMNS}"], folder)
        copy = f"COPY {table} FROM '{folder}/rows.csv' (FORMAT csv)"
        return process(["-m", "pgrepl", "-X", "-c", copy], folder, **NO_JAVA)

    return min(once(f"csv{turn}") for turn in range(TIMES))


def joins(folder: Path) -> Iterator[Line]:
    """In a session that has read its definitions."""
    from pgrepl.backend import open_session
    from pgrepl.catalog.store.opening import open_catalog
    from pgrepl.statements.run import run

    session = open_session(open_catalog(folder / "catalog.db"))
    for turn, (what, query) in enumerate((*JOINS[-1:], *JOINS)):
        began = time.perf_counter()
        assert [list(result.rows) for result in run(session, query)]
        if turn:
            yield seconds(f"two tables of {PAIR:,} rows, {what}", time.perf_counter() - began, 1)
    session.close()


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
