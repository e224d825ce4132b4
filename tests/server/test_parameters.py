"""Parameters as a client declares and binds them: the same answers of a real server and of `pgrepl serve`."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from tests.harness.serving import Serving, serving
from tests.postgres.server import Server, new_server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = new_server(16, "")
    yield made
    made.stop()


@pytest.fixture
def both(served: Serving, server: Server) -> Iterator[list[psycopg.Connection[Any]]]:
    theirs = psycopg.connect(host=server.host, port=server.port, user="postgres", dbname="postgres", autocommit=True)
    with theirs, served.connect() as ours:
        theirs.prepare_threshold = ours.prepare_threshold = None
        yield [theirs, ours]


FIELDS = (
    DiagnosticField.SQLSTATE,
    DiagnosticField.MESSAGE_PRIMARY,
    DiagnosticField.CONTEXT,
    DiagnosticField.STATEMENT_POSITION,
)


def told(result: PGresult) -> Any:
    if result.status == ExecStatus.FATAL_ERROR:
        return [result.error_field(field) for field in FIELDS]
    rows = [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
    return result.command_status, rows


def array(element: int, *items: bytes) -> bytes:
    return struct.pack("!iiIii", 1, 0, element, len(items), 1) + b"".join(map(sized, items))


def row(*fields: tuple[int, bytes]) -> bytes:
    return struct.pack("!i", len(fields)) + b"".join([struct.pack("!I", oid) + sized(data) for oid, data in fields])


def sized(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN small AS int CHECK (value < 10);
CREATE DOMAIN mood_of_day AS mood;
CREATE TYPE pair AS (a small, b mood);
CREATE DOMAIN sure_pair AS pair CHECK ((value).a > 0);
CREATE DOMAIN few AS int[] CHECK (cardinality(value) < 3);
CREATE TABLE seen (m mood, s small, p pair);
INSERT INTO seen VALUES ('ok', 5, '(1,sad)')
"""
ASKED = (
    "SELECT $1", "SELECT $1::text", "SELECT pg_typeof($1)", "SELECT ARRAY[$1]", "SELECT row($1)", "SELECT $1::text[]",
    "SELECT m FROM seen WHERE m = $1", "SELECT m FROM seen WHERE m = ANY ($1)", "SELECT s + 1 FROM seen WHERE s = $1",
    "INSERT INTO seen (p) VALUES ($1) RETURNING (p).b", "SELECT ($1).*", "UPDATE seen SET s = $1 RETURNING s",
)  # fmt: skip


def test_a_parameter_declared_as_a_users_type_is_of_that_type(both: list[psycopg.Connection[Any]]) -> None:
    """Values in text and binary; statements with a name and without."""

    def answers(con: psycopg.Connection[Any]) -> list[Any]:
        con.execute(TYPES)
        oid = dict(con.execute("SELECT typname, oid::int FROM pg_type WHERE oid > 16000 OR oid = 1007").fetchall())
        loose = row((23, struct.pack("!i", 1)), (25, b"ok"))
        pair = row((oid["small"], struct.pack("!i", 1)), (oid["mood"], b"ok"))
        values: dict[str, list[tuple[bytes | None, int]]] = {
            "mood": [(b"ok", 0), (b"ok", 1), (b"bad", 0)],
            "_mood": [(b"{ok,sad}", 0), (array(oid["mood"], b"ok"), 1)],
            "small": [(b"5", 0), (struct.pack("!i", 5), 1), (struct.pack("!i", 50), 1), (None, 0)],
            "_small": [(b"{5,50}", 0), *[(array(of, struct.pack("!i", 6)), 1) for of in (oid["small"], 23, 25)]],
            "mood_of_day": [(b"ok", 0), (b"ok", 1)],
            "pair": [(b"(1,ok)", 0), (pair, 1), (loose, 1)],
            "_int4": [(b"{1}", 0), (array(25, struct.pack("!i", 6)), 1)],
            "_pair": [(b'{"(1,ok)"}', 0), (array(oid["pair"], pair), 1)],
            "sure_pair": [(b"(1,ok)", 0), (b"(-1,ok)", 0), (pair, 1)],
            "few": [(b"{1,2}", 0), (b"{1,2,3}", 0)],
        }
        found: list[Any] = []
        for (name, each), (number, text) in product(values.items(), enumerate(ASKED)):
            statement = b"named" if number % 2 else b""
            for value, form in each:
                con.execute("BEGIN")
                found.append((name, text, told(con.pgconn.prepare(statement, text.encode(), [oid[name]]))))
                found.append((form, told(con.pgconn.exec_prepared(statement, [value], [form]))))
                con.execute("ROLLBACK; DEALLOCATE ALL")
        con.execute("DROP TABLE seen; DROP DOMAIN few, sure_pair; DROP TYPE pair; DROP DOMAIN mood_of_day, small")
        con.execute("DROP TYPE mood")
        return found

    theirs, ours = map(answers, both)
    assert ours == theirs


def test_describe_tells_of_as_many_parameters_as_the_protocol_has(both: list[psycopg.Connection[Any]]) -> None:
    def answers(con: psycopg.Connection[Any]) -> list[Any]:
        asked = con.pgconn
        found: list[Any] = []
        for count in (32767, 32768, 65535):
            asked.prepare(b"", b"SELECT $1", [23] * count)
            described = asked.describe_prepared(b"")
            found.append((described.error_message, described.nparams, told(asked.exec_prepared(b"", [b"7"] * count))))
        found.append(told(asked.prepare(b"", b"SELECT $2147483647")))
        return found

    theirs, ours = map(answers, both)
    assert ours == theirs


def copied_out(asked: PGconn) -> list[Any]:
    result = asked.exec_(b"COPY texts TO STDOUT (FORMAT binary)")
    found: list[Any] = []
    while (data := asked.get_copy_data(0))[0] > 0:
        found.append(bytes(data[1])[19:])
    while (result := asked.get_result()) is not None:  # type: ignore[assignment]
        found.append(told(result))
    return found


def copied_in(asked: PGconn, values: Sequence[bytes]) -> list[Any]:
    asked.exec_(b"COPY texts (a, b) FROM STDIN (FORMAT binary, ENCODING 'UTF8')")
    fields = b"".join(map(sized, values))
    asked.put_copy_data(b"PGCOPY\n\377\r\n\0" + bytes(8) + struct.pack("!h", len(values)) + fields + b"\xff\xff")
    asked.put_copy_end()
    found: list[Any] = []
    while (result := asked.get_result()) is not None:
        found.append(told(result))
    return found


def test_texts_of_binary_values_are_in_the_clients_encoding(both: list[psycopg.Connection[Any]]) -> None:
    """Of COPY, whose option ENCODING does not count then, of results and of parameters; within arrays and rows, too."""

    def answers(con: psycopg.Connection[Any]) -> list[Any]:
        con.execute("CREATE TYPE sign AS ENUM ('\u00e0', '\u20ac'); CREATE TABLE texts (a text, b text[])")
        con.execute("INSERT INTO texts VALUES ('\u00e0', '{\u00e0}')")
        asked = con.pgconn
        found: list[Any] = []
        for encoding in ("LATIN1", "LATIN9", "EUC_JP", "UTF8"):
            asked.exec_(f"SET client_encoding = {encoding}".encode())
            found.append(copied_out(asked))
            for char in ("\\00e0", "\\20ac"):
                literal = f"U&'{char}'"
                for value in (
                    literal, f"ARRAY[{literal}]", f"row({literal})", f"{literal}::sign", f"array_agg(row({literal}))",
                    f"""('"' || {literal} || '"')::jsonb""",
                ):  # fmt: skip
                    query = f"SELECT {value}".encode()
                    found.append((encoding, query, told(asked.exec_params(query, [], result_format=1))))
            for raw in (b"\xe0", b"\xa4", b"\xc3\xa0", b"\xe0\0"):
                for name, data in (
                    ("text", raw), ("sign", raw), ("text[]", array(25, raw)), ("jsonb", b'\1"' + raw + b'"'),
                ):  # fmt: skip
                    query = f"SELECT $1::{name}"
                    found.append((encoding, query, raw, told(asked.exec_params(query.encode(), [data], None, [1]))))
                asked.exec_(b"BEGIN")
                found.append((encoding, raw, copied_in(asked, [raw, array(25, raw)])))
                found.append(told(asked.exec_(b"SELECT a = U&'\\00e0', length(b[1]) FROM texts")))
                asked.exec_(b"ROLLBACK")
        con.execute("DROP TABLE texts; DROP TYPE sign")
        return found

    theirs, ours = map(answers, both)
    assert ours == theirs


INFERRED = [
    ("INSERT INTO part (k, x) VALUES (1, 'a') ON CONFLICT (k) WHERE x = $1::varchar DO NOTHING", ("a", "b", None)),
    ("INSERT INTO part (k, x) VALUES (1, $1) ON CONFLICT (k) WHERE x = $1 DO UPDATE SET n = 1", ("a", "b")),
    ("INSERT INTO part (k, x) VALUES (1, 'a') ON CONFLICT (k) WHERE x = lower($1) DO NOTHING", ("A", "B")),
    ("INSERT INTO part (k, x) VALUES (1, 'a') ON CONFLICT (k) WHERE x = 'a'::varchar OR $1 DO NOTHING", ("f", "t")),
    ("INSERT INTO part (n, b) VALUES (9, true) ON CONFLICT (n) WHERE n > $1 AND b DO NOTHING", ("5", "6", "4")),
    ("INSERT INTO part (n, b) VALUES (9, true) ON CONFLICT (n) WHERE n > 5 AND b = $1 DO NOTHING", ("t", "f")),
    (
        "INSERT INTO part (x) VALUES ('p') ON CONFLICT (lower(x)) WHERE x = ANY ($1) DO NOTHING",
        ("{p}", "{q,p}", "{r,p}"),
    ),
    ("INSERT INTO part (x) VALUES ('p') ON CONFLICT (lower(x)) WHERE x = $1 DO NOTHING", ("p", "r")),
]
ALIKE = [
    "SELECT DISTINCT coalesce(x, $1) FROM part ORDER BY coalesce(x, {})",
    "DECLARE c CURSOR FOR SELECT DISTINCT coalesce(x, $1) FROM part ORDER BY coalesce(x, {})",
    "DECLARE c CURSOR FOR SELECT DISTINCT ON (coalesce(x, $1)) x FROM part ORDER BY coalesce(x, {})",
    "CREATE TEMP TABLE made AS SELECT coalesce(x, $1) FROM part GROUP BY coalesce(x, {})",
    "INSERT INTO part (x) SELECT coalesce(x, $1) FROM part GROUP BY coalesce(x, {})",
    "UPDATE part SET x = (SELECT coalesce(x, $1) FROM part GROUP BY coalesce(x, {}) LIMIT 1)",
]


def test_a_bound_value_is_a_constant_to_the_planner_and_a_parameter_to_the_analysis(
    both: list[psycopg.Connection[Any]],
) -> None:
    """ON CONFLICT finds a partial index by it; two parameters with the same value are not the same expression."""

    def answers(con: psycopg.Connection[Any]) -> list[Any]:
        con.execute(
            "CREATE TABLE part (k int, x varchar(9), n int, b bool); CREATE UNIQUE INDEX ON part (k) WHERE x = 'a';"
            "CREATE UNIQUE INDEX ON part (n) WHERE n > 5 AND b;"
            "CREATE UNIQUE INDEX ON part (lower(x)) WHERE x IN ('p', 'q')"
        )
        asked = [(text, [value]) for text, values in INFERRED for value in values]
        asked += [(text.format("$1"), ["z"]) for text in ALIKE]
        asked += [(text.format("$2"), ["z", value]) for text in ALIKE for value in ("z", "w")]
        found: list[Any] = []
        for text, values in asked:
            con.execute("BEGIN")
            given = [None if value is None else value.encode() for value in values]
            found.append((text, values, told(con.pgconn.exec_params(text.encode(), given))))
            con.execute("ROLLBACK")
        con.execute("DROP TABLE part")
        return found

    theirs, ours = map(answers, both)
    assert ours == theirs


ARRAYS_OF_ROWS = [
    """SELECT '{"(1,x)"}'::held[], '{"(1,x)"}'::_held, '{"(1,x)"}'::text[]::held[]""",
    "SELECT array_agg(held ORDER BY a DESC), pg_typeof(array_agg(held)) FROM held",
    "SELECT (array_agg(seen_held ORDER BY b))[1].a, cardinality(array_agg(seen_held)) FROM seen_held",
    "SELECT ARRAY(SELECT held FROM held ORDER BY a), ARRAY[held] FROM held ORDER BY a",
    "SELECT (unnest(array_agg(held ORDER BY a))).* FROM held",
    """SELECT * FROM unnest('{"(1,x)","(3,z)"}'::held[]) AS q (x, y)""",
    """SELECT held FROM held WHERE held = ANY ('{"(1,x)"}'::held[])""",
    """SELECT '{"(1,x)"}'::held[] < '{"(2,x)"}'::held[], '(0,w)'::held || '{"(2,x)"}'::held[]""",
    "SELECT to_json(array_agg(held ORDER BY a)) FROM held",
    "SELECT typname, typelem::regtype, typtype, typcategory, typinput, typsubscript FROM pg_type"
    " WHERE oid = (SELECT typarray FROM pg_type WHERE typname = 'held')",
    "SELECT format_type(typarray, NULL), typarray::regtype FROM pg_type WHERE typname = 'seen_held'",
    "SELECT '{(1,x,y)}'::held[]",
    """SELECT '{"(1,x,y)"}'::held[]""",
    "DO $$ DECLARE x held[]; r held; BEGIN FOR r IN SELECT * FROM held LOOP x := x || r; END LOOP;"
    " RAISE EXCEPTION '%', x; END $$",
    "CREATE FUNCTION f(x held[]) RETURNS int LANGUAGE sql AS 'SELECT x[1].a'; DROP TABLE held",
    "CREATE FUNCTION f(x held[]) RETURNS int LANGUAGE sql AS 'SELECT x[1].a'; SELECT f(array_agg(held)) FROM held",
    "CREATE VIEW v AS SELECT array_agg(held) x FROM held; SELECT x[1].b, pg_get_viewdef('v') FROM v",
    """CREATE VIEW v AS SELECT '{"(1,x)"}'::held[] x; SELECT x FROM v""",
    "ALTER TABLE held RENAME TO kept; SELECT pg_typeof(array_agg(kept)) FROM kept",
    "DROP TYPE _held",
    "ALTER TYPE held[] RENAME TO x",
    "ALTER TYPE _held RENAME TO x",
]


def test_rows_of_tables_have_arrays(both: list[psycopg.Connection[Any]]) -> None:
    def answers(con: psycopg.Connection[Any]) -> list[Any]:
        con.execute("CREATE TABLE held (a int, b text); INSERT INTO held VALUES (1, 'x'), (2, NULL)")
        con.execute("CREATE VIEW seen_held AS SELECT a, b FROM held")
        found: list[Any] = []
        for text in ARRAYS_OF_ROWS:
            con.execute("BEGIN")
            found.append((text, told(con.pgconn.exec_(text.encode()))))
            con.execute("ROLLBACK")
        (oid,) = con.execute("SELECT typarray FROM pg_type WHERE typname = 'held'").fetchone() or ()
        con.pgconn.prepare(b"", b"SELECT $1, $1[2].b", [oid])
        found.append(told(con.pgconn.exec_prepared(b"", [b'{"(1,x)","(2,y)"}'])))
        con.execute("DROP TABLE held CASCADE")
        return found

    theirs, ours = map(answers, both)
    assert ours == theirs


def test_no_table_holds_arrays_of_a_tables_rows(served: Serving) -> None:
    with served.connect() as con:
        con.execute("CREATE TABLE held (a int)")
        for text, what in (
            ("CREATE TABLE holds (x held[])", "a column of type held[]"),
            ("CREATE TABLE holds AS SELECT array_agg(held) FROM held", "a column of type held[]"),
            ("ALTER TABLE held ADD x held[]", "a column of type held[]"),
            ("CREATE TYPE holds AS (x held[])", "a column of type held[]"),
            ("CREATE DOMAIN holds AS held[]", "a domain over the row type held[]"),
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported, match=re.escape(f"{what} is not supported")):
                con.execute(text)
        con.execute("DROP TABLE held")
