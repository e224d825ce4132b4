"""What is written here DuckDB reads: every type, inlined or in a file, at every snapshot, whatever happened to rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pgrepl.ground.errors import PgError
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.write.statement import Write
from tests.harness.dose import dose
from tests.lake.conftest import Lake, values

# PostgreSQL's type, values as PostgreSQL writes them, and as DuckDB does where that is something else
TYPES: list[tuple[str, list[str], list[str] | None]] = [
    ("boolean", ["t", "f"], ["true", "false"]),
    ("smallint", ["-32768", "32767", "0"], None),
    ("integer", ["-2147483648", "2147483647"], None),
    ("bigint", ["-9223372036854775808", "9223372036854775807", "9007199254740993"], None),
    ("oid", ["4294967295", "0"], None),
    ("real", ["1.1", "-1e-30", "NaN", "Infinity", "-Infinity", "0"], ["1.1", "-1e-30", "nan", "inf", "-inf", "0.0"]),
    ("double precision", ["1.1", "1e+300", "NaN", "-Infinity", "5e-324"], ["1.1", "1e+300", "nan", "-inf", "5e-324"]),
    ("numeric(10,2)", ["1.50", "-99999999.99", "0.00"], None),
    ("numeric(38,5)", ["123456789012345678901234567890123.12345", "-0.00001"], None),
    ("numeric", ["1.5000", "NaN", "-Infinity", "1" + "0" * 60, "0.000000000000000000000000000000000000000001"], None),
    ("numeric(50,10)", ["1.0000000000"], None),
    ("text", ["", "it's", 'a"b\\c', "ü\u20ac\U0001f600", "line\nbreak", "NULL", "x" * 1000], None),
    ("varchar(5)", ["abcde", ""], None),
    ("char(4)", ["ab  ", "    "], None),
    ("name", ["n"], None),
    ('"char"', ["x"], None),
    ("json", ['{"a":  1}', "[]", "null"], None),
    ("jsonb", ['{"a": 1}', "[]", "null", "1.50"], None),
    ("bytea", ["\\x00ff61", "\\x"], ["\\x00\\xFFa", ""]),
    ("uuid", ["58aa937a-c590-4880-a920-c872ebcab382", "ffffffff-ffff-ffff-ffff-ffffffffffff"], None),
    (
        "date",
        ["2000-01-01", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31"],
        ["2000-01-01", "infinity", "-infinity", "0044-03-15 (BC)", "5874897-12-31"],
    ),
    ("time", ["00:00:00", "24:00:00", "12:34:56.000001"], None),
    (
        "timestamp",
        ["2020-02-29 00:00:00.5", "infinity", "-infinity", "4713-01-01 00:00:00 BC", "294246-12-31 23:59:59.999999"],
        ["2020-02-29 00:00:00.5", "infinity", "-infinity", "4713-01-01 (BC) 00:00:00", "294246-12-31 23:59:59.999999"],
    ),
    ("timestamptz", ["2020-02-29 00:00:00.5+00", "infinity", "-infinity"], None),
    ("interval", ["1 year 2 mons -3 days +04:05:06.7"], None),
    ("timetz", ["10:00:00+05"], None),
    ("inet", ["10.0.0.1/8"], None),
    ("int4range", ["[1,5)", "empty"], None),
    ("bit(3)", ["101"], None),
    ("xml", ["<a/>"], None),
    ("integer[]", ["{1,NULL,-3}", "{}"], ["[1, NULL, -3]", "[]"]),
    ("boolean[]", ["{t,f}"], ["[true, false]"]),
    ("numeric[]", ["{1.50,NaN}"], ["[1.50, NaN]"]),
    ("numeric(5,2)[]", ["{1.50,NULL}"], ["[1.50, NULL]"]),
    ("real[]", ["{1.1,NaN}"], ["[1.1, nan]"]),
    ("date[]", ["{2020-01-01,infinity}"], ["[2020-01-01, infinity]"]),
    ("timestamp[]", ['{"2020-01-01 00:00:00"}'], ["['2020-01-01 00:00:00']"]),
    ("uuid[]", ["{58aa937a-c590-4880-a920-c872ebcab382}"], ["[58aa937a-c590-4880-a920-c872ebcab382]"]),
    ("bytea[]", ['{"\\\\x00ff61"}'], ["[\\x00\\xFFa]"]),
    (
        "text[]",
        ['{"a,b",it\'s,"","NULL",NULL,"x\\\\y","\\"q\\""," s ",[x],"{y}",ü}'],
        ["['a,b', 'it\\'s', '', 'NULL', NULL, x\\y, '\"q\"', ' s ', '[x]', '{y}', ü]"],
    ),
]


@pytest.mark.parametrize("where, every", dose([("flushed", 4), ("flushed", 1), ("inlined", 1), ("file", 1)], 4))
def test_every_type(lake: Lake, where: str, every: int) -> None:
    """Each in a table of its own; of all of them what is wrong."""
    if where == "file":
        lake.duck_runs("CALL lake.set_option('data_inlining_row_limit', 0)")
    tables = {f"t{number}": each for number, each in enumerate(TYPES[::every])}
    for name, (kind, written, _) in tables.items():
        lake.sql(f"CREATE TABLE {name} (n int, a {kind})")
        lake.insert(name, *[(str(n), text) for n, text in enumerate([*written, None])])
    files = lake.query("SELECT count(*) FROM ducklake_data_file")
    assert files == [(len(tables) if where == "file" else 0,)]
    wanted = {name: [*written, None] for name, (_, written, _) in tables.items()}
    assert {name: [row[1] for row in lake.rows(name)] for name in tables} == wanted
    there = {name: [a for (a,) in lake.duck(f"SELECT a FROM postgres.{name} ORDER BY n")] for name in tables}
    assert there == {name: [*(seen or written), None] for name, (_, written, seen) in tables.items()}
    if where == "flushed":
        lake.duck_runs("CALL ducklake_flush_inlined_data('lake')")
        assert {name: [row[1] for row in lake.rows(name)] for name in tables} == wanted
    for name, (kind, written, seen) in tables.items():  # the statistics leave out nothing
        if kind.endswith("[]") or kind in ("json", "jsonb"):
            continue
        values = seen or written
        for number in {0, len(values) // 2, len(values) - 1}:
            text = values[number]
            literal = "'" + text.replace("'", "''") + "'"
            found = lake.duck(f"SELECT n FROM postgres.{name} WHERE a = {literal} ORDER BY n")
            assert (str(number),) in found, (kind, text)


def assert_same_history(lake: Lake, name: str = "t") -> None:
    """DuckDB sees the same rows, with the same row ids, at each snapshot since the table was made."""
    first = int(lake.query("SELECT min(begin_snapshot) FROM ducklake_table")[0][0])
    for snapshot in range(first, lake.last_snapshot() + 1):
        here = sorted(lake.rows(name, snapshot=snapshot, row_ids=True), key=repr)
        there = sorted(lake.duck(f"SELECT rowid, * FROM postgres.{name} AT (VERSION => {snapshot})"), key=repr)
        assert here == there, f"at snapshot {snapshot}"


def numbered(count: int, start: int = 0) -> list[tuple[str, str]]:
    return [(str(i), f"row {i}") for i in range(start, start + count)]


@pytest.fixture
def table(lake: Lake) -> Lake:
    """Rows 0 to 999 in a file, 1000 to 1009 inlined."""
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.insert("t", *numbered(1000))
    lake.insert("t", *numbered(10, 1000))
    return lake


def delete(lake: Lake, *keys: int) -> int:
    places = lake.places("t")
    return lake.write("t", lambda write: write.delete([places[key] for key in keys]))


def update(lake: Lake, text: str, *keys: int) -> int:
    places = lake.places("t")

    def change(write: Write) -> None:
        for key in keys:
            write.update(places[key], (key, text))

    return lake.write("t", change)


def test_deletes_and_updates(table: Lake) -> None:
    delete(table, 5, 1003)
    delete(table, *range(100, 300))
    delete(table, *range(300, 500), 1004)
    delete(table, 6, 7)
    update(table, "one", 8)
    update(table, "inlined", 1005, 1006)
    update(table, "many", *range(500, 700))
    update(table, "again", *range(550, 560), 8, 1005)
    delete(table, 555, 8, 1006)
    assert_same_history(table)
    rows = dict(table.rows("t"))
    assert len(rows) == 1010 - 2 - 200 - 201 - 2 - 3
    assert (rows["500"], rows["550"], rows["1005"], rows["0"]) == ("many", "again", "again", "row 0")


@pytest.mark.slow
def test_one_delete_file_a_data_file(table: Lake) -> None:
    """A second delete is cumulative, and says of each position at which snapshot it went."""
    first = delete(table, *range(200))
    second = delete(table, *range(200, 400))
    rows = table.query("SELECT begin_snapshot, end_snapshot, delete_count, partial_max FROM ducklake_delete_file")
    assert rows == [(first, None, 400, second)]
    scheduled = table.query("SELECT path, path_is_relative FROM ducklake_files_scheduled_for_deletion")
    assert [relative for _, relative in scheduled] == [1]
    assert (table.path.parent / "catalog.db.files" / scheduled[0][0]).is_file()
    assert_same_history(table)


def test_the_last_row_takes_the_file_with_it(table: Lake) -> None:
    delete(table, *range(500))
    delete(table, *range(500, 1000))
    assert table.query("SELECT count(*) FROM ducklake_data_file WHERE end_snapshot IS NULL") == [(0,)]
    assert table.query("SELECT count(*) FROM ducklake_delete_file WHERE end_snapshot IS NULL") == [(0,)]
    assert [a for a, _ in table.rows("t")] == [str(i) for i in range(1000, 1010)]
    assert_same_history(table)


def test_truncate(table: Lake) -> None:
    delete(table, 1, 1001)
    snapshot = table.write("t", Write.truncate)
    assert table.rows("t") == []
    table.insert("t", ("1", "new"))
    assert table.rows("t", row_ids=True) == [("1010", "1", "new")]
    assert_same_history(table)
    extra = table.query("SELECT commit_extra_info FROM ducklake_snapshot_changes WHERE snapshot_id = ?", snapshot)
    oid = table.table("t").oid
    assert f'"truncate": {{"tables": [{oid}], "cascade": false, "restart_identity": false}}' in extra[0][0]


def test_what_a_snapshot_did_is_said_in_duckdbs_words(table: Lake) -> None:
    start = table.last_snapshot()
    table.insert("t", ("2000", "x"))
    table.insert("t", *numbered(200, 3000))
    delete(table, 1)
    delete(table, *range(100, 300))
    update(table, "x", 2000)
    table.write("t", Write.truncate)
    number = table.table("t").table_id
    said = f"SELECT changes FROM ducklake_snapshots('lake') WHERE snapshot_id > {start} ORDER BY snapshot_id"
    assert table.duck(said) == [
        (f"{{inlined_insert=[{number}]}}",),
        (f"{{tables_inserted_into=[{number}]}}",),
        (f"{{inlined_delete=[{number}]}}",),
        (f"{{tables_deleted_from=[{number}]}}",),
        (f"{{inlined_insert=[{number}], inlined_delete=[{number}]}}",),
        (f"{{tables_deleted_from=[{number}], inlined_delete=[{number}]}}",),
    ]  # fmt: skip


def test_rows_come_in_the_order_in_which_they_were_written(table: Lake) -> None:
    table.insert("t", *numbered(200, 2000))
    table.insert("t", ("5000", "last but updates"))
    update(table, "moved", 3)
    update(table, "moved", 1001)
    rows = [a for a, _ in table.rows("t")]
    assert rows == [
        *(str(i) for i in range(1000) if i != 3),
        *(str(i) for i in range(1000, 1010) if i != 1001),
        *(str(i) for i in range(2000, 2200)),
        "5000", "3", "1001",
    ]  # fmt: skip


@pytest.mark.slow
def test_positions_as_arrays(table: Lake) -> None:
    places = table.places("t")
    file = places[0].file
    assert file is not None
    table.write("t", lambda write: write.delete_positions(file, np.arange(3, 500)))
    table.write("t", lambda write: write.delete_positions(file, np.array([1, 1, 0])))
    table.write("t", lambda write: write.delete_inlined([places[1000].row]))
    assert [a for a, _ in table.rows("t")] == [str(i) for i in (2, *range(500, 1000), *range(1001, 1010))]
    assert table.query(f"SELECT count(*) FROM ducklake_inlined_delete_{table.table('t').table_id}") == [(2,)]
    assert_same_history(table)


@pytest.mark.slow
def test_a_statement_with_more_rows_than_memory_should_hold(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    table = lake.table("t")
    lake.write("t", lambda write: write.insert(values(table, row) for row in numbered(150_000)))
    assert lake.query("SELECT count(*), sum(record_count) FROM ducklake_data_file") == [(1, 150_000)]
    assert lake.duck("SELECT count(*), min(a), max(a), count(DISTINCT b) FROM postgres.t") == [
        ("150000", "0", "149999", "150000")
    ]
    assert lake.rows("t", Bound(1, low=149_999)) == [("149999", "row 149999")]


def test_several_statements_of_a_transaction(lake: Lake) -> None:
    """Each has its snapshot and sees the ones before it; others see all of them or none."""
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.insert("t", *numbered(1000))
    before = lake.last_snapshot()
    lake.sql("BEGIN")
    update(lake, "first", *range(200))
    update(lake, "second", *range(100, 300))
    delete(lake, *range(150, 160))
    lake.insert("t", ("5000", "new"))
    update(lake, "third", 5000, 150 + 100)
    delete(lake, 5000)
    inside = lake.rows("t")
    assert lake.duck("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')") == [(str(before),)]
    lake.sql("COMMIT")
    assert lake.rows("t") == inside
    assert len(inside) == 990 and dict(inside)["250"] == "third"
    assert lake.last_snapshot() == before + 6
    assert_same_history(lake)


def files_of(lake: Lake) -> set[str]:
    return {path.name for path in (lake.path.parent / "catalog.db.files").rglob("*.parquet")}


def test_a_rollback_leaves_no_files(table: Lake) -> None:
    before = files_of(table)
    table.sql("BEGIN")
    table.insert("t", *numbered(500, 2000))
    delete(table, *range(500))
    table.sql("SAVEPOINT s")
    kept = files_of(table)
    assert len(kept) == len(before) + 2
    update(table, "x", *range(500, 900))
    assert len(files_of(table)) > len(kept)
    table.sql("ROLLBACK TO s")
    assert files_of(table) == kept
    table.sql("ROLLBACK")
    assert files_of(table) == before
    assert len(table.rows("t")) == 1010
    assert_same_history(table)


@pytest.mark.slow
def test_a_statement_that_fails_leaves_no_files(table: Lake) -> None:
    before = files_of(table)

    def fail(write: Write) -> None:
        write.insert([(i, "x") for i in range(100_000)])
        write.stage()
        raise PgError("23505", "duplicate")

    with pytest.raises(PgError):
        table.write("t", fail)
    assert files_of(table) == before
    assert len(table.rows("t")) == 1010


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("numeric(10,2)", "NaN", "NaN in a column of type numeric(10,2) is not supported"),
        ("int[]", "{{1,2}}", "an array of several dimensions, or that does not begin at 1, is no list"),
        ("timestamp", "294250-01-01 00:00:00", "timestamp out of range"),
    ],
)
@pytest.mark.parametrize("count", [1, 200])
def test_values_that_a_lake_cannot_hold(lake: Lake, kind: str, value: str, message: str, count: int) -> None:
    lake.sql(f"CREATE TABLE t (a {kind})")
    with pytest.raises(PgError) as caught:
        lake.insert("t", *[(value,)] * count)
    assert caught.value.message == message
    assert lake.rows("t") == []
    assert files_of(lake) == set()


def test_the_limit_of_inlining(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text); CREATE TABLE u (a int, b text)")
    number = lake.table("u").table_id
    lake.duck_runs("CALL lake.set_option('data_inlining_row_limit', 3)")
    lake.duck_runs("CALL lake.set_option('data_inlining_row_limit', 5, table_name => 'u', schema => 'postgres')")
    for name in ("t", "u"):
        for count in (3, 4, 5, 6):
            lake.insert(name, *numbered(count))
    assert lake.query("SELECT table_id = ?, record_count FROM ducklake_data_file ORDER BY 1, 2", number) == [
        (0, 4), (0, 5), (0, 6), (1, 6),
    ]  # fmt: skip


@pytest.mark.slow
def test_duckdb_goes_on_writing(table: Lake) -> None:
    delete(table, *range(100, 300))
    table.duck_runs(
        "INSERT INTO postgres.t VALUES (3000, 'duck')",
        "DELETE FROM postgres.t WHERE a < 10 OR a = 1001",
        "DELETE FROM postgres.t WHERE a BETWEEN 300 AND 350",
        "UPDATE postgres.t SET b = 'duck' WHERE a BETWEEN 400 AND 450 OR a = 1002",
    )
    update(table, "pgrepl", *range(440, 600), 1002, 3000)
    delete(table, 441, 1003)
    table.duck_runs("CALL ducklake_flush_inlined_data('lake')")
    update(table, "after", 441 + 1, 1004, 3000)
    table.insert("t", ("9999", "x"))
    table.duck_runs("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")
    update(table, "end", 600, 9999)
    delete(table, 601)
    rows = dict(table.rows("t"))
    assert (rows["400"], rows["440"], rows["442"], rows["3000"], rows["9999"]) == (
        "duck", "pgrepl", "after", "after", "end",
    )  # fmt: skip
    assert_same_history(table)


Change = Callable[[Write], Any]


NESTED = """
    CREATE TABLE postgres.n (
      k INTEGER, s STRUCT(a INTEGER, "b c" VARCHAR, u UUID), m MAP(VARCHAR, DECIMAL(5, 2)),
      l STRUCT(x INTEGER[], y MAP(INTEGER, DATE))[], ll INTEGER[][], i8 TINYINT, u64 UBIGINT, h HUGEINT,
      ns TIMESTAMP_NS, sec TIMESTAMP_S, ms TIMESTAMP_MS
    )"""
NESTED_ROW = (
    "1", '{"a": 5, "u": "58aa937a-c590-4880-a920-c872ebcab382", "b c": "it\'s, \\"x\\" \\\\ ü"}',
    '{"k": 1.50, "n": null}',
    '[{"x": [1, null], "y": {"7": "2020-01-01"}}, null]', "[[1], [], null]", "-128", "18446744073709551615", "12345",
    "2020-01-01 00:00:00.123456", "1969-12-31 23:59:59", "2020-01-01 00:00:00.123",
)  # fmt: skip
NESTED_SEEN = (
    "1", "{'a': 5, 'b c': 'it\\'s, \"x\" \\\\ ü', 'u': 58aa937a-c590-4880-a920-c872ebcab382}", "{k=1.50, n=NULL}",
    "[{'x': [1, NULL], 'y': {7=2020-01-01}}, NULL]", "[[1], [], NULL]", "-128", "18446744073709551615", "12345",
    "2020-01-01 00:00:00.123456", "1969-12-31 23:59:59", "2020-01-01 00:00:00.123",
)  # fmt: skip


@pytest.mark.parametrize("limit", [100, 0])
def test_types_that_others_have_can_be_written(lake: Lake, limit: int) -> None:
    lake.duck_runs(f"CALL lake.set_option('data_inlining_row_limit', {limit})", NESTED)
    nothing = ("2", *[None] * 10)
    lake.insert("n", NESTED_ROW, nothing)
    assert lake.rows("n") == [NESTED_ROW, nothing]
    assert lake.duck("SELECT * FROM postgres.n ORDER BY k") == [NESTED_SEEN, nothing]
    assert lake.duck("SELECT k FROM postgres.n WHERE s.a = 5 AND m['k'] = 1.5") == [("1",)]
    assert lake.duck("SELECT k FROM postgres.n WHERE s.a IS NULL") == [("2",)]
    lake.duck_runs("INSERT INTO postgres.n (k, s) VALUES (3, {a: 7, 'b c': '', u: NULL})")
    lake.insert("n", ("4", '{"a": 1000}', *[None] * 9))
    assert lake.duck("SELECT k FROM postgres.n WHERE s.a > 5 ORDER BY k") == [("3",), ("4",)]
    places = lake.places("n")
    row = values(lake.table("n"), NESTED_ROW)
    lake.write("n", lambda write: write.update(places[1], (9, *row[1:])))
    assert lake.duck("SELECT k, s, l FROM postgres.n WHERE k = 9") == [("9", NESTED_SEEN[1], NESTED_SEEN[3])]


@pytest.mark.parametrize("value", ["[1]", '{"z": 1}', '{"a": "x"}', '{"a": [1]}'])
def test_documents_that_do_not_fit(lake: Lake, value: str) -> None:
    lake.duck_runs("CREATE TABLE postgres.n (s STRUCT(a INTEGER))")
    for limit in (100, 0):
        lake.duck_runs(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
        with pytest.raises(PgError) as caught:
            lake.insert("n", (value,))
        assert caught.value.sqlstate in ("22023", "22P02")
    assert lake.rows("n") == []


def test_intervals_of_others_stay_in_the_catalog(lake: Lake) -> None:
    """Arrow cannot write Parquet's intervals."""
    lake.duck_runs("CREATE TABLE postgres.n (k INTEGER, i INTERVAL)")
    lake.insert("n", ("1", "1 year 2 mons 3 days 04:05:06.7"), ("2", None))
    assert lake.duck("SELECT * FROM postgres.n ORDER BY k") == [
        ("1", "1 year 2 months 3 days 04:05:06.7"), ("2", None),
    ]  # fmt: skip
    with pytest.raises(PgError, match="writing a value of lake type interval is not supported"):
        lake.insert("n", *[("1", "1 day")] * 200)
    lake.insert("n", *[("3", None)] * 200)
    assert lake.duck("SELECT count(*), count(i) FROM postgres.n") == [("202", "1")]


def test_no_more_than_a_thousand_tables_have_inlined_rows(lake: Lake) -> None:
    lake.sql("CREATE TABLE before (id int); INSERT INTO before VALUES (1); CREATE TABLE many (id int)")
    with lake.statement(writes=True):
        for number in range(999):
            lake.session.link.execute(
                "INSERT INTO ducklake_inlined_data_tables (table_id, table_name, schema_version) VALUES (?, ?, 1)",
                (1_000_000 + number, f"of_others_{number}"),
            )
    lake.sql("INSERT INTO many VALUES (1), (2); INSERT INTO before VALUES (2)")
    assert lake.rows("many") == lake.rows("before") == [("1",), ("2",)]
    files = lake.query("SELECT DISTINCT table_id FROM ducklake_data_file")
    assert files == [(lake.table("many").table_id,)]
