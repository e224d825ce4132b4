"""Initial copies from a real server: every type faithfully, by rows and straight into files, and what stops them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from threading import Event, current_thread, main_thread

import pytest

from pgrepl.engine import choice
from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.publisher.postgres import copy_columns, copy_ranges
from pgrepl.replication.publisher.postgres.publisher import to_server
from tests.harness.dose import dose
from tests.harness.programs import PATIENCE
from tests.postgres.served import Served


@pytest.fixture(params=dose(["rows", "csv", "binary"], 2))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every table is large enough for files and for two readers, or none is."""
    files = request.param != "rows"
    if request.param == "csv":
        monkeypatch.setattr(copy_columns, "is_binary", lambda columns: False)
    monkeypatch.setattr(choice, "WORTH_A_FILE", 0 if files else 1 << 60)
    monkeypatch.setattr(copy_columns, "RANGE", 8192 if files else 1 << 60)
    monkeypatch.setattr(copy_ranges, "CHUNK", 256)
    monkeypatch.setattr(copy_ranges, "BINARY_CHUNK", 256)
    return str(request.param)


TYPES = {
    "boolean": ("true", "false"),
    "smallint": ("-32768", "32767"),
    "integer": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "real": ("'NaN'", "'-Infinity'", "1e-45", "3.4028235e38", "0.1", "'-0'"),
    "double precision": ("'NaN'", "'Infinity'", "5e-324", "1.7976931348623157e308", "0.1"),
    "numeric(10,2)": ("1.50", "-99999999.99"),
    "numeric(38,10)": ("1234567890123456789012345678.0123456789",),
    "numeric(45,5)": ("1234567890123456789012345678901234567890.12345",),
    "numeric": ("'NaN'", "'Infinity'", "1.10", "1e-40", "123456789012345678901234567890123456789012345.5"),
    "text": ("''", "'NULL'", "'\\N'", "'\\.'", "E'a\\tb\\nc\\r\\\\'", '\'"quoted", and ""\'', "'häß€😀'", "' '"),
    "varchar(5)": ("''", "'abcde'"),
    "char(4)": ("'a'", "''", "'abcd'"),
    "bytea": ("''", "'\\x00ff5c'", "'abc'"),
    "date": ("'2024-02-29'", "'infinity'", "'-infinity'", "'0044-03-15 BC'", "'5874897-12-31'", "'0001-01-01'"),
    "time": ("'00:00'", "'24:00:00'", "'12:34:56.789012'"),
    "timetz": ("'12:34:56+05:30'",),
    "timestamp": ("'2024-01-01 12:00:00.000001'", "'infinity'", "'0044-03-15 BC'", "'1500-01-01'", "'9999-12-31'"),
    "timestamptz": ("'2024-01-01 12:00:00+02'", "'-infinity'", "'0044-03-15 10:00+00 BC'", "'1969-12-31 23:59:59.5Z'"),
    "interval": ("'1 year -2 days 03:04:05.6'", "'0'"),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",),
    "json": ("'{\"a\" : [1,  null]}'", "'null'", "'\"\"'"),
    "jsonb": ('\'{"b": 1.50, "a" : [1,  null]}\'', "'null'"),
    "inet": ("'10.1.2.3/8'", "'::1'"),
    "int4range": ("'[1,5)'", "'empty'"),
    "bit(3)": ("B'101'",),
    "integer[]": ("'{1,NULL,3}'", "'{}'"),
    "text[]": ('\'{"a,b","",NULL,"\\""}\'',),
}


def test_every_type_is_copied_as_it_is(served: Served, way: str) -> None:
    types = {name: values for name, values in TYPES.items() if way != "binary" or name != "inet"}  # its table is CSV
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(types))
    served.both(f"CREATE TABLE t (k int PRIMARY KEY, {columns})")
    longest = max(map(len, types.values()))
    rows = []
    for number in range(longest):
        values = [some[number] if number < len(some) else "NULL" for some in types.values()]
        rows.append(f"({number}, {', '.join(values)})")
    served.pub(f"INSERT INTO t VALUES {', '.join(rows)}")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    texts = ", ".join(f"c{number}::text" for number in range(len(types)))
    served.pub("SET timezone = 'UTC'")
    served.sub("SET timezone = 'UTC'")
    assert len(served.same(f"SELECT k, {texts} FROM t ORDER BY k")) == longest
    served.pub("UPDATE t SET k = k + 100")  # and so do changes
    assert served.catch_up() == []
    served.same(f"SELECT k, {texts} FROM t ORDER BY k")


def test_a_column_of_nulls_keeps_its_rows(served: Served, way: str) -> None:
    served.both("CREATE TABLE t (a text)")
    served.pub(
        "INSERT INTO t SELECT CASE WHEN g % 3 = 0 THEN '' WHEN g % 3 = 1 THEN 'x' END FROM generate_series(1, 300) g"
    )
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    assert served.same("SELECT count(*), count(a), count(*) FILTER (WHERE a = '') FROM t") == [("300", "200", "100")]


def test_many_pages_by_several_readers_with_a_filter_and_other_columns_here(served: Served, way: str) -> None:
    served.pub("CREATE TABLE t (id bigint PRIMARY KEY, gone int, v varchar(20), d timestamptz, n numeric(12,2))")
    served.pub("ALTER TABLE t DROP gone")
    served.pub(
        "INSERT INTO t SELECT g, 'value ' || g, '2024-01-01Z'::timestamptz + g * interval '1 s', g / 4.0 "
        "FROM generate_series(1, 3000) g"
    )
    served.sub("CREATE TABLE t (n numeric(12,2) NOT NULL, v text, id bigint PRIMARY KEY, extra int, d timestamptz)")
    condition = "WHERE (id % 10 <> 3)" if served.publishing.version >= 15 else ""
    served.pub(f"CREATE PUBLICATION p FOR TABLE t {condition}")
    served.subscribe()
    query = "SELECT count(*), sum(id), sum(n), min(d AT TIME ZONE 'UTC'), max(v) FROM t"
    assert served.sub(query) == served.pub(f"{query} {condition}")
    assert served.sub("SELECT count(*) FROM t WHERE extra IS NOT NULL") == [("0",)]
    served.pub("UPDATE t SET id = -id WHERE id = 1; DELETE FROM t WHERE id = 2")
    assert served.catch_up() == []
    assert served.sub(query) == served.pub(f"{query} {condition}")


RULES = """
    CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN year AS int CHECK (VALUE > 1900);
    CREATE TYPE pair AS (a int, b text); CREATE DOMAIN spot AS inet;
"""


def with_rules(served: Served) -> None:
    """A uuid is the key, columns have types of the user's, and the table here a CHECK, a default and a generated
    column."""
    served.both(RULES)
    served.pub("CREATE TABLE t (k uuid PRIMARY KEY, m mood, y year, p pair, ms mood[], s spot)")
    served.pub(
        "INSERT INTO t SELECT md5(g::text)::uuid, (ARRAY['sad', 'ok']::mood[])[1 + g % 2], 1901 + g, "
        "(g, 'a, ' || chr(34) || g)::pair, ARRAY['ok', NULL]::mood[], '10.0.0.1'::inet + g "
        "FROM generate_series(1, 400) g"
    )
    served.sub(
        "CREATE TABLE t (k uuid PRIMARY KEY, y year CHECK (y < 4000), m mood NOT NULL, p pair, ms mood[], s spot,"
        " more text DEFAULT 'new', next int GENERATED ALWAYS AS (y + 1) STORED)"
    )
    served.pub("CREATE PUBLICATION p FOR TABLE t")


def test_rules_and_types_of_users_go_by_columns(served: Served, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "rows":
        monkeypatch.setattr(copy_columns.ServerRows, "frame", None)  # Spark would convert and check the rows
    with_rules(served)
    served.subscribe()
    assert len(served.same("SELECT k, m, y, p, ms, s FROM t ORDER BY k")) == 400
    assert served.sub("SELECT DISTINCT more, next - y FROM t") == [("new", "1")]


@pytest.mark.parametrize("publishing", [16], indirect=True)
@pytest.mark.parametrize("here", ["ALTER DOMAIN year ADD CHECK (VALUE < 2200)", "ALTER TABLE t ADD CHECK (y < 2200)"])
def test_what_is_stricter_here_refuses_the_copy(served: Served, way: str, here: str) -> None:
    with_rules(served)
    served.sub(here)
    served.sub(f"CREATE SUBSCRIPTION s CONNECTION '{served.conninfo}' PUBLICATION p WITH (slot_name = {served.slot})")
    ((message, _, _),) = served.catch_up()
    assert message in (
        'value for domain public.year violates check constraint "year_check1"',
        'new row for relation "t" violates check constraint "t_y_check1"',
    )
    assert served.sub("SELECT count(*) FROM t") == [("0",)]


@pytest.mark.parametrize("publishing", [16], indirect=True)
@pytest.mark.parametrize("binary", [pytest.param(True, marks=pytest.mark.slow), False])
def test_executors_read_it_each_a_range_of_its_pages(
    served: Served, monkeypatch: pytest.MonkeyPatch, *, binary: bool
) -> None:
    monkeypatch.setattr(choice, "WORTH_A_FILE", 0)
    kinds = "id bigint PRIMARY KEY, v varchar(20) NOT NULL, d timestamptz, n numeric(12,2)"
    served.both(f"CREATE TABLE t ({kinds}, more {'uuid' if binary else 'inet'})")
    served.pub(
        "INSERT INTO t SELECT g, 'value ' || g, '2024-01-01Z'::timestamptz + g * interval '1 s', g / 4.0 "
        "FROM generate_series(1, 3000) g"
    )
    served.pub("CREATE PUBLICATION p FOR TABLE t WHERE (id % 10 <> 3)")
    served.sub("ALTER ROLE ALL SET pgrepl.engine = spark")
    served.subscribe()
    query = "SELECT count(*), sum(id), sum(n), min(d AT TIME ZONE 'UTC'), max(v), count(more) FROM t"
    assert served.sub(query) == served.pub(f"{query} WHERE (id % 10 <> 3)")
    assert served.sub("SELECT engine, calls FROM pgrepl_stat_engine WHERE work = 'initial copy'") == [("spark", "1")]


@pytest.mark.slow
@pytest.mark.parametrize("publishing", [16], indirect=True)
def test_executors_know_rules_and_types_of_users(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "WORTH_A_FILE", 0)
    monkeypatch.setattr(copy_columns.ServerRows, "frame", None)
    with_rules(served)
    served.sub("ALTER ROLE ALL SET pgrepl.engine = spark")
    served.subscribe()
    assert len(served.same("SELECT k, m, y, p, ms, s FROM t ORDER BY k")) == 400
    assert served.sub("SELECT engine, calls FROM pgrepl_stat_engine WHERE work = 'initial copy'") == [("spark", "1")]


def test_an_interrupt_while_the_others_are_waited_for_stops_them(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first range is done; the others would be read to their ends before the interrupt got through."""
    served.pub("CREATE TABLE t (a int, b text)")
    served.pub("INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 3000) g")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    monkeypatch.setattr(copy_columns, "RANGE", 1 << 16)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    publisher = to_server(parse_conninfo(served.conninfo), "")
    read: list[int] = []

    def take(chunks: Iterator[copy_ranges.Chunk]) -> None:
        if current_thread() is main_thread():
            return
        told.wait(PATIENCE)
        read.extend(len(data) for data, _ in chunks)

    def result(future: Future[None], timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    def shutdown(pool: ThreadPoolExecutor, wait: bool = True) -> None:
        """The others have been told when they are waited for."""
        told.set()
        there(pool, wait)

    told, there = Event(), ThreadPoolExecutor.shutdown
    monkeypatch.setattr(Future, "result", result)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    with closing(publisher):
        rows = publisher.copies.copy("public", "t", ["p"]).direct
        assert isinstance(rows, copy_columns.ServerRows)
        with pytest.raises(KeyboardInterrupt):
            rows.by_ranges(take, False)
    assert read == []


@pytest.mark.parametrize(
    ("here", "message", "context"),
    dose(
        [
            (
                "CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL)",
                'null value in column "b" of relation "t" violates not-null constraint',
                'COPY t, line 2: "2\t\\N"',
            ),
            ("CREATE TABLE t (a int PRIMARY KEY, b int)", 'invalid input syntax for type integer: "x"', None),
            (
                "CREATE TABLE t (a int, b text UNIQUE)",
                'duplicate key value violates unique constraint "t_b_key"',
                "COPY t, line 3",
            ),
            (
                "CREATE TABLE t (a int CHECK (a < 3), b text)",
                'new row for relation "t" violates check constraint "t_a_check"',
                'COPY t, line 3: "3\tx"',
            ),
        ],
        4,
    ),
)
def test_a_row_that_does_not_fit_is_named(
    served: Served, way: str, here: str, message: str, context: str | None
) -> None:
    served.pub("CREATE TABLE t (a int PRIMARY KEY, b text)")
    served.pub("INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'x')")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.sub(here)
    served.sub(f"CREATE SUBSCRIPTION s CONNECTION '{served.conninfo}' PUBLICATION p WITH (slot_name = {served.slot})")
    ((said, _, where),) = served.catch_up()
    assert said == message
    assert context is None or where == context
    assert served.sub("SELECT count(*) FROM t") == [("0",)]
    assert served.sub("SELECT srsubstate FROM pg_subscription_rel") == [("d",)]
    served.sub("DROP SUBSCRIPTION s")
    assert served.pub(f"SELECT FROM pg_replication_slots WHERE database = '{served.database}'") == []


def test_rows_that_were_here_before_the_copy_are_looked_at(served: Served, way: str) -> None:
    served.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    served.pub("INSERT INTO t VALUES (1, 'there'), (2, 'there')")
    served.sub("INSERT INTO t VALUES (2, 'here')")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.sub(f"CREATE SUBSCRIPTION s CONNECTION '{served.conninfo}' PUBLICATION p WITH (slot_name = {served.slot})")
    ((message, detail, _),) = served.catch_up()
    assert (message, detail) == (
        'duplicate key value violates unique constraint "t_pkey"', "Key (a)=(2) already exists.",
    )  # fmt: skip
    served.sub("DELETE FROM t")
    assert served.catch_up() == []
    served.same("SELECT * FROM t ORDER BY a")


def test_what_the_lake_has_no_value_for_is_an_error_and_never_another_value(served: Served, way: str) -> None:
    served.both("CREATE TABLE t (a int PRIMARY KEY, n numeric(10,2))")
    served.pub("INSERT INTO t VALUES (1, 'NaN')")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.sub(f"CREATE SUBSCRIPTION s CONNECTION '{served.conninfo}' PUBLICATION p WITH (slot_name = {served.slot})")
    assert [message for message, _, _ in served.catch_up()] == [
        "NaN in a column of type numeric(10,2) is not supported"
    ]
    served.sub("ALTER TABLE t ALTER n TYPE numeric")
    assert served.catch_up() == []
    assert served.same("SELECT * FROM t") == [("1", "NaN")]


def test_column_lists_that_differ_stop_the_copy_of_their_table_alone(served: Served) -> None:
    served.both("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE u (a int PRIMARY KEY)")
    served.pub("INSERT INTO t VALUES (1, 'x'); INSERT INTO u VALUES (1)")
    served.pub("CREATE PUBLICATION p FOR TABLE t (a), u; CREATE PUBLICATION q FOR TABLE t (a)")
    served.subscribe_only("p, q")
    served.pub("ALTER PUBLICATION q SET TABLE t (a, b)")
    ((message, _, _),) = served.catch_up()
    assert message == 'cannot use different column lists for table "public.t" in different publications'
    states = "SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1"
    assert served.sub(states) == [("t", "d"), ("u", "r")]
    served.pub("ALTER PUBLICATION q SET TABLE t (a)")
    assert served.catch_up() == []
    assert served.sub("SELECT * FROM t") == [("1", None)]
