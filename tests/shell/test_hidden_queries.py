r"""What -E shows for a describe command is a query that runs, and finds what the command shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.harness.forked import pgrepl

ROOT = Path(__file__).resolve().parents[2]

SCHEMA = """\
CREATE TABLE t1 (a int PRIMARY KEY, b text DEFAULT 'x');
CREATE SCHEMA s;
CREATE TABLE s.t2 (a int REFERENCES t1);
CREATE VIEW v AS SELECT 1 AS one;
CREATE ROLE bob;
GRANT bob TO postgres;
GRANT SELECT ON t1 TO bob;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT UPDATE ON TABLES TO bob;
ALTER ROLE bob SET work_mem = '1MB';
CREATE PUBLICATION p FOR TABLE t1 (a) WHERE (a > 1), s.t2;
CREATE SUBSCRIPTION sub CONNECTION 'dbname=postgres' PUBLICATION p WITH (connect = false, slot_name = NONE);
"""

COMMANDS = {
    r"\d t1": "a", r"\d s.*": "t2", r"\dt": "t1", r"\dt s.*": "t2", r"\di": "t1_pkey", r"\dv": "v",
    r"\dRp": "p", r"\dRp+ p": "t1", r"\dRs": "sub", r"\dRs+ su?": "dbname=postgres", r"\l": "template1",
    r"\dn": "public", r"\du": "bob", r"\drg": "bob", r"\drds": "work_mem=1MB", r"\dp": "t1",
    r"\ddp": "bob=w/postgres", r"\ddp pub*": "bob=w/postgres",
    r"\dconfig work_m*": "work_mem",
    r"\dC jsonb": "jsonb",
    r"\da sum": "sum",
    r"\dA": "heap",
    r"\do @@": "jsonpath",
}  # fmt: skip


def played(folder: Path, text: str, *options: str) -> str:
    done = pgrepl("-X", *options, cwd=folder, script=text)
    assert "ERROR" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    played(folder, SCHEMA, "-q")
    return folder


@pytest.mark.parametrize("command", dose(list(COMMANDS), 3))
def test_the_query_finds_what_the_command_shows(command: str, catalog: Path) -> None:
    shown = played(catalog, command + "\n", "-E")
    asked = shown.split("/******** QUERY *********/\n")[1].split("\n/************************/")[0]
    assert COMMANDS[command] in played(catalog, asked + "\n", "-At", "-v", "ON_ERROR_STOP=1")


@pytest.mark.parametrize("command", [r"\dRp", r"\dF", r"\dt"])
def test_a_query_that_is_only_shown_ends_as_one_that_failed(command: str, catalog: Path) -> None:
    done = pgrepl("-X", "-v", "ECHO_HIDDEN=noexec", "-c", command, cwd=catalog)
    assert done.stdout.startswith("/******** QUERY *********/\nSELECT")
    assert done.stdout.endswith("\n/************************/\n\n")
    assert (done.stderr, done.returncode) == ("", 1)
