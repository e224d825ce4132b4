"""min and max of whole columns come from the statistics of files of which nothing has been deleted."""

from __future__ import annotations

from tests.harness.played import Instance

WANTED = "SELECT min(i), max(i), min(b), max(b), min(d), max(d), min(s), max(s), min(z), max(z), count(*) FROM e"
ROWS = (
    "INSERT INTO e SELECT g, g * 3000000000, date '2020-01-01' + g, timestamp '2020-01-01' + g * interval '1.5 s',"
    " timestamptz '2020-01-01 00:00+02' - g * interval '1 h' FROM generate_series({}, {}) g"
)


def test_ends_are_those_of_the_rows(instance: Instance) -> None:
    def answers() -> list[list[str]]:
        found = []
        for engine in ("auto", "local"):
            instance.play("pub", f"SET pgrepl.engine = {engine}", "SET pgrepl.local_rows = 10")
            row_by_row = " WHERE length(i::text) > 0 OR true" if engine == "local" else ""
            found.append(list(instance.play("pub", WANTED + row_by_row))[-1:])
        return found

    instance.play("pub", "CREATE TABLE e (i int, b bigint, d date, s timestamp, z timestamptz)")
    for first, last in ((1, 500), (-900, -100), (2000, 2600)):
        instance.play("pub", ROWS.format(first, last))
    one, other = answers()
    assert one == other and one[0].startswith("-900|2600|")
    steps = (
        "DELETE FROM e WHERE i = 2600 OR i = -900", "UPDATE e SET b = -1e18 WHERE i = 7",
        "INSERT INTO e VALUES (NULL, NULL, 'infinity', '-infinity', 'infinity')",
        "INSERT INTO e (i) SELECT NULL FROM generate_series(1, 300)", "ALTER TABLE e ALTER COLUMN i TYPE bigint",
        "BEGIN", ROWS.format(5000, 5500), "DELETE FROM e WHERE i = 5500", "ROLLBACK",
        "ALTER TABLE e ADD COLUMN late int DEFAULT 9", "DELETE FROM e WHERE i > 0", "TRUNCATE e",
    )  # fmt: skip
    for step in steps:
        instance.play("pub", step)
        one, other = answers()
        assert one == other, step


def test_no_file_is_read(instance: Instance) -> None:
    instance.play("pub", "SET pgrepl.local_rows = 10", "CREATE TABLE e (i int, d date)")
    instance.play("pub", "INSERT INTO e SELECT g, date '2020-01-01' + g FROM generate_series(1, 500) g")
    (file,) = instance.folder.rglob("*.parquet")
    file.unlink()
    assert instance.play("pub", "SELECT min(i), max(i), max(d) FROM e") == ["1|500|2021-05-15"]
    assert instance.play("pub", "SELECT count(*), max(i) FROM e") == ["500|500"]
    assert "could not open file" in instance.play("pub", "SELECT sum(i) FROM e")[0]


def test_however_many_rows_spark_is_not_started(instance: Instance) -> None:
    instance.play("pub", "SET pgrepl.local_rows = 0", "CREATE TABLE e (i int, d date)")
    instance.play("pub", "INSERT INTO e SELECT g, date '2020-01-01' + g FROM generate_series(1, 500) g")

    def plan(query: str) -> list[str]:
        lines = [line.strip() for line in instance.play("pub", f"EXPLAIN {query}")]
        return [line for line in lines if line.startswith(("Engine", "Files", "Rows:"))]

    for query in ("SELECT count(*) FROM e", "SELECT max(i), count(*) FROM e", "SELECT 1 FROM e HAVING min(d) IS NULL"):
        assert plan(query) == [
            "Engine: columns (500 rows, 500 of them by statistics)",
            "Files: 0 read, 1 by statistics",
            "Rows: 0 read, 500 skipped",
        ]
    for query in ("SELECT count(d) FROM e", "SELECT max(i + 1) FROM e", "SELECT max(i) FROM e WHERE i > 3"):
        assert plan(query)[0].startswith("Engine: spark")
