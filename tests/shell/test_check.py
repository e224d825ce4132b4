"""`pgrepl check`: every error of a script with its place, and nothing is changed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pgrepl.cli import run
from pgrepl.statements.run import run as play
from tests.harness.database import visit
from tests.harness.forked import pgrepl


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def errors(script: str, capsys: pytest.CaptureFixture[str], *options: str, name: str = "a.sql") -> list[str]:
    """The lines that the check of a script prints."""
    Path(name).write_text(script)
    code = run(["check", name, *options])
    found = capsys.readouterr()
    assert found.err == ""
    assert code == int(": ERROR:  " in found.out or ": FATAL:  " in found.out)
    return found.out.splitlines()


def state(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_as_a_person_runs_it(tmp_path: Path) -> None:
    (tmp_path / "good.sql").write_text("CREATE TABLE t (a int);\nINSERT INTO t VALUES (1);\n")
    (tmp_path / "bad.sql").write_text("SELECT a\n  FROM nosuch;\n\nselec;\n")
    done = pgrepl("check", "good.sql", cwd=tmp_path, PGREPL_CATALOG="")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    done = pgrepl("check", "bad.sql", cwd=tmp_path, PGREPL_CATALOG="")
    shown = 'bad.sql:2:8: ERROR:  relation "nosuch" does not exist\n'
    shown += 'bad.sql:4:1: ERROR:  syntax error at or near "selec"\n'
    assert (done.stdout, done.stderr, done.returncode) == (shown, "", 1)
    done = pgrepl("check", "nofile.sql", cwd=tmp_path, PGREPL_CATALOG="")
    said = "pgrepl: error: nofile.sql: No such file or directory\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", said, 2)
    assert pgrepl("check", "-d", "shop", "--catalog", "catalog.db", "good.sql", cwd=tmp_path).returncode == 2
    assert sorted(os.listdir(tmp_path)) == ["bad.sql", "good.sql"]


def test_columns_are_those_of_the_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "\\set x 'a_long_value'\n  SELECT :'x', nosuch1;\n/* c */ SELECT ((1)),\n\n  -- c\n '; x', nosuch2, \"a\tb\";\n"
    )
    assert errors(script, capsys) == [
        'a.sql:2:16: ERROR:  column "nosuch1" does not exist',
        'a.sql:6:9: ERROR:  column "nosuch2" does not exist',
    ]


def test_all_errors_are_told_in_a_block_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "\\set ON_ERROR_STOP on\nBEGIN;\nSELECT x1;\nCREATE TABLE t (a int);\nSELECT x2;\nCOMMIT;\nSELECT b FROM t;\n"
    )
    assert [line.split()[0] for line in errors(script, capsys)] == ["a.sql:3:8:", "a.sql:5:8:", "a.sql:7:8:"]


def test_definitions_are_seen_by_what_comes_later(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("first.sql").write_text("CREATE TABLE t (a int PRIMARY KEY, b text);\nCREATE DATABASE other;\n")
    script = "\\i first.sql\nINSERT INTO t VALUES (1, 'x') RETURNING a;\n\\c other\nSELECT * FROM t;\n"
    assert errors(script, capsys) == ['a.sql:4:15: ERROR:  relation "t" does not exist']


def test_errors_in_included_files_name_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sub").mkdir()
    Path("sub/b.sql").write_text("SELECT 1;\n\\ir c.sql\n")
    Path("sub/c.sql").write_text("\n SELEC;\n")
    assert errors("\\i sub/b.sql\n\\i sub/nofile.sql\n", capsys) == [
        'sub/c.sql:2:2: ERROR:  syntax error at or near "SELEC"',
        "a.sql:2:1: ERROR:  sub/nofile.sql: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("INSERT INTO t VALUES ('x')", '1:23: ERROR:  invalid input syntax for type integer: "x"'),
        ("UPDATE t SET c = 1", '1:14: ERROR:  column "c" of relation "t" does not exist'),
        ("DELETE FROM t WHERE c", '1:21: ERROR:  column "c" does not exist'),
        ("MERGE INTO t USING t s ON s.a = t.a WHEN MATCHED THEN UPDATE SET c = 1",
         '1:66: ERROR:  column "c" of relation "t" does not exist'),
        ("WITH d AS (DELETE FROM t RETURNING c) SELECT 1", '1:36: ERROR:  column "c" does not exist'),
        ("EXPLAIN ANALYZE DELETE FROM nosuch", '1:29: ERROR:  relation "nosuch" does not exist'),
        ("EXPLAIN (nosuch) SELECT 1", '1:10: ERROR:  unrecognized EXPLAIN option "nosuch"'),
        ("COPY t (c) FROM STDIN", '1:1: ERROR:  column "c" of relation "t" does not exist'),
        ("COPY t TO '/nosuch/file' (FORMAT nosuch)", '1:27: ERROR:  COPY format "nosuch" not recognized'),
        ("CREATE TABLE u AS SELECT c FROM t", '1:26: ERROR:  column "c" does not exist'),
        ("SELECT c INTO u FROM t", '1:8: ERROR:  column "c" does not exist'),
        ("CREATE DATABASE postgres", '1:1: ERROR:  database "postgres" already exists'),
        ("VACUUM nosuch", '1:1: ERROR:  relation "nosuch" does not exist'),
        ("VACUUM (nosuch) t", '1:9: ERROR:  unrecognized VACUUM option "nosuch"'),
        ("CREATE PUBLICATION p FOR TABLE t WHERE (a > random())", "1:45: ERROR:  invalid publication WHERE expression"),
        ("CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p", "1:1: ERROR:  invalid connection string syntax: "
         'missing "=" after "x" in connection info string'),
    ],
)  # fmt: skip
def test_each_kind_of_statement_is_analysed(
    here: Path, capsys: pytest.CaptureFixture[str], statement: str, error: str
) -> None:
    with visit(here / "catalog.db") as session:
        list(play(session, "CREATE TABLE t (a int PRIMARY KEY)"))
    assert errors(statement + ";\n", capsys)[0] == f"a.sql:{error}"


WITH_EFFECTS = r"""
INSERT INTO t SELECT g, 'new' FROM generate_series(10, 5000) g;
UPDATE t SET b = 'changed';
ALTER TABLE t ALTER b TYPE int USING 1;
CREATE UNIQUE INDEX ON t (b);
TRUNCATE t;
VACUUM FULL t;
DROP TABLE t;
CREATE DATABASE new;
CREATE ROLE ann LOGIN PASSWORD 'secret';
ALTER SYSTEM SET work_mem = '8MB';
CREATE PUBLICATION p FOR ALL TABLES;
CREATE SUBSCRIPTION s CONNECTION 'dbname=postgres' PUBLICATION p;
CREATE SUBSCRIPTION far CONNECTION 'host=192.0.2.1 dbname=x connect_timeout=2' PUBLICATION p;
ALTER SUBSCRIPTION far REFRESH PUBLICATION;
DROP SUBSCRIPTION far;
SELECT pg_create_logical_replication_slot('slot', 'pgoutput');
SELECT nextval('q') AS n \gset
CREATE TABLE u AS SELECT * FROM generate_series(1, 1000000000000) g;
COPY (SELECT 1) TO PROGRAM 'touch program';
SELECT 1 \g file
SELECT 1 \g |touch pipe
\o output
\w written
\! touch escaped
\echo `touch backtick`
\copy (SELECT 1) TO 'copied'
\copy t FROM PROGRAM 'touch copy_program'
\apply
"""


def test_nothing_is_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with visit(here / "catalog.db") as session:
        list(play(session, "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE SEQUENCE q"))
        list(play(session, "INSERT INTO t SELECT g, 'old' FROM generate_series(1000, 3000) g"))
    Path("a.sql").write_text(WITH_EFFECTS)
    before = state(here)
    found = errors(WITH_EFFECTS, capsys)
    assert [line for line in found if "NOTICE" not in line and "WARNING" not in line] == [
        'a.sql:28:1: ERROR:  relation "t" does not exist'
    ]
    assert state(here) == before


def test_what_is_not_carried_out_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "CREATE TABLE t (a int);\nSELECT count(*) AS n FROM t \\gset\nSELECT nosuch WHERE :n = 1;\n\\! ls\n"
    assert errors(script, capsys) == [
        "a.sql:3:1: NOTICE:  the statement is not checked: it has a value in it that is not known here",
        "a.sql:4:1: NOTICE:  \\! is not carried out",
    ]


def test_queries_of_the_catalog_steer_a_script(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "CREATE TABLE t (a int);\n"
        "SELECT count(*) = 1 AS one FROM pg_tables WHERE tablename = 't' \\gset\n"
        "\\if :one\nSELECT x1;\n\\else\nSELECT x2;\n\\endif\n"
        "SELECT format('CREATE PUBLICATION p FOR TABLE %I', tablename) FROM pg_tables"
        " WHERE schemaname = 'public' \\gexec\n"
        "ALTER PUBLICATION p DROP TABLE t;\nSELECT pg_catalog.set_config('search_path', '', false);\nTABLE t;\n"
    )
    assert errors(script, capsys) == [
        'a.sql:4:8: ERROR:  column "x1" does not exist',
        'a.sql:11:7: ERROR:  relation "t" does not exist',
    ]


def test_rows_of_copy_are_no_statements(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "CREATE TABLE t (a int);\nCOPY t FROM STDIN;\n1\nselec;\n\\.\n\\copy t FROM STDIN\n2\n\\.\nselec;\n"
    assert errors(script, capsys) == ['a.sql:9:1: ERROR:  syntax error at or near "selec"']


def test_a_role_may_do_what_it_may(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with visit(here / "catalog.db") as session:
        list(play(session, "CREATE ROLE ann LOGIN; CREATE TABLE t (a int)"))
    assert errors("SELECT * FROM t;", capsys, "-U", "ann") == ["a.sql:1:1: ERROR:  permission denied for table t"]


def test_formats(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.sql").write_text("CREATE TABLE t (a int);\nCREATE PUBLICATION p FOR TABLE t WHERE (a > random());\n")
    Path("b.sql").write_text("SELECT '<&>' FROM t;")
    answers = {}
    for form in ("github", "json", "junit"):
        assert run(["check", "a.sql", "b.sql", "--empty", "--format", form]) == 1
        answers[form] = capsys.readouterr().out
    assert answers["github"] == (
        "::error file=a.sql,line=2,col=45,title=ERROR 0A000::invalid publication WHERE expression%0A"
        "DETAIL:  User-defined or built-in mutable functions are not allowed.\n"
    )
    (found,) = json.loads(answers["json"])
    assert (found["file"], found["line"], found["column"], found["sqlstate"]) == ("a.sql", 2, 45, "0A000")
    suites = ElementTree.fromstring(answers["junit"])
    assert [(s.get("name"), s.get("tests"), s.get("failures")) for s in suites] == [
        ("a.sql", "1", "1"),
        ("b.sql", "1", "0"),
    ]


def test_a_variable_may_be_given(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert errors("SELECT :x;", capsys, "-v", "x=nosuch") == ['a.sql:1:8: ERROR:  column "nosuch" does not exist']
