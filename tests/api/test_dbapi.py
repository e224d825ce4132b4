"""DB-API 2.0: what PEP 249 asks for, and what people who know psycopg expect."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import pgrepl
from pgrepl.api.results import polars_table
from tests.harness.programs import PATIENCE, environment


def test_importing_it_imports_nothing_else(tmp_path: Path) -> None:
    probe = "import sys, json, pgrepl; pgrepl.apilevel; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environment(), capture_output=True, check=True, cwd=tmp_path
    )
    loaded = set(json.loads(done.stdout))
    assert {name for name in loaded if name.startswith("pgrepl")} == {"pgrepl"}
    assert loaded.isdisjoint({"sqlalchemy", "pyarrow", "pyspark", "numpy", "pandas", "sqlite3", "click"})


def test_connecting_imports_nothing_heavy(tmp_path: Path) -> None:
    probe = (
        "import sys, json, pgrepl; pgrepl.connect('c.db').execute('SELECT 1').fetchall(); "
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environment(), capture_output=True, check=True, cwd=tmp_path
    )
    assert set(json.loads(done.stdout)).isdisjoint({"pyarrow", "pyspark", "numpy", "pandas"})


def test_the_module_says_what_it_is() -> None:
    assert (pgrepl.apilevel, pgrepl.threadsafety, pgrepl.paramstyle) == ("2.0", 1, "pyformat")
    assert issubclass(pgrepl.IntegrityError, pgrepl.DatabaseError) and issubclass(pgrepl.DatabaseError, pgrepl.Error)
    assert issubclass(pgrepl.InterfaceError, pgrepl.Error)
    assert "connect" in dir(pgrepl)
    with pytest.raises(AttributeError):
        _ = pgrepl.nosuch


# --- parameters ------------------------------------------------------------------------------------------------------

VALUES = [
    (True, "boolean"),
    (5, "integer"),
    (2**40, "bigint"),
    (2**70, "numeric"),
    (1.5, "double precision"),
    (Decimal("1.10"), "numeric"),
    (b"\0\xff", "bytea"),
    (datetime.date(2026, 5, 4), "date"),
    (datetime.time(1, 2, 3, 4), "time without time zone"),
    (datetime.datetime(2026, 5, 4, 1, 2, 3, 4), "timestamp without time zone"),
    (datetime.datetime(2026, 5, 4, 1, 2, tzinfo=datetime.timezone.utc), "timestamp with time zone"),
    (datetime.timedelta(days=2, seconds=3, microseconds=4), "interval"),
    (uuid.UUID(int=7), "uuid"),
    ([1, None, 3], "integer[]"),
    ([[1, 2], [3, 4]], "integer[]"),
    ([1, 2**40], "bigint[]"),
    ([datetime.date(2026, 5, 4)], "date[]"),
]


@pytest.mark.parametrize(("value", "kind"), VALUES, ids=[kind for _, kind in VALUES])
def test_values_come_back_as_they_went(con: pgrepl.Connection, value: Any, kind: str) -> None:
    assert con.execute("SELECT %s, pg_typeof($1)::text".replace("$1", "%s"), [value, value]).fetchone() == (value, kind)


def test_texts_become_what_the_statement_needs(con: pgrepl.Connection) -> None:
    con.execute("CREATE TABLE t (a int, b jsonb, c uuid, d text[], e inet)")
    given = ("5", {"x": [1, None]}, "00000000-0000-0000-0000-000000000007", ["a", 'b"c\\', None], None)
    con.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", given)
    expected = (5, {"x": [1, None]}, uuid.UUID(int=7), ["a", 'b"c\\', None], None)
    assert con.execute("SELECT * FROM t WHERE a = %(a)s AND 'a' = ANY(d)", {"a": "5"}).fetchall() == [expected]


def test_a_value_is_never_part_of_the_text(con: pgrepl.Connection) -> None:
    nasty = "'; DROP TABLE t; -- $1 %s \\"
    con.execute("CREATE TABLE t (a text)")
    con.execute("INSERT INTO t VALUES (%s)", [nasty])
    assert con.execute("SELECT a, $1::text FROM t WHERE a = $1", [nasty]).fetchall() == [(nasty, nasty)]


def test_placeholders(con: pgrepl.Connection) -> None:
    assert con.execute("SELECT 7 %% %s, '%%'", [4]).fetchone() == (3, "%")
    assert con.execute("SELECT 7 % 4, '%s'").fetchone() == (3, "%s")
    assert con.execute("SELECT $2 || $1, 7 % 4", ["a", "b"]).fetchone() == ("ba", 3)
    assert con.execute("SELECT %(a)s || %(b)s || %(a)s", {"a": "x", "b": "y", "c": 0}).fetchone() == ("xyx",)
    for query, given in (
        ("SELECT %s", []), ("SELECT %s", [1, 2]), ("SELECT %(a)s", {}), ("SELECT %(a)s", [1]), ("SELECT %s", {"a": 1}),
        ("SELECT 5 % 3", [1]), ("SELECT $2", [1]), ("SELECT $1", [1, 2]), ("SELECT %s", "x"), ("SELECT %s", [object()]),
        ("SELECT %s; SELECT %s", [1, 2]),
    ):  # fmt: skip
        with pytest.raises(pgrepl.Error):
            con.execute(query, given)


def test_executemany_inserts_many_rows_at_a_time(con: pgrepl.Connection) -> None:
    con.execute("CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'none')")
    cur = con.cursor()
    cur.executemany("INSERT INTO t VALUES (%s, lower(%s))", [(n, f"N{n}") for n in range(2500)])
    assert cur.rowcount == 2500
    assert con.execute("SELECT count(*), max(b) FROM t").fetchone() == (2500, "n999")
    cur.executemany("UPDATE t SET b = %(b)s WHERE a <= %(a)s", [{"a": 1, "b": "x"}, {"a": 0, "b": "y"}])
    assert cur.rowcount == 3 and cur.description is None
    assert con.execute("SELECT b FROM t WHERE a < 2 ORDER BY a").fetchall() == [("y",), ("x",)]
    cur.executemany("INSERT INTO t VALUES (%s)", [])
    with pytest.raises(pgrepl.IntegrityError):
        cur.executemany("INSERT INTO t VALUES ($1)", [[5000], [1]])


# --- results ---------------------------------------------------------------------------------------------------------


def test_description_and_fetching(con: pgrepl.Connection) -> None:
    cur = con.execute("SELECT g AS n, 'x'::varchar(5) AS v, 1.5::numeric(6,2) FROM generate_series(1, 5) g")
    assert cur.description is not None
    assert [(c.name, c[5]) for c in cur.description] == [("n", None), ("v", None), ("numeric", 2)]
    assert cur.description[0].type_code == pgrepl.NUMBER and cur.description[1].type_code == pgrepl.STRING
    assert cur.description[1].display_size == 5 and cur.description[2].precision == 6
    assert cur.rowcount == 5 and cur.fetchone() == (1, "x", Decimal("1.50"))
    assert [row[0] for row in cur.fetchmany(2)] == [2, 3] and [row[0] for row in cur] == [4, 5]
    assert cur.fetchall() == [] and cur.fetchone() is None
    cur.execute("CREATE TABLE t (a int)")
    assert cur.description is None
    with pytest.raises(pgrepl.ProgrammingError):
        cur.fetchone()


def test_several_statements_have_several_results(con: pgrepl.Connection) -> None:
    cur = con.execute("SELECT 1; CREATE TABLE t (a int); SELECT 2")
    assert cur.fetchall() == [(1,)]
    assert cur.nextset() and cur.statusmessage == "CREATE TABLE"
    assert cur.nextset() and cur.fetchall() == [(2,)] and cur.nextset() is None


def test_what_python_cannot_hold_is_told(con: pgrepl.Connection) -> None:
    for text in ("'infinity'::date", "'-infinity'::timestamptz", "'4000-01-01 BC'::timestamp", "'24:00'::time"):
        with pytest.raises(pgrepl.DataError):
            con.execute(f"SELECT {text}").fetchone()
        assert con.execute(f"SELECT ({text})::text").fetchone() is not None


def test_values_do_not_depend_on_the_sessions_style(con: pgrepl.Connection) -> None:
    con.execute("SET datestyle = 'German'; SET intervalstyle = 'iso_8601'; SET timezone = 'Europe/Berlin'")
    moment = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.timezone.utc)
    found = con.execute("SELECT '2026-05-04'::date, interval '1 day', %s, $$a$$", [moment])
    row = found.fetchone()
    assert row == (datetime.date(2026, 5, 4), datetime.timedelta(days=1), moment, "a")
    assert row[2].utcoffset() == datetime.timedelta(hours=2)


def test_returning(con: pgrepl.Connection) -> None:
    con.execute("CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY, at date DEFAULT '2026-01-01')")
    cur = con.execute("INSERT INTO t DEFAULT VALUES RETURNING *")
    assert cur.fetchall() == [(1, datetime.date(2026, 1, 1))] and cur.rowcount == 1


def test_columns(con: pgrepl.Connection) -> None:
    con.execute("CREATE TABLE t (a int, b numeric(6,2), c uuid, d timestamptz, e text[])")
    con.execute("INSERT INTO t VALUES (1, 2.5, '00000000-0000-0000-0000-000000000007', '2026-01-01Z', '{a}')")
    con.execute("INSERT INTO t VALUES (2)")
    table = con.execute("SELECT *, b / 3 AS n FROM t").arrow()
    assert [str(field.type) for field in table.schema] == [
        "int32", "decimal128(6, 2)", "string", "timestamp[us, tz=UTC]", "list<element: string>", "decimal128(38, 20)",
    ]  # fmt: skip
    assert table.column("n").to_pylist() == [Decimal("0.83333333333333333333"), None]
    pytest.importorskip("pandas")
    frame = con.execute("SELECT a, e FROM t ORDER BY a").df()
    assert list(frame["a"]) == [1, 2]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("'NaN'::numeric", "NaN"),
        ("'-infinity'::numeric", "infinity"),
        ("'1e100'::numeric", "a numeric of more than 76 digits"),
        ("'infinity'::date", "infinity"),
        ("ARRAY[NULL, '-infinity'::timestamptz]", "infinity"),
        ("'24:00'::time", "time 24:00:00"),
        ("ARRAY['24:00'::time]", "time 24:00:00"),
    ],
)
def test_a_value_that_arrow_has_not_is_told_with_its_column(con: pgrepl.Connection, value: str, what: str) -> None:
    with pytest.raises(pgrepl.DataError) as told:
        con.execute(f'SELECT 1 AS a, {value} AS "Sum"').arrow()
    assert str(told.value) == f'column "Sum" has {what}, which Arrow has not; select it as text: "Sum"::text'


def test_data_in(con: pgrepl.Connection) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"id": [1, 2, 3], "Name": ["a", None, "c"]})
    assert con.write("items", table) == 3
    assert con.write("items", table.slice(0, 1)) == 1
    assert con.execute('SELECT id, "Name" FROM items ORDER BY id').fetchall() == [
        (1, "a"),
        (1, "a"),
        (2, None),
        (3, "c"),
    ]
    assert con.write("items", table, mode="overwrite") == 3
    assert con.execute("SELECT count(*) FROM items").fetchone() == (3,)
    with pytest.raises(pgrepl.ProgrammingError):
        con.write("items", table, mode="error")
    con.execute("ALTER TABLE items ADD PRIMARY KEY (id)")
    with pytest.raises(pgrepl.IntegrityError):
        con.write("items", table)
    with pytest.raises(pgrepl.ProgrammingError):
        con.write("items", [1])


def test_types_that_parquet_has_not_come_in(con: pgrepl.Connection) -> None:
    pa = pytest.importorskip("pyarrow")
    key = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    columns = {
        "spent": pa.array([datetime.timedelta(days=1, seconds=3), None], pa.duration("us")),
        "every": pa.array([pa.MonthDayNano([1, 2, 3000]), None], pa.month_day_nano_interval()),
        "at": pa.array([3_723_000_004_000, None], pa.time64("ns")),  # as Polars has it
        "id": pa.array([key.bytes, None], pa.uuid()),
        "grid": pa.array([[[1, 2], [3, 4]], None], pa.list_(pa.list_(pa.int64()))),
        "pair": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
        "large": pa.array([Decimal("1.5"), None], pa.decimal256(70, 1)),
        "half": pa.array([1.5, None], pa.float32()).cast(pa.float16()),
        "raw": pa.array([b"x", None], pa.binary_view()),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", None])),
    }
    assert con.write("t", pa.table(columns)) == 2
    found = con.execute("SELECT * FROM t WHERE id IS NOT NULL")
    assert found.fetchall() == [
        (
            datetime.timedelta(days=1, seconds=3), datetime.timedelta(days=32, microseconds=3),
            datetime.time(1, 2, 3, 4), key, [[1, 2], [3, 4]], [1, 2], Decimal("1.5"), 1.5, b"x", "a",
        )
    ]  # fmt: skip
    kinds = con.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
        " ORDER BY attnum"
    )
    assert [kind for (kind,) in kinds] == [
        "interval", "interval", "time without time zone", "uuid", "bigint[]", "bigint[]", "numeric(70,1)", "real",
        "bytea", "text",
    ]  # fmt: skip
    back = con.execute("SELECT every, at, id FROM t").arrow()
    assert con.write("t", back) == 2
    assert con.execute("SELECT count(*) FROM t WHERE every = '1 mon 2 days 00:00:00.000003'").fetchone() == (2,)


def test_data_that_cannot_come_in_are_told(con: pgrepl.Connection) -> None:
    pa = pytest.importorskip("pyarrow")
    for data, message in (
        (pa.table({}), "the data have no columns"),
        (pa.table({"v": [{"a": 1}]}), "has no type in PostgreSQL; cast it first"),
    ):
        with pytest.raises(pgrepl.ProgrammingError, match=message):
            con.write("t", data)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(pgrepl.ProgrammingError, match="cannot write a Series"):
        con.write("t", pandas.Series([1]))
    with pytest.raises(pgrepl.DataError, match="cannot make columns of the data"):
        con.write("t", pandas.DataFrame({"v": [1, "a"]}))


def test_the_named_index_of_a_frame_is_written(con: pgrepl.Connection) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"country": ["DE", "AT", "DE"], "year": [1, 1, 2], "total": [1, 2, 3]})
    con.write("sums", frame.groupby("country").sum()[["total"]])
    assert con.execute("SELECT country, total FROM sums ORDER BY 1").fetchall() == [("AT", 2), ("DE", 4)]
    con.write("by_year", frame.set_index(["country", "year"]))
    assert con.execute("SELECT country, year, total FROM by_year ORDER BY 3").fetchall() == [
        ("DE", 1, 1),
        ("AT", 1, 2),
        ("DE", 2, 3),
    ]
    assert con.write("kept", frame[frame.total > 1].set_index("year", drop=False)) == 2
    assert con.execute("SELECT * FROM kept ORDER BY 3").fetchall() == [("AT", 1, 2), ("DE", 2, 3)]


@pytest.mark.slow
def test_polars_gets_text_for_what_it_has_not(con: pgrepl.Connection) -> None:
    digits = "12345678901234567890123456789012345678901234567890.5"
    found = con.execute(
        f"SELECT 1 AS a, interval '1 mon 2 days 03:04:05.6' AS b, {digits} AS c UNION ALL SELECT 2, NULL, 0"
    )
    plain = polars_table(found.arrow())
    assert plain.to_pydict() == {"a": [1, 2], "b": ["1 mon 2 days 03:04:05.6", None], "c": [digits, "0.0"]}
    polars = pytest.importorskip("polars")
    assert found.pl().equals(polars.DataFrame(plain.to_pydict(), schema_overrides={"a": polars.Int32}))


def test_polars_takes_results_and_gives_rows(con: pgrepl.Connection) -> None:
    polars = pytest.importorskip("polars")
    frame = con.execute(
        "SELECT 1::int2 AS a, 1.10::numeric(10,2) AS b, timestamptz '2024-02-29 12:00+02' AS c, '{1,NULL}'::int[] AS d,"
        " '\\xff'::bytea AS e, '{\"a\": 1.10}'::jsonb AS f, ARRAY[interval '1 mon'] AS g, NULL::text AS h,"
        " time '10:00' AS i"
    ).pl()
    assert dict(frame.schema) == {
        "a": polars.Int16, "b": polars.Decimal(10, 2), "c": polars.Datetime("us", "UTC"),
        "d": polars.List(polars.Int32), "e": polars.Binary, "f": polars.String, "g": polars.String, "h": polars.String,
        "i": polars.Time,
    }  # fmt: skip
    row = con.write("t", frame) and con.execute("SELECT * FROM t").pl().rows()[0]
    assert row == frame.rows()[0]
    categories = polars.Series(["x", "y"], dtype=polars.Categorical)
    large = polars.Series([2**64 - 1, None], dtype=polars.UInt64)
    con.write("u", polars.DataFrame({"c": categories, "n": large, "d": [datetime.timedelta(days=1), None]}))
    found = con.execute("SELECT c, n::text, d::text FROM u ORDER BY c").fetchall()
    assert found == [("x", "18446744073709551615", "1 day"), ("y", None, None)]


def test_copy(con: pgrepl.Connection) -> None:
    con.execute("CREATE TABLE t (a int, b text)")
    cur = con.cursor()
    with cur.copy("COPY t FROM STDIN") as copy:
        copy.write_row((1, "tab\tand \\ and\nline"))
        copy.write("2\t\\N\n")
    assert cur.rowcount == 2
    with cur.copy("COPY t TO STDOUT") as copy:
        assert list(copy.rows()) == [("1", "tab\tand \\ and\nline"), ("2", None)]
    with cur.copy("COPY t (a) TO STDOUT (FORMAT csv, HEADER)") as copy:
        assert b"".join(copy) == b"a\n1\n2\n"
    with pytest.raises(pgrepl.DataError) as told, cur.copy("COPY t FROM STDIN") as copy:
        copy.write("x\n")
    assert told.value.diag.context == 'COPY t, line 1, column a: "x"'
    with pytest.raises(ValueError), cur.copy("COPY t FROM STDIN") as copy:
        copy.write("3\tc\n")
        raise ValueError
    assert con.execute("SELECT count(*) FROM t").fetchone() == (2,)
    with pytest.raises(pgrepl.ProgrammingError):
        cur.copy("SELECT 1")


def test_rows_are_copied_in_the_text_format_only(con: pgrepl.Connection) -> None:
    """In another one a NULL would be the text \\N."""
    con.execute("CREATE TABLE t (a int, b text)")
    cur = con.cursor()
    for options in ("FORMAT csv", "FORMAT binary", "DELIMITER '|'", "NULL ''"):
        refused = pytest.raises(pgrepl.ProgrammingError, match="COPY's text format")
        with refused, cur.copy(f"COPY t FROM STDIN ({options})") as copy:
            copy.write_row((None, None))
        with cur.copy(f"COPY t TO STDOUT ({options})") as copy, refused:
            list(copy.rows())
    with cur.copy("COPY t FROM STDIN (FORMAT text, FREEZE off)") as copy:
        copy.write_row((None, "\\N"))
        for read in (copy.read, lambda: list(copy), lambda: list(copy.rows())):
            with pytest.raises(pgrepl.ProgrammingError, match="is written to, not read"):
                read()
    with cur.copy("COPY t TO STDOUT (FORMAT text)") as copy:
        assert list(copy.rows()) == [(None, "\\N")]


# --- transactions ----------------------------------------------------------------------------------------------------


def test_a_transaction_begins_with_the_first_statement(catalog: Path) -> None:
    with pgrepl.connect(catalog) as one, pgrepl.connect(catalog) as two:
        one.execute("CREATE TABLE t (a int)")
        assert one.in_transaction
        one.commit()
        one.execute("INSERT INTO t VALUES (1)")
        assert two.execute("SELECT * FROM t").fetchall() == []
        two.rollback()
        one.commit()
        assert two.execute("SELECT * FROM t").fetchall() == [(1,)]
        one.execute("INSERT INTO t VALUES (2)")
        one.rollback()
        assert one.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_the_context_manager_commits_or_rolls_back_and_closes(catalog: Path) -> None:
    with pgrepl.connect(catalog) as con:
        con.execute("CREATE TABLE t (a int)")
    assert con.closed
    with pytest.raises(ZeroDivisionError), pgrepl.connect(catalog) as con:
        con.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with pgrepl.connect(catalog) as con:
        assert con.execute("SELECT * FROM t").fetchall() == []
    for use in (con.cursor, con.commit, lambda: con.execute("SELECT 1")):
        with pytest.raises(pgrepl.InterfaceError):
            use()
    con.close()


def test_blocks_are_transactions_and_savepoints(con: pgrepl.Connection) -> None:
    con.execute("CREATE TABLE t (a int)")
    with con.transaction():
        con.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(pgrepl.DataError), con.transaction():
            con.execute("INSERT INTO t VALUES (2)")
            con.execute("SELECT 1/0")
        con.execute("INSERT INTO t VALUES (3)")
    with pytest.raises(KeyError), con.transaction():
        con.execute("INSERT INTO t VALUES (4)")
        raise KeyError
    assert con.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (3,)]


def test_errors_have_postgresqls_fields(con: pgrepl.Connection) -> None:
    con.execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
    with pytest.raises(pgrepl.IntegrityError) as told:
        con.execute("INSERT INTO t VALUES (1)")
    error = told.value
    assert (error.sqlstate, error.diag.constraint_name, error.diag.table_name) == ("23505", "t_pkey", "t")
    assert str(error).splitlines() == [
        'duplicate key value violates unique constraint "t_pkey"',
        "DETAIL:  Key (a)=(1) already exists.",
    ]
    assert error.detail == "Key (a)=(1) already exists."
    for query, kind in (
        ("SELECT nosuch", pgrepl.ProgrammingError),
        ("SELECT 1/0", pgrepl.DataError),
        ("CREATE EXTENSION postgis", pgrepl.NotSupportedError),
        ("SET statement_timeout = 1; SELECT pg_sleep(5)", pgrepl.OperationalError),
    ):
        with pytest.raises(kind):
            con.execute(query)


def test_after_an_error_the_transaction_has_to_be_rolled_back(catalog: Path) -> None:
    with pgrepl.connect(catalog) as con:
        with pytest.raises(pgrepl.DataError) as told:
            con.execute("SELECT 1/0")
        assert told.value.sqlstate == "22012"
        with pytest.raises(pgrepl.InternalError) as told2:
            con.execute("SELECT 1")
        assert told2.value.sqlstate == "25P02"
        con.rollback()
        assert con.execute("SELECT 1").fetchone() == (1,)


def test_notices(con: pgrepl.Connection) -> None:
    heard: list[str | None] = []
    con.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    con.execute("DROP TABLE IF EXISTS nosuch")
    assert heard == ['table "nosuch" does not exist, skipping'] == [n.message_primary for n in con.notices]


def test_a_connection_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is not a catalog")
    with pytest.raises(pgrepl.Error, match="is not a pgrepl catalog"):
        pgrepl.connect(tmp_path / "no.db")
    with pytest.raises(pgrepl.ProgrammingError, match='database "nosuch" does not exist'):
        pgrepl.connect(tmp_path / "c.db", "nosuch")
    with pytest.raises(pgrepl.OperationalError, match='role "nobody" does not exist'):
        pgrepl.connect(tmp_path / "c.db", user="nobody")


# --- threads, and Ctrl-C ---------------------------------------------------------------------------------------------


def test_threads_have_connections_of_their_own(catalog: Path) -> None:
    with pgrepl.connect(catalog) as con:
        con.execute("CREATE TABLE t (a int)")
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with pgrepl.connect(catalog, autocommit=True) as own:
                for n in range(5):
                    own.execute("INSERT INTO t VALUES (%s)", [number * 10 + n])
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    with pgrepl.connect(catalog) as con:
        assert con.execute("SELECT count(DISTINCT a) FROM t").fetchone() == (15,)


def test_two_threads_in_one_connection_are_told(con: pgrepl.Connection) -> None:
    began, told = threading.Event(), threading.Event()

    def handler(notice: pgrepl.Diagnostic) -> None:
        began.set()
        told.wait(30)

    con.add_notice_handler(handler)
    thread = threading.Thread(target=lambda: con.execute("DROP TABLE IF EXISTS nosuch"))
    thread.start()
    began.wait(30)
    try:
        with pytest.raises(pgrepl.InterfaceError, match="another thread"):
            con.execute("SELECT 1")
    finally:
        told.set()
        thread.join()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_ctrl_c_cancels_the_statement(con: pgrepl.Connection) -> None:
    con.execute("CREATE TABLE t (a int)")
    con.execute(
        "CREATE FUNCTION begun() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'begun'; RETURN 1; END $$"
    )
    begun = threading.Event()
    con.add_notice_handler(lambda notice: begun.set())

    def interrupt() -> None:
        if begun.wait(PATIENCE):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        con.execute("INSERT INTO t SELECT 1 FROM begun(), pg_sleep(600)")
    thread.join()
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_text_with_a_nul_is_refused_whichever_way_it_comes(con: pgrepl.Connection, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    con.execute("CREATE TABLE t (a text)")
    offsets = pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]))
    invalid = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a\xffb")])
    refused = 'invalid byte sequence for encoding "UTF8": 0x'
    for column, byte in (
        (pa.array(["x", "y\0z"]), "00"), (pa.array(["x", "\0"]).dictionary_encode(), "00"), (invalid, "ff"),
    ):  # fmt: skip
        with pytest.raises(pgrepl.DataError, match=refused + byte) as caught:
            con.write("t", pa.table({"a": column}))
        assert caught.value.sqlstate == "22021"
        con.rollback()
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"a": column}), path)
        with pytest.raises(pgrepl.DataError, match=refused + byte):
            con.execute(f"COPY t FROM '{path}' (FORMAT parquet)")
        con.rollback()
    with pytest.raises(pgrepl.DataError, match=refused + "00"):
        con.write("t", pa.table({"a": ["x"] * 30000 + ["\0"]}))  # by kernels
    con.rollback()
    values: list[Any] = ["a\0b", ["a\0b"], "\ud800"]
    for value in values:
        with pytest.raises(pgrepl.DataError, match=refused) as caught:
            con.execute("INSERT INTO t VALUES (%s)", [value])
        assert caught.value.sqlstate == "22021"


def test_rows_become_pythons_values_when_they_are_fetched(con: pgrepl.Connection) -> None:
    """So that columns are no detour over them; a value that Python cannot hold is an error of its row."""
    found = con.execute("SELECT d, n FROM (VALUES (date '2026-01-01', 1), ('infinity', 2), (NULL, 3)) v(d, n)")
    assert found.fetchone() == (datetime.date(2026, 1, 1), 1)
    with pytest.raises(pgrepl.DataError):
        found.fetchone()
    assert (found.fetchall(), found.rowcount) == ([(None, 3)], 3)


def test_a_connection_that_lasts_until_the_program_ends_leaves_no_temporary_table(tmp_path: Path) -> None:
    program = (
        "import pgrepl\n"
        "class Job:\n"
        "    def __init__(self):\n"
        "        self.con, self.me = pgrepl.connect('c.db', autocommit=True), self\n"
        "job = Job()\n"
        "job.con.execute('CREATE TEMP TABLE x (a int)')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, check=True, cwd=tmp_path
    )
    assert done.stderr == b""
    with pgrepl.connect(str(tmp_path / "c.db")) as con:
        assert con.execute("SELECT count(*) FROM pg_class WHERE relname = 'x'").fetchall() == [(0,)]


@pytest.mark.parametrize("how", ["arrow", "df", "fetchall"])
def test_midnight_at_the_end_of_a_day_is_no_time_of_others(tmp_path: Path, how: str) -> None:
    with pgrepl.connect(str(tmp_path / "c.db")) as con, pytest.raises(pgrepl.DataError, match="24:00:00"):
        getattr(con.execute("SELECT time '24:00' AS t"), how)()
