"""The server's log of sessions, as PostgreSQL 18 writes it for the same messages; without passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.harness.programs import eventually
from tests.harness.serving import Serving, serving

SETTINGS = (
    "log_connections = on", "log_disconnections = on", "log_statement = 'all'", "log_replication_commands = on",
    "log_min_duration_statement = 0",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("log")) as found:
        for setting in SETTINGS:
            found.ask(f"ALTER SYSTEM SET {setting}")
        yield found


class Logged:
    """A connection, and its lines in the log."""

    def __init__(self, server: Serving, **options: str) -> None:
        self._server = server
        self.connection = server.connect(**options)

    def lines(self) -> list[str]:
        own = rf"(?m)^\S+ \S+ UTC \[{self.connection.info.backend_pid}\] (.*\n)"
        self.connection.close()
        eventually(lambda: "disconnection:" in "".join(re.findall(own, self._server.log)))
        text = "".join(re.findall(own, self._server.log))
        text = re.sub(
            r"duration: [\d.]+ ms", "duration: N ms", re.sub(r"time: \d+:\d\d:\d\d\.\d{3} ", "time: T ", text)
        )
        return re.sub(r"\([^()]*/pg_hba.conf:\d+\)", "(RULE)", text).splitlines()

    def statements(self, *queries: str) -> list[str]:
        """What is logged of queries, between connection and disconnection."""
        for query in queries:
            try:
                self.connection.execute(query.encode())
            except psycopg.Error:
                continue
        return [line for line in self.lines() if "connection" not in line]


def test_a_session(server: Serving) -> None:
    logged = Logged(server, application_name="app")
    logged.connection.execute("SELECT 1")
    logged.connection.execute("SELECT %s::int, %s::text", (1, None))
    detail = "DETAIL:  Parameters: $1 = '1', $2 = NULL"
    assert logged.lines() == [
        "LOG:  connection received: host=[local]",
        'LOG:  connection authenticated: user="postgres" method=trust (RULE)',
        "LOG:  connection authorized: user=postgres database=postgres application_name=app",
        "LOG:  statement: SELECT 1",
        "LOG:  duration: N ms",
        "LOG:  duration: N ms  parse <unnamed>: SELECT $1::int, $2::text",
        "LOG:  duration: N ms  bind <unnamed>: SELECT $1::int, $2::text",
        detail,
        "LOG:  execute <unnamed>: SELECT $1::int, $2::text",
        detail,
        "LOG:  duration: N ms",
        "LOG:  disconnection: session time: T user=postgres database=postgres host=[local]",
    ]


def test_over_tcp(server: Serving) -> None:
    lines = Logged(server, host="127.0.0.1").lines()
    assert re.fullmatch(r"LOG:  connection received: host=127\.0\.0\.1 port=\d+", lines[0])
    assert re.fullmatch(r".* user=postgres database=postgres host=127\.0\.0\.1 port=\d+", lines[-1])


def test_errors_and_notices(server: Serving) -> None:
    block = "DO $$BEGIN RAISE WARNING 'w'; RAISE NOTICE 'n'; RAISE LOG 'l'; END$$"
    found = Logged(server).statements("SELEC", "SELECT 1/0", block, "SET log_min_messages = fatal", "SELECT 2/0")
    assert found == [
        'ERROR:  syntax error at or near "SELEC" at character 1',
        "STATEMENT:  SELEC",
        "LOG:  statement: SELECT 1/0",
        "ERROR:  division by zero",
        "STATEMENT:  SELECT 1/0",
        f"LOG:  statement: {block}",
        "WARNING:  w",
        "CONTEXT:  PL/pgSQL function inline_code_block line 1 at RAISE",
        "LOG:  l",
        "CONTEXT:  PL/pgSQL function inline_code_block line 1 at RAISE",
        f"STATEMENT:  {block}",
        "LOG:  duration: N ms",
        "LOG:  statement: SET log_min_messages = fatal",
    ]


def test_kinds_of_statements(server: Serving) -> None:
    quiet = "SET log_min_duration_statement = -1"
    definitions = (
        "CREATE TABLE lt (a int)", "COMMENT ON TABLE lt IS 'x'", "GRANT SELECT ON lt TO public",
        "SELECT * INTO lt2 FROM lt", "ALTER SYSTEM RESET work_mem",
    )  # fmt: skip
    changes = (
        "INSERT INTO lt VALUES (1)", "PREPARE p AS DELETE FROM lt", "EXECUTE p", "EXPLAIN ANALYZE UPDATE lt SET a = 1",
        "COPY lt FROM '/dev/null'", "TRUNCATE lt",
    )  # fmt: skip
    others = ("SELECT 1", "EXPLAIN INSERT INTO lt VALUES (1)", "COPY lt TO '/dev/null'", "BEGIN", "COMMIT", "VACUUM lt")
    mixed = [each for three in zip(definitions, changes, others, strict=False) for each in three] + [changes[-1]]

    def logged(setting: str) -> list[str]:
        texts = Logged(server).statements(quiet, f"SET log_statement = {setting}", *mixed, "DROP TABLE lt, lt2")
        said = [line.removeprefix("LOG:  statement: ") for line in texts if line.startswith("LOG:  statement: ")]
        return [text for text in said if not text.startswith(("SET log", "DROP"))]

    assert logged("ddl") == list(definitions)
    assert logged("mod") == [each for each in mixed if each not in others]
    assert logged("none") == []


def test_durations(server: Serving) -> None:
    found = Logged(server).statements(
        "SET log_statement = none", "SET log_min_duration_statement = '1h'", "SELECT 1", "SET log_duration = on",
        "SELECT 2", "SET log_min_duration_statement = 0", "SELECT 3",
    )  # fmt: skip
    assert found == [
        "LOG:  statement: SET log_statement = none",
        "LOG:  duration: N ms",
        "LOG:  duration: N ms",  # of the statement that turns it on
        "LOG:  duration: N ms",
        "LOG:  duration: N ms  statement: SET log_min_duration_statement = 0",
        "LOG:  duration: N ms  statement: SELECT 3",
    ]


def test_long_parameters(server: Serving) -> None:
    logged = Logged(server)
    logged.connection.execute("SET log_parameter_max_length = 3")
    logged.connection.execute("SELECT %s::text", ("abcdef",))
    assert logged.lines().count("DETAIL:  Parameters: $1 = 'abc...'") == 2


def test_replication_commands(server: Serving) -> None:
    logged = Logged(server, replication="database")
    for command in (b"IDENTIFY_SYSTEM", b"CREATE_REPLICATION_SLOT ls LOGICAL pgoutput", b"DROP_REPLICATION_SLOT ls"):
        logged.connection.pgconn.exec_(command)
    lines = logged.lines()
    assert lines[2] == "LOG:  replication connection authorized: user=postgres"
    assert [line for line in lines[3:-1] if line.startswith("LOG")] == [
        "LOG:  received replication command: IDENTIFY_SYSTEM",
        "LOG:  received replication command: CREATE_REPLICATION_SLOT ls LOGICAL pgoutput",
        'LOG:  released logical replication slot "ls"',
        "LOG:  received replication command: DROP_REPLICATION_SLOT ls",
        'LOG:  acquired logical replication slot "ls"',
    ]


def test_passwords_are_not_logged(server: Serving) -> None:
    before = len(server.log)
    lines = Logged(server).statements(
        "CREATE ROLE r PASSWORD 'geheim'", "ALTER ROLE nobody PASSWORD 'geheim'", "SELEC PASSWORD 'geheim'",
        "DROP ROLE r",
        "CREATE SUBSCRIPTION s CONNECTION 'host=x password=geheim' PUBLICATION p WITH (connect = nonsense)",
    )  # fmt: skip
    assert "geheim" not in server.log[before:]
    hidden = "<not shown: it may hold a password>"
    assert lines[:2] == [f"LOG:  statement: {hidden}", "LOG:  duration: N ms"]
    assert lines.count(f"STATEMENT:  {hidden}") == 3


def test_they_are_for_superusers(server: Serving) -> None:
    server.ask("CREATE ROLE plain LOGIN")
    with server.connect(user="plain") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SET log_statement = none")


def test_a_log_that_cannot_be_written_ends_no_session(tmp_path: Path) -> None:
    with serving(tmp_path / "lake", "-c", "log_statement=all") as served, served.connect() as connection:
        connection.execute("SELECT 1")
        path = tmp_path / "lake" / f"{served.port}.log"
        assert "statement: SELECT 1\n" in path.read_text()
        path.rename(path.with_suffix(".old"))
        path.mkdir()
        assert connection.execute("SELECT 2").fetchone() == (2,)
        path.rmdir()
        connection.execute("SELECT 3")
        assert "statement: SELECT 3\n" in path.read_text()
