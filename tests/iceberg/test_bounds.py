"""Bounds, counts and row ids of files: filters find every row, and files are skipped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.iceberg.conftest import Shop
from tests.iceberg.readers import duck
from tests.iceberg.test_traps import entries

# a type, and five values of it, each for a file of its own
VALUES = {
    "smallint": ("-5", "0", "7", "100", "32767"),
    "int": ("-2147483648", "-1", "0", "5", "2147483647"),
    "bigint": ("-9223372036854775808", "-1", "0", "5", "9223372036854775807"),
    "real": ("'-Infinity'", "-1.1", "'-0'", "3.3333333", "1e30"),
    "float8": ("-1e300", "-0.1", "0", "0.1", "'Infinity'"),
    "boolean": ("false", "true", "false", "true", "true"),
    "text": ("''", "'a'", "'aé'", "repeat('z', 400)", "'𐀀'"),
    "numeric(20,3)": ("-99999999999999999.999", "-0.128", "0", "0.127", "12345.678"),
    "bytea": ("''", "'\\x00'", "'\\x7f'", "'\\x80ff'", "'\\xff'"),
    "date": ("'0001-01-01'", "'1969-12-31'", "'1970-01-01'", "'2024-02-29'", "'9999-12-31'"),
    "time": ("'00:00'", "'00:00:00.000001'", "'12:34:56.7'", "'23:59:59'", "'23:59:59.999999'"),
    "timestamp": ("'0001-01-01'", "'1969-12-31 23:59:59.999999'", "'1970-01-01'", "'2024-01-01'", "'9999-12-31'"),
    "timestamptz": (
        "'1900-01-01 12:00:00+02'",
        "'1969-12-31 23:59:00Z'",
        "'1970-01-01 00:00:00Z'",
        "'2024-01-01 00:00:00Z'",
        "'9999-12-31 00:00:00Z'",
    ),
    "uuid": tuple(f"'{digit}0000000-0000-0000-0000-000000000000'" for digit in "017f8"),
    "numeric": ("-1", "0", "1.5", "10", "9"),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop(tmp_path_factory.mktemp("bounds") / "catalog.db")
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES))
    shop.sql(f"CREATE TABLE t (k int, {columns})")
    for at in range(5):
        row = ", ".join(f"({values[at]})::{kind}" for kind, values in VALUES.items())
        shop.sql(f"INSERT INTO t SELECT {at}, {row} FROM generate_series(1, {150 if at % 2 else 3})")
    shop.sql("INSERT INTO t (k) SELECT 9 FROM generate_series(1, 150)")
    return shop


@pytest.mark.parametrize("number", range(len(VALUES)), ids=list(VALUES))
def test_every_value_is_found(filled: Shop, number: int) -> None:
    kind = list(VALUES)[number]
    cast = {"numeric": "VARCHAR", "text": "VARCHAR", "bytea": "BLOB"}.get(kind, kind)
    scan = f"iceberg_scan('{filled.metadata().location}')"
    counted = "SELECT k, count(*) FROM {} WHERE {} GROUP BY k ORDER BY k"
    for operator in ("=", "<>") if kind == "numeric" else ("=", "<>", "<=", ">"):  # of texts the order is another
        for literal in VALUES[kind]:
            value = literal
            if kind == "bytea":
                value = f"unhex({literal})".replace("\\x", "")
            elif kind == "numeric":
                value = f"'{literal}'"
            ours = filled.sql(counted.format("t", f"c{number} {operator} ({literal})::{kind}"))
            theirs = duck().sql(counted.format(scan, f"c{number} {operator} ({value})::{cast}")).fetchall()
            assert theirs == ours, (operator, literal)


def test_files_are_skipped(filled: Shop) -> None:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(filled.metadata().location)
    assert len(list(table.scan().plan_files())) == 4  # inlined rows are one
    assert len(list(table.scan("c1 = 5").plan_files())) == 2
    assert len(list(table.scan("c1 is null").plan_files())) == 1
    assert len(list(table.scan("c3 is nan").plan_files())) == 0
    assert len(list(table.scan("c9 > '9000-01-01'").plan_files())) == 1


def test_row_ids_are_those_of_the_lake(shop: Shop) -> None:
    import pyarrow.parquet as pq

    shop.sql(
        "CREATE TABLE t (a int) WITH (iceberg.version = 3)",
        "INSERT INTO t SELECT generate_series(1, 150)",
        "INSERT INTO t VALUES (1000)",
        "INSERT INTO t SELECT generate_series(151, 300)",
        "UPDATE t SET a = a + 1 WHERE a < 120",
    )
    found: list[tuple[Any, ...]] = []
    for entry in entries(shop):
        file = entry["data_file"]
        if file["content"] == 0:
            rows = pq.read_table(file["file_path"])
            ids = rows["_ducklake_internal_row_id"].to_pylist() if rows.num_columns > 1 else None
            found.append((entry["sequence_number"], file["first_row_id"], file["record_count"], ids and min(ids)))
    first = min(each[0] for each in found)
    assert sorted(found, key=lambda each: each[0]) == [
        (first, 0, 150, None), (first + 1, 0, 1, 150), (first + 2, 151, 150, None), (first + 3, 301, 119, 0),
    ]  # fmt: skip


def test_a_making_that_fails_does_no_harm(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever file is the last that was written."""
    from pgrepl.iceberg.place import TableFolder

    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 300)", "INSERT INTO t VALUES (7)")
    shop.sql("DELETE FROM t WHERE a = 5")
    write, left = TableFolder.write, 0
    for most in range(20):
        left = most

        def failing(self: TableFolder, name: str, content: bytes) -> int:
            nonlocal left
            if not left:
                raise OSError("stop")
            left -= 1
            return write(self, name, content)

        with monkeypatch.context() as patched:
            patched.setattr(TableFolder, "write", failing)
            try:
                shop.metadata()
                break
            except OSError:
                pass
    assert most > 3
    assert shop.read("duckdb") == shop.rows("SELECT a FROM t")
