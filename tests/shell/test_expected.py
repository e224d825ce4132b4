"""`pgrepl run`: scripts whose output is compared with what is expected."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.harness.forked import pgrepl


def test_as_a_person_runs_it(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE t (a int);\nINSERT INTO t VALUES (1) RETURNING *;\nSELECT nosuch;\n")
    (tmp_path / "b.sql").write_text("SELECT 1 AS b;\n")
    done = pgrepl("run", "--temp", "a.sql", "b.sql", cwd=tmp_path)
    missing = "not ok - {0}.sql\n{0}.out is missing: --update writes it\n"
    assert (done.stdout, done.returncode) == (missing.format("a") + missing.format("b"), 1)
    done = pgrepl("run", "--temp", "--update", "a.sql", "b.sql", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("ok - a.sql\nok - b.sql\n", "", 0)
    assert (tmp_path / "a.out").read_text() == (
        "CREATE TABLE t (a int);\nINSERT INTO t VALUES (1) RETURNING *;\n a \n---\n 1\n(1 row)\n\nSELECT nosuch;\n"
        'ERROR:  column "nosuch" does not exist\nLINE 1: SELECT nosuch;\n               ^\n'
    )
    (tmp_path / "b.sql").write_text("SELECT 2 AS b;\n")
    done = pgrepl("run", "--temp", "--junit", "report.xml", "a.sql", "b.sql", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == (
        "ok - a.sql\nnot ok - b.sql\n--- b.out\n+++ b.sql as it is now\n@@ -1,6 +1,6 @@\n"
        "-SELECT 1 AS b;\n+SELECT 2 AS b;\n"
        "  b \n ---\n- 1\n+ 2\n (1 row)\n \n"
    )
    (suite,) = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "0"]
    assert [len(case) for case in suite] == [0, 1]
    assert not (tmp_path / "catalog.db").exists()


def test_scripts_share_a_catalog_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE DATABASE shop;\n")
    (tmp_path / "b.sql").write_text("\\c shop\nSELECT current_database(), :'x' AS x;\n")
    arguments = ("-v", "x=y", "a.sql", "b.sql")
    assert pgrepl("run", "--update", *arguments, cwd=tmp_path).returncode == 0
    assert " shop             | y\n" in (tmp_path / "b.out").read_text()


def test_what_cannot_be_run_is_2(tmp_path: Path) -> None:
    done = pgrepl("run", "nofile.sql", cwd=tmp_path)
    assert done.stdout == "not ok - nofile.sql\ncould not be run: nofile.sql: No such file or directory\n"
    assert done.returncode == 2
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    done = pgrepl("run", "-d", "nosuch", "a.sql", cwd=tmp_path)
    assert 'database "nosuch" does not exist' in done.stdout and done.returncode == 2
