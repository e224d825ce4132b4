"""Clients that others wrote speak with the server as with PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from tests.harness.programs import eventually
from tests.harness.serving import Serving, program, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served")) as found:
        found.ask("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(5,2))")
        found.ask("INSERT INTO t VALUES (1, 'x', 2.5), (2, NULL, 3)")
        yield found


@pytest.fixture
def con(served: Serving) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with served.connect() as connection:
        yield connection


other = con

Connection = psycopg.Connection[tuple[object, ...]]


def psql(served: Serving, *arguments: str, version: int = 16) -> str:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    command = [program("psql", version), "-X", "-h", str(served.folder), "-p", str(served.port), "-U", "postgres"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", [16, 18])
def test_psql_prints_what_it_prints_of_postgresql(served: Serving, version: int) -> None:
    shown = psql(served, "-c", r"TABLE t", "-c", r"\d t", "-c", "SELECT 1/0", version=version)
    assert shown == (
        " a | b |  c   \n---+---+------\n 1 | x | 2.50\n 2 |   | 3.00\n(2 rows)\n\n"
        '                    Table "public.t"\n'
        " Column |     Type     | Collation | Nullable | Default \n"
        "--------+--------------+-----------+----------+---------\n"
        " a      | integer      |           | not null | \n"
        " b      | text         |           |          | \n"
        " c      | numeric(5,2) |           |          | \n"
        'Indexes:\n    "t_pkey" PRIMARY KEY, btree (a)\n\n'
        "ERROR:  division by zero\n"
    )


def test_parameters_get_the_types_that_the_statement_needs(con: Connection) -> None:
    found = con.execute("SELECT b, c + %s, %s FROM t WHERE a = %s", ["1", "y", "1"])
    assert found.fetchall() == [("x", Decimal("3.50"), "y")]


def test_binary_format_both_ways(con: Connection) -> None:
    cursor = con.cursor(binary=True)
    values = [7, "é", Decimal("-12.5"), [1, None, 3], b"\x00\xff"]
    found = cursor.execute("SELECT %b::int, %b::text, %b::numeric, %b::int[], %b::bytea", values).fetchall()
    assert found == [tuple(values)]


def test_a_statement_that_is_prepared_is_run_again(con: Connection) -> None:
    for number in (1, 2):
        assert con.execute("SELECT a FROM t WHERE a = %s", [number], prepare=True).fetchall() == [(number,)]


def test_what_is_between_two_syncs_is_one_transaction(con: Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), con.pipeline() as pipeline:
        con.execute("INSERT INTO t VALUES (900, 'a', 1)")
        con.execute("SELECT 1/0")
        pipeline.sync()
    with con.pipeline():
        first, second = con.execute("SELECT 1"), con.execute("SELECT count(*) FROM t WHERE a = 900")
        assert (first.fetchall(), second.fetchall()) == ([(1,)], [(0,)])


def test_the_first_of_a_pipeline_is_in_no_block(con: Connection) -> None:
    notices: list[str | None] = []
    con.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    for first in ("LOCK TABLE t", "DECLARE c CURSOR FOR SELECT 1"):
        with pytest.raises(psycopg.errors.NoActiveSqlTransaction), con.pipeline():
            con.execute(first)
            con.execute("SELECT 1")
        with con.pipeline():
            con.execute("SELECT 1")
            con.execute(first)
    for first in ("SET LOCAL work_mem = '2MB'", "SET TRANSACTION READ ONLY", "SET CONSTRAINTS ALL DEFERRED"):
        with con.pipeline():
            con.execute(first)
            con.execute("SELECT 1")
    names = ("SET LOCAL", "SET TRANSACTION", "SET CONSTRAINTS")
    assert notices == [f"{name} can only be used in transaction blocks" for name in names]
    with con.pipeline():
        con.execute("SELECT 1")
        con.execute("SET LOCAL work_mem = '2MB'")
        assert con.execute("SHOW work_mem").fetchone() == ("2MB",)
    assert len(notices) == 3
    con.execute("SET LOCAL work_mem = '2MB'; SELECT 1")
    assert len(notices) == 3


def test_behind_the_end_of_a_transaction_a_pipeline_begins_anew(con: Connection) -> None:
    for statements in (
        ("COMMIT", "VACUUM t"), ("BEGIN", "SELECT 1", "COMMIT", "VACUUM t"), ("SELECT 1", "ROLLBACK", "DISCARD ALL"),
        ("VACUUM t", "VACUUM t"), ("CREATE INDEX CONCURRENTLY behind ON t (c)", "SELECT 1"),
        ("DROP INDEX CONCURRENTLY behind", "SELECT 1"),
    ):  # fmt: skip
        with con.pipeline():
            for each in statements:
                con.execute(each, prepare=False)
    for last in ("LOCK TABLE t", "DECLARE c CURSOR FOR SELECT 1"):
        with pytest.raises(psycopg.errors.NoActiveSqlTransaction), con.pipeline():
            for each in ("BEGIN", "COMMIT", last):
                con.execute(each)
    with pytest.raises(psycopg.errors.ActiveSqlTransaction), con.pipeline():
        for each in ("SELECT 1", "VACUUM t"):
            con.execute(each)


def test_a_changed_result_is_told_though_execute_has_come_with_bind(con: Connection, other: Connection) -> None:
    con.execute("CREATE TABLE changing (a int)")
    con.execute("INSERT INTO changing VALUES (1)")
    query = "SELECT * FROM changing WHERE a < %s"
    assert con.execute(query, [9], prepare=True).fetchall() == [(1,)]
    other.execute("ALTER TABLE changing ADD COLUMN b text DEFAULT 'x'")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
        con.execute(query, [9], prepare=True)
    other.execute("ALTER TABLE changing DROP COLUMN b")
    assert con.execute(query, [9], prepare=True).fetchall() == [(1,)]


def test_an_error_in_a_block_leaves_it_aborted(con: Connection) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation) as failed, con.transaction():
        con.execute("INSERT INTO t VALUES (1, NULL, NULL)")
    assert failed.value.diag.constraint_name == "t_pkey"
    con.execute("BEGIN")
    with pytest.raises(psycopg.errors.UndefinedTable):
        con.execute("TABLE nowhere")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        con.execute("SELECT 1")
    con.execute("ROLLBACK")


def test_copy_both_ways(con: Connection) -> None:
    con.execute("CREATE TABLE copied (a int, b text)")
    with con.cursor().copy("COPY copied FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        for row in [(1, "one\ttwo\nthree"), (2, None)]:
            copy.write_row(row)
    with con.cursor().copy("COPY copied TO STDOUT") as copy:
        assert list(copy.rows()) == [("1", "one\ttwo\nthree"), ("2", None)]
    with pytest.raises(psycopg.errors.InvalidTextRepresentation), con.cursor().copy("COPY copied FROM STDIN") as copy:
        copy.write("x\ty\n")
    with pytest.raises(psycopg.errors.QueryCanceled), con.cursor().copy("COPY copied FROM STDIN") as copy:
        copy.write("3\ty\n")
        raise psycopg.errors.QueryCanceled
    assert con.execute("SELECT count(*) FROM copied").fetchall() == [(2,)]


def test_rows_before_an_error_are_copied(con: Connection) -> None:
    found = []
    copied = con.cursor().copy("COPY (SELECT 10 / (3 - g) FROM generate_series(1, 5) g) TO STDOUT")
    with pytest.raises(psycopg.errors.DivisionByZero), copied as copy:
        found.extend(copy.rows())
    assert found == [("5",), ("10",)]


def test_rows_come_in_portions(con: Connection) -> None:
    """A portal with a limit of rows is suspended, and goes on."""
    cursor = psycopg.RawCursor(con)
    assert sum(1 for _ in cursor.stream("SELECT generate_series(1, 5000)")) == 5000


def test_a_declared_cursor_is_described_as_a_portal(con: Connection) -> None:
    con.execute("BEGIN")
    with con.cursor("named") as cursor:
        cursor.itersize = 1
        assert [row[0] for row in cursor.execute("SELECT a FROM t ORDER BY a")] == [1, 2]
    con.execute("ROLLBACK")


def test_a_join_with_nothing_does_not_read_its_other_side(con: Connection) -> None:
    """asyncpg looks up types with such joins, one for each row type of the system catalogs."""
    con.execute("CREATE TABLE empty (a int)")
    assert con.execute("SELECT * FROM t JOIN empty ON empty.a = 1 / (t.a - 1)").fetchall() == []


def test_notices_and_settings_are_told(con: Connection) -> None:
    notices: list[str | None] = []
    con.add_notice_handler(lambda diag: notices.append(diag.message_primary))
    con.execute("DROP TABLE IF EXISTS nowhere")
    con.execute("SET timezone = 'Europe/Paris'")
    assert notices == ['table "nowhere" does not exist, skipping']
    assert con.info.parameter_status("TimeZone") == "Europe/Paris"
    assert con.info.parameter_status("server_version") == con.execute("SHOW server_version").fetchall()[0][0]


def test_a_cancel_request_ends_the_statement(served: Serving, con: Connection) -> None:
    running = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active' AND query ~ 'pg_sleep'"

    def cancel() -> None:
        eventually(lambda: served.ask(running, con.info.backend_pid))
        con.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="due to user request"):
        con.execute("SELECT pg_sleep(600)")
    thread.join()
    assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_sessions_are_seen_and_ended_by_others(served: Serving, con: Connection) -> None:
    with served.connect(application_name="victim") as other:
        asked = "SELECT pid, state, query FROM pg_stat_activity WHERE application_name = 'victim'"
        other.execute("SELECT 'its last query'")
        eventually(
            lambda: con.execute(asked).fetchall() == [(other.info.backend_pid, "idle", "SELECT 'its last query'")]
        )
        assert con.execute("SELECT pg_terminate_backend(%s, 10000)", [other.info.backend_pid]).fetchall() == [(True,)]
        with pytest.raises(psycopg.errors.AdminShutdown):
            other.execute("SELECT 1")
    assert con.execute(asked).fetchall() == []


def test_pgbench_runs(served: Serving, tmp_path: Path) -> None:
    command = [program("pgbench"), "-h", str(served.folder), "-p", str(served.port), "-U", "postgres"]
    environment = {"PATH": os.environ["PATH"]}
    served.ask("CREATE DATABASE bench")
    made = subprocess.run(
        [*command, "-i", "-I", "dtgp", "-q", "bench"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    for protocol in ("simple", "extended", "prepared"):
        run = [*command, "-t", "2", "-M", protocol, "-n", "bench"]
        done = subprocess.run(run, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        assert "number of failed transactions: 0" in done.stdout


def test_the_columns_of_a_primary_key_as_pgjdbc_asks(con: Connection) -> None:
    con.execute("CREATE TABLE keyed (a int, b int, c text, PRIMARY KEY (c, a))")
    query = """SELECT a.attname, (k.keys).n, k.keys::text FROM (SELECT i.indrelid, information_schema._pg_expandarray(
        i.indkey) AS keys FROM pg_index i WHERE i.indrelid = 'keyed'::regclass) k JOIN pg_attribute a
        ON a.attrelid = k.indrelid AND a.attnum = (k.keys).x ORDER BY 2"""
    assert con.execute(query).fetchall() == [("c", 1, "(3,1)"), ("a", 2, "(1,2)")]
