"""Messages of the extended protocol, sent by hand: the same answers of a real server and of `pgrepl serve`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgrepl
from pgrepl.types.plain import parse_lsn
from tests.harness.programs import eventually
from tests.harness.serving import Serving, serving
from tests.harness.wire import SYNC, Wire, bind, call, close, describe, execute, message, parse, query, standby_status
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


def connected(host: str, port: int) -> psycopg.Connection[Any]:
    return psycopg.connect(host=host, port=port, user="postgres", dbname="postgres", autocommit=True)


BOUND = [
    ("int", b"x", 0),
    ("int", b"\xff", 0),
    ("int", b"\0\0", 1),
    ("int", b"\0\0\0\0\0", 1),
    ("int", b"1", 2),
    ("bool", b"", 1),
    ("inet", b"\2\x20\0\4\1", 1),
    ("text", b"a\0", 0),
    ("text", b"a\0", 1),
    ("whole", b"-1", 0),
    ("whole", None, 0),
    ("pair", b"(1,-1)", 0),
    ("regclass", b"nowhere", 0),
    ("int", b"it's", 0),
    ("int", b"0", 0),
]


def test_a_value_that_its_type_refuses_is_told_at_bind(served: Serving, server: Server) -> None:
    def answers(con: psycopg.Connection[Any]) -> list[Any]:
        con.execute("CREATE DOMAIN whole AS int NOT NULL CHECK (value >= 0); CREATE TYPE pair AS (a int, b whole)")
        asked, told = con.pgconn, []
        for wanted in (0, 3):
            con.execute(f"SET log_parameter_max_length_on_error = {wanted}")
            for kind, value, form in BOUND:
                divides = b"SELECT 1 / $1::int" if value == b"0" else b"SELECT $1::" + kind.encode()
                found = asked.exec_params(divides, [value], param_formats=[form])
                told.append(found.error_message.decode() or found.get_value(0, 0))
        con.execute("DROP TYPE pair; DROP DOMAIN whole")
        return told

    with connected(server.host, server.port) as theirs, served.connect() as ours:
        assert answers(ours) == answers(theirs)


SHOWN = (
    "SELECT a, b AS c, a + 1, seen, seen.b, ctid FROM seen",
    "SELECT * FROM seen_view",
    "SELECT x.a, y.b FROM seen x JOIN seen y USING (a)",
    "SELECT a, z FROM (SELECT a, b AS z FROM seen) s",
    "WITH w AS (SELECT b FROM seen) SELECT b, count(*) FROM w GROUP BY b",
    "SELECT a FROM seen UNION SELECT 2",
    "SELECT a FROM seen ORDER BY b",
    "SELECT (SELECT b FROM seen LIMIT 1), g FROM generate_series(1, 2) g",
    "INSERT INTO seen VALUES (3, 'x') RETURNING b, a, a + 1",
    "UPDATE seen SET b = 'z' FROM seen o WHERE seen.a = o.a RETURNING o.b, seen.a",
    "FETCH 1 FROM shown",
)


def test_columns_say_whose_they_are(served: Serving, server: Server) -> None:
    """The table and the number of the column, which JDBC's metadata and browsers read."""

    def answers(con: psycopg.Connection[Any]) -> list[Any]:
        con.execute(
            "CREATE TABLE seen (gone int, a int, b text); ALTER TABLE seen DROP gone;"
            "CREATE VIEW seen_view AS SELECT b, a FROM seen; INSERT INTO seen VALUES (1, 'one')"
        )
        con.execute("BEGIN; DECLARE shown CURSOR FOR SELECT b, 1 FROM seen")
        asked, told = con.pgconn, []
        for text in map(str.encode, SHOWN):
            asked.prepare(b"", text)
            told += [asked.describe_prepared(b""), asked.exec_prepared(b"", []), asked.exec_(text)]
        told.append(asked.describe_portal(b"shown"))
        names = dict(con.execute("SELECT oid, relname FROM pg_class WHERE relname LIKE 'seen%'").fetchall())
        con.execute("ROLLBACK; DROP TABLE seen CASCADE")
        columns = [[(each.ftable(n), each.ftablecol(n)) for n in range(each.nfields)] for each in told]
        return [[(names.get(oid, oid), number) for oid, number in each] for each in columns]

    with connected(server.host, server.port) as theirs, served.connect() as ours:
        assert answers(ours) == answers(theirs)


def binary(text: str) -> list[bytes]:
    return [parse("", text), bind("", "", results=(1,)), describe(b"P", ""), execute("", 0), SYNC]


WIRE = {
    "each Execute counts its rows": [
        [query("DROP TABLE IF EXISTS portions; CREATE TABLE portions (a int, b text)")],
        [
            parse("", "INSERT INTO portions SELECT generate_series(1, 3) RETURNING a"),
            bind("p", ""),
            *[execute("p", 2)] * 3,
            SYNC,
        ],
        [parse("", "SELECT a FROM portions"), bind("p", ""), *[execute("p", 2)] * 3, SYNC],
    ],
    "a cursor is a portal": [
        [query("BEGIN; DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 7) g")],
        [query("DECLARE b BINARY CURSOR FOR SELECT 1 AS one")],
        [query("DECLARE e CURSOR FOR SELECT 1 / g FROM generate_series(1, 0, -1) g")],
        [describe(b"P", "c"), *[execute("c", 2)] * 2, SYNC],
        [query("FETCH 1 FROM c; MOVE 1 FROM c")],
        [*[execute("c", 2)] * 2, execute("c", 0), SYNC],
        [describe(b"P", "b"), SYNC],
        [query("DECLARE t BINARY CURSOR FOR SELECT 1 AS n, 'x' AS t, NULL::date UNION SELECT 2, 'y', '2024-02-29'")],
        [query("FETCH 1 FROM t")],
        [parse("", "FETCH ALL FROM t"), bind("", ""), describe(b"P", ""), execute("", 0), SYNC],
        [query("MOVE 0 FROM t; FETCH 0 FROM t")],
        [execute("b", 0), SYNC],
        [close(b"P", "c"), SYNC],
        [query("SELECT name FROM pg_cursors ORDER BY name")],
        [execute("e", 1), execute("e", 1), SYNC],
        [execute("b", 1), SYNC],
        [query("ROLLBACK")],
        [parse("", "FETCH 1 FROM nobody"), describe(b"S", ""), SYNC],
        [bind("", ""), execute("", 0), SYNC],
        [execute("nobody", 0), SYNC],
    ],
    "a portal of Bind is a cursor": [
        [parse("s", "SELECT 10 / g AS of FROM generate_series(4, -1, -1) g"), query("BEGIN")],
        [bind("p", "s", results=(1,)), bind("q", "s"), bind("", "s"), describe(b"P", "p"), SYNC],
        [query("DECLARE c CURSOR FOR SELECT 1")],
        [parse("", "SELECT name, statement, is_scrollable FROM pg_cursors ORDER BY 1"), bind("", ""), SYNC],
        [execute("", 0), SYNC],
        [query("FETCH 2 FROM p")],
        [execute("p", 1), SYNC],
        [query("MOVE 1 FROM q")],
        [parse("", "FETCH 1 FROM q"), bind("f", ""), describe(b"P", "f"), execute("f", 0), SYNC],
        [query("CLOSE p; SAVEPOINT a")],
        [bind("p", "s"), execute("p", 1), SYNC],
        [query("FETCH ALL FROM p")],
        [execute("p", 1), SYNC],
        [execute("nobody", 1), SYNC],
        [query("ROLLBACK TO a; FETCH 1 FROM q; FETCH ALL FROM q")],
        [query("ROLLBACK TO a")],
        [execute("q", 1), SYNC],
        [query("ROLLBACK TO a; MOVE 1 FROM p")],
        [query("ROLLBACK")],
        [query("BEGIN")],
        [bind("p", "s"), parse("", "FETCH 1 FROM p"), bind("p", ""), SYNC],
        [query("ROLLBACK; BEGIN")],
        [bind("q", "s"), parse("", "FETCH 1 FROM p"), bind("p", ""), execute("p", 0), SYNC],
        [query("ROLLBACK; BEGIN")],
        [bind("p", "s"), parse("", "CLOSE ALL"), bind("all", ""), execute("all", 0), SYNC],
        [query("SELECT name FROM pg_cursors")],
        [execute("all", 0), SYNC],
        [query("ROLLBACK; BEGIN")],
        [bind("p", "s"), parse("", "CLOSE x"), bind("x", ""), execute("x", 0), SYNC],
        [query("ROLLBACK; BEGIN")],
        [bind("p", "s"), execute("p", 1), SYNC],
        [query("FETCH 0 FROM p")],
        [query("ROLLBACK; BEGIN")],
        [bind("p", "s"), SYNC],
        [query("FETCH ABSOLUTE 2 FROM p; MOVE RELATIVE 1 FROM p; FETCH ABSOLUTE -9 FROM p")],
        [query("ROLLBACK")],
        [bind("p", "s"), bind("q", "s"), execute("q", 1), parse("", "FETCH 2 FROM q"), bind("", ""), execute("", 0)]
        + [execute("q", 1), SYNC],
        [execute("q", 1), SYNC],
    ],
    "a portal runs when it is executed": [
        [query("CREATE TABLE late (a int); INSERT INTO late VALUES (0), (1)")],
        [query("BEGIN; SET LOCAL statement_timeout = 200")],
        [parse("z", "SELECT pg_sleep(2), a FROM late ORDER BY 2"), bind("p", "z"), describe(b"P", "p"), SYNC],
        [execute("p", 0), SYNC],
        [query("ROLLBACK; DECLARE d CURSOR WITH HOLD FOR SELECT 1 / a FROM late ORDER BY 1")],
        [query("BEGIN; DECLARE d CURSOR FOR SELECT pg_sleep(2), a FROM late ORDER BY 2")],
        [query("SET LOCAL statement_timeout = 200; FETCH 1 FROM d")],
        [query("ROLLBACK; BEGIN")],
        [parse("e", "SELECT 1 / a FROM late ORDER BY 1"), bind("p", "e"), describe(b"P", "p"), SYNC],
        [query("SELECT 1")],
        [execute("p", 1), SYNC],
        [query("ROLLBACK; BEGIN")],
        [parse("c", "SELECT count(*) FROM late"), bind("p", "c"), SYNC],
        [query("INSERT INTO late VALUES (2)")],
        [bind("q", "c"), SYNC],
        [bind("e", "e"), SYNC],
        [query("DELETE FROM late")],
        [bind("r", "c"), execute("p", 0), execute("q", 1), execute("r", 0), SYNC],
        [execute("e", 0), SYNC],
        [query("ROLLBACK; BEGIN")],
        [parse("n", "SELECT relname FROM pg_class WHERE relname = 'later'"), bind("n", "n"), SYNC],
        [query("CREATE TABLE later (a int)")],
        [execute("n", 0), bind("m", "n"), execute("m", 0), SYNC],
        [query("ROLLBACK")],
        [parse("i", "INSERT INTO late VALUES (3)"), bind("p", "c"), bind("i", "i"), execute("i", 0), execute("p", 0)]
        + [SYNC],
        [query("DROP TABLE late")],
    ],
    "FETCH runs what Bind has bound": [
        [query("BEGIN; CREATE TABLE bound (a int)")],
        [parse("i", "INSERT INTO bound VALUES (1)"), bind("i", "i"), parse("", "FETCH 1 FROM i"), describe(b"S", "")]
        + [SYNC],
        [query("SAVEPOINT a; FETCH 1 FROM i")],
        [query("ROLLBACK TO a")],
        [execute("i", 0), SYNC],
        [query("ROLLBACK TO a")],
        [parse("r", "INSERT INTO bound VALUES (1), (2), (3) RETURNING a"), bind("r", "r"), SYNC],
        [query("FETCH 2 FROM r; SELECT count(*) FROM bound")],
        [*[execute("r", 1)] * 3, SYNC],
        [query("FETCH 1 FROM r")],
        [parse("", "SHOW work_mem"), bind("w", ""), SYNC],
        [query("FETCH 1 FROM w; FETCH 1 FROM w")],
        [parse("t", "SELECT a FROM bound"), bind("t", "t"), SYNC],
        [query("INSERT INTO bound VALUES (4)")],
        [execute("t", 2), SYNC],
        [query("DELETE FROM bound; FETCH ALL FROM t")],
        [
            bind("p", "r"),
            query("DO $$DECLARE c refcursor := 'p'; n int; BEGIN FETCH c INTO n; RAISE NOTICE '%', n; END$$"),
        ],
        [execute("p", 1), SYNC],
        [parse("", "COPY (DELETE FROM bound RETURNING a) TO STDOUT"), bind("", "", results=(1,)), execute("", 0), SYNC],
        [query("ROLLBACK")],
    ],
    "records have a binary form": [
        binary(
            "SELECT ROW(1, 'a', NULL, 2.5, ARRAY[1, 2], ROW(true, 'x'::varchar, now() IS NULL)), ROW(), 1 / 3::float8"
        ),
        binary("VALUES (ROW(1, 2)), (NULL)"),
        binary("SELECT ARRAY[ROW(1, 2), ROW(3, 4)], (SELECT array_agg(ROW(g, g::text)) FROM generate_series(1, 2) g)"),
        binary("SELECT x, jsonb_each('{\"a\": 1}') FROM (VALUES (1, 'a'), (2, 'b')) x ORDER BY 1 DESC"),
        [query("BEGIN; CREATE TABLE kept (a int, b text)")],
        binary("INSERT INTO kept VALUES (1, 'x') RETURNING ROW(a, b)"),
        [parse("", "SELECT ROW(a), a FROM kept"), bind("p", ""), bind("q", "", results=(1, 0)), SYNC],
        [query("FETCH 1 FROM p; FETCH 0 FROM q"), execute("q", 0), SYNC],
        [query("ROLLBACK; BEGIN; DECLARE c BINARY CURSOR FOR SELECT ROW(1)")],
        [query("FETCH 1 FROM c; ROLLBACK")],
        [query("SET extra_float_digits = 0; SET datestyle = 'sql'")],
        binary(
            "SELECT 1 / 3::float8, '2020-02-03 04:05:06'::timestamptz, '1 mon -2 days'::interval, ARRAY[0.1::float4]"
        ),
    ],
    "COPY TO STDOUT": [
        [query("COPY (SELECT 1, 'x' UNION ALL SELECT 2, NULL) TO STDOUT (FORMAT binary)")],
        [query("COPY (SELECT 1 WHERE false) TO STDOUT (FORMAT binary)")],
        [query("COPY (SELECT FROM generate_series(1, 2)) TO STDOUT (FORMAT binary)")],
        [query("COPY (SELECT 1 / (g - 1) FROM generate_series(1, 2) g) TO STDOUT (FORMAT binary)")],
        [query("COPY (SELECT 1 / (2 - g) FROM generate_series(1, 2) g) TO STDOUT (FORMAT binary)")],
        [query("COPY (SELECT 1 AS a WHERE false) TO STDOUT (FORMAT csv, HEADER)")],
        [parse("", "COPY (SELECT ROW(1)) TO STDOUT (FORMAT binary)"), bind("", "", results=(1,)), execute("", 0), SYNC],
    ],
    "constants are computed first": [
        [query("BEGIN; CREATE TABLE none (a int); SAVEPOINT a")],
        *[
            each
            for text in (
                "SELECT 1 / 0, a FROM none",
                "SELECT a FROM none WHERE 1 / 0 > a",
                "SELECT CASE WHEN a = 1 THEN 2 ELSE 1 / 0 END FROM none",
                "SELECT (SELECT 1 / 0), EXISTS (SELECT 1 / 0)",
                "SELECT EXISTS (SELECT 1 / 0), COALESCE(1, 1 / 0), CASE WHEN true THEN 1 ELSE 1 / 0 END",
                "SELECT 1 UNION ALL SELECT 1 / 0",
                "VALUES (1), (1 / 0)",
                "SELECT 'x'::text::int",
                "SELECT 1 / (g - 2) FROM generate_series(1, 3) g",
                "INSERT INTO none VALUES (1 / 0)",
                "INSERT INTO none VALUES (1) RETURNING 1 / 0",
                "EXPLAIN SELECT 1 / 0",
                "COPY (SELECT 1 / 0 FROM none) TO STDOUT",
                "DECLARE c CURSOR FOR SELECT 1 / 0 FROM none",
            )
            for each in ([query(text)], [query("ROLLBACK TO a")], binary(text), [query("ROLLBACK TO a")])
        ],
        [parse("", "SELECT 1 / $1::int, a FROM none"), bind("p", "", b"0"), execute("", 0), SYNC],
        [query("ROLLBACK")],
    ],
    "functions are called by OID": [  # int4pl, int4div, max, generate_series, textcat, nextval, pg_reload_conf
        [call(177, b"1", b"2")],
        [call(177, b"\0\0\0\1", b"2", formats=(1, 0), result=1)],
        [call(177, b"1", None)],
        [call(177, b"1")],
        [call(177, b"1", b"2", formats=(0, 0, 0))],
        [call(177, b"1", b"x")],
        [call(177, b"1", b"\0\0", formats=(0, 1))],
        [call(177, b"1", b"\0\0\0\0\0", formats=(0, 1))],
        [call(177, b"1", b"2", formats=(2,))],
        [call(177, b"1", b"2", result=2)],
        [call(999999), SYNC],
        [call(2116, b"1")],
        [call(1067, b"1", b"2")],
        [call(1258, b"ab", b"c", formats=(1,), result=1)],
        [call(1258, b"ab", b"c\0")],
        [query("CREATE SEQUENCE counts")],
        [call(1574, b"counts", result=1)],
        [call(1574, b"nowhere")],
        [query("SELECT last_value FROM counts; DROP SEQUENCE counts; SET ROLE pg_monitor")],
        [call(2621)],
        [query("RESET ROLE; BEGIN")],
        [call(177, b"1", b"2")],
        [call(154, b"1", b"0")],
        [call(177, b"1", b"2")],
        [query("ROLLBACK")],
    ],
    "configurations and dictionaries of text search have names": [
        [query("SELECT 'english'::regconfig, 'pg_catalog.simple'::regconfig, '3748'::regconfig, 9::regconfig")],
        [query("SELECT 'simple'::regdictionary, 'english_stem'::regdictionary, get_current_ts_config()")],
        [query("SELECT cfgname FROM pg_ts_config WHERE oid = 'german'::regconfig")],
        [query("SELECT 'nothing'::regconfig")],
        [query("SELECT 'public.english'::regconfig")],
        [query("SELECT 'a.b.c.d'::regdictionary")],
    ],
    "a statement that a routine runs has a place of its own": [
        [query("do $$begin execute 'select nowhere'; end$$")],
        [query("do $$begin perform nowhere from pg_class; end$$")],
        [query("do $$begin raise notice '%', 1 + nowhere; end$$")],
        [query("create function lost() returns int language sql as 'select 1; select nowhere'")],
    ],
    "messages end where they say": [[message(b"S", b"x")], [message(b"Q", b"select 1\0select 2\0")], [SYNC]],
    "a parameter's type that does not exist": [
        [parse("", "SELECT $1", 99999), SYNC],
        [parse("", "SELECT $1 + 1", 99999), SYNC],
        [parse("", "SELECT $1 || 'x'", 99999), SYNC],
        [parse("", "SELECT $1::int", 99999), SYNC],
        [parse("", "INSERT INTO pg_class (relname) VALUES ($1)", 99999), SYNC],
        [parse("", "SELECT 1", 99999), SYNC],
        [bind("", "", b"x"), SYNC],
        [bind("", "", None), SYNC],
    ],
    "a portal keeps its tables in use": [
        [query("CREATE TABLE used (a int); INSERT INTO used VALUES (1), (2); CREATE VIEW seen_used AS TABLE used")],
        [query("BEGIN")],
        [parse("s", "SELECT * FROM used"), bind("p", "s"), execute("p", 1), SYNC],
        [query("TRUNCATE used")],
        [query("ROLLBACK; BEGIN")],
        [bind("p", "s"), execute("p", 0), SYNC],
        [query("ALTER TABLE used ADD b int")],
        [query("ROLLBACK; BEGIN")],
        [parse("v", "SELECT count(*) FROM seen_used WHERE a > $1"), bind("p", "v", b"0"), SYNC],
        [parse("", "TRUNCATE used"), bind("", ""), execute("", 0), SYNC],
        [query("ROLLBACK; BEGIN")],
        [bind("p", "s"), execute("p", 1), close(b"P", "p"), SYNC],
        [query("TRUNCATE used")],
        [query("ROLLBACK; BEGIN")],
        [bind("", "s"), execute("", 1), SYNC],
        [query("TRUNCATE used")],
        [query("ROLLBACK; BEGIN")],
        [parse("u", "INSERT INTO used VALUES (3) RETURNING a"), bind("p", "u"), execute("p", 0), SYNC],
        [query("TRUNCATE used; COMMIT")],
        [query("SELECT * FROM used; DROP VIEW seen_used; DROP TABLE used")],
    ],
    "formats are looked at when rows are sent": [
        [parse("", "SELECT 1"), bind("", "", results=(2,)), describe(b"P", ""), SYNC],
        [bind("", "", results=(2,)), execute("", 0), SYNC],
        [bind("", "", results=(0, 0)), SYNC],
    ],
}


@pytest.mark.parametrize("script", WIRE.values(), ids=WIRE)
def test_messages_are_answered_as_by_a_server(served: Serving, server: Server, script: list[list[bytes]]) -> None:
    answers = []
    for host, port in ((server.host, server.port), (str(served.folder), served.port)):
        with Wire(host, port) as wire:
            answers.append([wire.ask(*messages) for messages in script])
    assert answers[1] == answers[0]


COMMANDS = [
    "SHOW datestyle",
    "CREATE_REPLICATION_SLOT a LOGICAL pgoutput (SNAPSHOT)",
    'CREATE_REPLICATION_SLOT "" LOGICAL pgoutput',
    "CREATE_REPLICATION_SLOT SLOT LOGICAL pgoutput",
    f"CREATE_REPLICATION_SLOT {'a' * 70} LOGICAL nowhere (SNAPSHOT 'nothing')",
    "CREATE_REPLICATION_SLOT a LOGICAL pgoutput (TWO_PHASE yes)",
    "CREATE_REPLICATION_SLOT a LOGICAL pgoutput (TWO_PHASE 2)",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "CREATE_REPLICATION_SLOT a TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use')",
    "ROLLBACK",
    "TIMELINE_HISTORY 0",
    "TIMELINE_HISTORY",
    "BASE_BACKUP x",
    "START_REPLICATION SLOT nowhere 0/0",
    "START_REPLICATION 0/0 TIMELINE 0",
    "DO $$BEGIN PERFORM pg_create_logical_replication_slot('said', 'pgoutput'); END$$",
    "START_REPLICATION SLOT said 0/0 TIMELINE 1",
    "START_REPLICATION SLOT said LOGICAL 0/0 (proto_version 2)",
    "START_REPLICATION SLOT said LOGICAL 0/0 (proto_version '2', publication_names 'p', two_phase)",
    "START_REPLICATION SLOT said LOGICAL 0/0 (proto_version '1', publication_names 'p', streaming)",
    "START_REPLICATION SLOT said LOGICAL 0/0 (proto_version '1', publication_names 'p', streaming 'x')",
    "START_REPLICATION SLOT said LOGICAL 0/0 (proto_version '1', publication_names 'p', binary 'yes')",
    "START_REPLICATION SLOT said LOGICAL 0/0 (proto_version '2', publication_names 'p', streaming 'PARALLEL')",
    "DROP_REPLICATION_SLOT said",
]


def test_replication_commands_are_read_as_by_a_server(served: Serving, server: Server) -> None:
    answers = []
    for host, port in ((server.host, server.port), (str(served.folder), served.port)):
        with Wire(host, port, database="postgres", replication="database") as wire:
            answers.append([(each, wire.ask(query(each))) for each in COMMANDS])
            answers[-1].append(("extended", wire.ask(parse("", "SELECT 1"), SYNC)))
    assert answers[1] == answers[0]


def test_a_slot_is_confirmed_up_to_where_a_subscriber_begins(served: Serving, server: Server) -> None:
    """As after pg_replication_origin_advance() on the subscriber: nothing is sent before the slot is confirmed."""

    def begin(host: str, port: int, con: psycopg.Connection[Any]) -> None:
        con.execute("CREATE PUBLICATION nothing")
        con.execute("SELECT pg_create_logical_replication_slot('behind', 'pgoutput')")
        con.execute("CREATE TABLE since (a int); INSERT INTO since VALUES (1)")
        here = con.execute("SELECT pg_current_wal_flush_lsn()").fetchall()
        confirmed = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'behind'"
        with Wire(host, port, database="postgres", replication="database") as wire:
            options = "(proto_version '1', publication_names 'nothing')"
            wire.ask(query(f"START_REPLICATION SLOT behind LOGICAL {here[0][0]} {options}"))
            wire.say(standby_status(parse_lsn(here[0][0])))
            eventually(lambda: con.execute(confirmed).fetchall() == here, 20)

    for host, port in ((server.host, server.port), (str(served.folder), served.port)):
        with connected(host, port) as con:
            begin(host, port, con)


def test_a_driver_is_told_that_a_plan_has_changed(served: Serving, server: Server) -> None:
    """asyncpg and JDBC look at the routine of the error, and prepare the statement anew."""
    for host, port in ((server.host, server.port), (str(served.folder), served.port)):
        with connected(host, port) as con:
            con.execute("CREATE TABLE planned (a int); PREPARE known AS SELECT * FROM planned")
            con.execute("ALTER TABLE planned ADD b int")
            with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
                con.execute("EXECUTE known")
            assert caught.value.diag.source_function == "RevalidateCachedQuery"


def test_a_portal_sees_what_there_was_when_it_was_bound(served: Serving, server: Server) -> None:
    """Whatever others commit, and remove, before it is executed."""
    told = []
    for host, port in ((server.host, server.port), (str(served.folder), served.port)):
        with Wire(host, port) as wire, connected(host, port) as other:
            other.execute("CREATE TABLE moment AS SELECT g AS a FROM generate_series(1, 5) g")
            wire.ask(query("BEGIN; DECLARE d CURSOR FOR SELECT a FROM moment ORDER BY 1 DESC"))
            sorted_, counted = (
                parse("", "SELECT a FROM moment ORDER BY a DESC"),
                parse("c", "SELECT count(*) FROM moment"),
            )
            wire.ask(sorted_, bind("p", ""), counted, bind("q", "c"), SYNC)
            other.execute("DELETE FROM moment WHERE a > 1")
            other.execute("INSERT INTO moment VALUES (9)")
            other.execute("VACUUM moment")
            told.append(
                [wire.ask(execute("p", 2), execute("q", 0), execute("p", 0), bind("", "c"), execute("", 0), SYNC)]
            )
            told[-1].append(wire.ask(query("INSERT INTO moment VALUES (8); FETCH ALL FROM d")))
            told[-1].append(wire.ask(query("COMMIT; DROP TABLE moment")))
    assert told[1] == told[0]


@pytest.mark.parametrize("change", ["DROP TABLE bound", "ALTER TABLE bound ADD b int"])
def test_a_statement_that_another_session_has_broken_is_refused_at_bind(
    served: Serving, server: Server, change: str
) -> None:
    """Before anything of what has come with it is described or executed."""
    told = []
    for host, port in ((server.host, server.port), (str(served.folder), served.port)):
        with Wire(host, port) as wire, connected(host, port) as other:
            other.execute("CREATE TABLE bound (a int); CREATE TABLE kept (a int)")
            wire.ask(parse("s", "SELECT * FROM bound"), parse("i", "INSERT INTO kept VALUES (1)"), SYNC)
            for _ in range(2):
                wire.ask(bind("", "s"), execute("", 0), SYNC)
            other.execute(change)
            answers = wire.ask(bind("p2", "i"), bind("p1", "s"), execute("p2", 0), SYNC)
            answers += wire.ask(bind("", "s"), describe(b"P", ""), execute("", 0), SYNC)
            told.append((answers, other.execute("SELECT * FROM kept").fetchall()))
            other.execute("DROP TABLE IF EXISTS bound, kept")
    assert told[1] == told[0]


@pytest.mark.parametrize("rows", [b"", b"1\n2\n"])
@pytest.mark.parametrize("other", [query("SELECT 1"), parse("", "SELECT 1"), b"z\0\0\0\4", b"X\0\0\0\4"])
def test_another_message_in_the_middle_of_copy_ends_the_session(
    served: Serving, server: Server, rows: bytes, other: bytes
) -> None:
    def told(host: str, port: int) -> list[str]:
        with Wire(host, port) as wire:
            wire.ask(query("CREATE TEMP TABLE copied (a int)"))
            wire.say(query("COPY copied FROM STDIN"), *([message(b"d", rows)] if rows else []), SYNC, other)
            return wire.rest()

    assert told(str(served.folder), served.port) == told(server.host, server.port)


KNOWN_BY_FUNCTION = (
    "INSERT INTO known VALUES (1, 1, 'a')", "INSERT INTO known VALUES (2, -1, 'a')", "DELETE FROM known",
    "INSERT INTO known VALUES (2, NULL, 'a')", "INSERT INTO refers VALUES (9)", "INSERT INTO parted VALUES (1)",
    "SELECT (-1)::positive", "SELECT * FROM nowhere", "SELECT missing FROM known", "SELECT missing.k FROM known",
    "SELECT unknown()", "SELECT 1 + 'a'::text", "SELEC 1", "SELECT 'x'::int", "SELECT 'x'::numeric", "SELECT 'x'::uuid",
    "SELECT 'x'::bool", "SELECT 'x'::mood", "SELECT k FROM known, refers WHERE k = 1", "CREATE TABLE known (a int)",
    "INSERT INTO known VALUES ('a'::text)", "UPDATE known SET t = 'abc'", "EXECUTE missing", "DROP TABLE known",
    "CREATE SCHEMA public", "SELECT $1", "SELECT pg_sleep(9)",
    "PREPARE again AS SELECT 1; PREPARE again AS SELECT 1", "DO $$ BEGIN RAISE EXCEPTION 'x'; END $$",
    "SET ROLE known_role; SELECT * FROM known",
)  # fmt: skip
DEFINED = """
CREATE TABLE known (k int PRIMARY KEY, n int NOT NULL CHECK (n > 0), t varchar(2));
INSERT INTO known VALUES (1, 1, 'a');
CREATE TABLE refers (k int REFERENCES known); INSERT INTO refers VALUES (1); CREATE ROLE known_role;
CREATE TABLE parted (a int) PARTITION BY RANGE (a); CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TYPE mood AS ENUM ('ok')
"""


def test_errors_are_known_by_postgresqls_function_and_a_place_here(served: Serving, server: Server) -> None:
    """R is PostgreSQL's for what programs look for; F and L are a place in pgrepl, of notices, too."""
    heard: list[list[str]] = []

    def fields(diag: psycopg.errors.Diagnostic) -> list[str]:
        given = (diag.sqlstate, diag.message_primary, diag.source_function, diag.source_file, diag.source_line)
        return [value or "" for value in given]

    def answers(con: psycopg.Connection[Any]) -> list[list[str]]:
        con.add_notice_handler(lambda diag: heard.append(fields(diag)))
        con.execute(DEFINED)
        found = []
        for text in KNOWN_BY_FUNCTION:
            con.execute(f"SET statement_timeout = {50 if 'sleep' in text else 0}")
            with pytest.raises(psycopg.Error) as error:
                con.execute("BEGIN; " + text)
            con.execute("ROLLBACK")
            found.append(fields(error.value.diag))
        con.execute("DROP TABLE refers, known, parted; DROP DOMAIN positive; DROP TYPE mood; DROP ROLE known_role")
        con.execute("DROP TABLE IF EXISTS known")
        return found

    with connected(server.host, server.port) as theirs, served.connect() as ours:
        wanted, found = answers(theirs), answers(ours)
    assert [each[:3] for each in found] == [each[:3] for each in wanted]
    for *_, file, line in (*found, heard[-1]):
        lines = (Path(pgrepl.__file__).parent / file).read_text().splitlines()
        assert 0 < int(line) <= len(lines)
    assert heard[-1][2:4] == ["_missing", "statements/table/relations.py"]


def test_an_error_is_told_before_the_client_has_sent_all(served: Serving, server: Server) -> None:
    """As to `executemany`, which sends the rows behind a wrong one, too, until it hears of it."""

    def told(host: str, port: int) -> list[str]:
        behind = parse("", "SELECT 1")
        with Wire(host, port) as wire:
            wire.say(parse("", "SELECT nowhere"), behind, behind[:-3])
            first = wire.answers("E")
            wire.say(behind[-3:], SYNC)
            return first + wire.answers()

    assert told(str(served.folder), served.port) == told(server.host, server.port)


def test_answers_amid_a_pipeline_wait_for_its_end(served: Serving, server: Server) -> None:
    def told(host: str, port: int) -> list[Any]:
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77"
        with Wire(host, port) as wire, connected(host, port) as other:
            wire.say(parse("", "SELECT pg_advisory_lock(77)"), bind("", ""), execute("", 0))
            eventually(lambda: other.execute(held).fetchall() == [(1,)])
            early = wire.has_answer()
            wire.say(SYNC)
            return [early, *wire.answers()]

    found = told(str(served.folder), served.port)
    assert found == told(server.host, server.port)
    assert found[0] is False


def test_a_session_that_another_ends_answers_nothing_more(served: Serving, server: Server) -> None:
    def told(host: str, port: int) -> list[list[str]]:
        found = []
        for _ in range(10):
            with Wire(host, port) as wire, connected(host, port) as other:
                wire.ask(query("BEGIN"))
                number = other.execute(
                    "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'"
                ).fetchone()
                other.execute("SELECT pg_terminate_backend(%s)", number)
                with suppress(BrokenPipeError):  # it has ended already
                    wire.say(query("ROLLBACK"))
                found.append(wire.rest())
        return found

    assert told(str(served.folder), served.port) == told(server.host, server.port)


ENDING = [
    [query("SELECT pg_terminate_backend(pg_backend_pid()); SELECT 1")],
    [query("BEGIN; DO $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); END$$"), query("SELECT 1")],
    [parse("", "SELECT pg_terminate_backend(pg_backend_pid())"), bind("", ""), execute("", 0), SYNC],
]


@pytest.mark.parametrize("messages", ENDING)
def test_a_session_that_ends_itself_ends_at_once(served: Serving, server: Server, messages: list[bytes]) -> None:
    """PostgreSQL's has sent the row by then, without its command tag, so that no driver shows it."""

    def told(host: str, port: int) -> list[str]:
        with Wire(host, port) as wire:
            wire.say(*messages)
            return [each for each in wire.rest() if each[0] not in "TD"]

    assert told(str(served.folder), served.port) == told(server.host, server.port)
