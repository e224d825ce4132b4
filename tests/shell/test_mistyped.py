"""A mistyped command says so, and neither it nor a command that only reads makes a catalog."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl

NO_CATALOG = 'FATAL:  could not open catalog "catalog.db": No such file or directory\n'


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["aply"], "apply"),
        (["aply", "--follow"], "apply"),
        (["staus", "-d", "shop"], "status"),
        (["verfy", "--quick"], "verify"),
        (["discribe", "tables"], "describe"),
        (["help"], "--help"),
        (["version"], "--version"),
        (["comprae", "s1"], "compare"),
    ],
)
def test_a_mistyped_command_says_which_is_meant(typed: list[str], meant: str, tmp_path: Path) -> None:
    done = pgrepl(*typed, cwd=tmp_path)
    assert done.stderr.endswith(f'pgrepl: hint: Did you mean "pgrepl {meant}"?\n')
    assert (done.stdout, done.returncode, os.listdir(tmp_path)) == ("", 2, [])


def test_a_database_of_nearly_that_name_is_opened(tmp_path: Path) -> None:
    assert pgrepl("-c", "CREATE DATABASE aply", cwd=tmp_path).returncode == 0
    done = pgrepl("aply", "-tAc", "SELECT current_database()", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("aply\n", "", 0)


UNKNOWN = 'pgrepl: hint: "shop" is no command, and was taken for a database. "pgrepl --help" lists the commands.\n'


def test_a_word_that_is_no_command_was_taken_for_a_database(tmp_path: Path) -> None:
    done = pgrepl("shop", cwd=tmp_path, script="SELECT 1")
    said = 'pgrepl: error: connection to catalog "catalog.db" failed: FATAL:  database "shop" does not exist\n'
    assert done.stderr == said + 'DETAIL:  There is no catalog "catalog.db".\n' + UNKNOWN
    assert (done.returncode, os.listdir(tmp_path)) == (2, [])
    done = pgrepl("-d", "shop", cwd=tmp_path, script="SELECT 1")
    assert done.stderr == said + 'DETAIL:  There is no catalog "catalog.db".\n'


def test_where_a_catalog_is_made_is_said_unless_its_name_was_given(tmp_path: Path) -> None:
    def run(*words: str, name: str = "") -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        done = pgrepl(*words, cwd=folder, PGREPL_CATALOG=name)
        assert (folder / (name or "catalog.db")).exists() and done.returncode == 0
        again = pgrepl(*words, cwd=folder, PGREPL_CATALOG=name)
        assert (again.stdout, again.stderr) == (done.stdout, "")
        return done.stderr.replace(str(folder), "HERE")

    notice = 'pgrepl: NOTICE:  created catalog "HERE/catalog.db"\n'
    assert run("-c", "SELECT 1") == notice
    assert run("-Xc", "SELECT 1", "template1") == notice
    assert run("-q", "-c", "SELECT 1") == ""
    assert run("--catalog", "catalog.db", "-c", "SELECT 1") == ""
    assert run("-c", "SELECT 1", name="own.db") == ""


@pytest.mark.parametrize(
    "command",
    [
        ["-l"],
        ["apply"],
        ["describe", "tables"],
        ["dump"],
        ["standby", "create", "there"],
        ["status"],
        ["sync"],
        ["verify"],
    ],
    ids=lambda words: words[0],
)
def test_what_needs_a_catalog_makes_none(command: list[str], tmp_path: Path) -> None:
    done = pgrepl(*command, cwd=tmp_path)
    assert NO_CATALOG in done.stderr and "HINT:  Name the catalog with --catalog" in done.stderr
    assert (done.stdout, done.returncode, os.listdir(tmp_path)) == ("", 2, [])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("apply --nosuch", "No such option"),
        ("apply --dry-run --follow", "--dry-run and --follow exclude each other"),
        ("apply --upto 12", 'invalid input syntax for type pg_lsn: "12"'),
        ("apply --max-changes 0", "0 is not in the range x>=1"),
        ("backup", "Missing argument 'FOLDER'"),
        ("changes", "Missing argument 'PUBLICATION...'"),
        ("changes p --format xml", "'xml' is not one of"),
        ("changes p --from-lsn now", 'invalid input syntax for type pg_lsn: "now"'),
        ("check", "Missing argument 'FILE...'"),
        ("describe table", "which table?"),
        ("diff a", "Missing argument 'B'"),
        ("dump --all --globals", "--globals and --all go with none of"),
        ("dump --no-role-passwords", "--no-role-passwords is for --globals and --all"),
        ("iceberg", "Usage: pgrepl iceberg"),
        ("iceberg export --interval 3", "--interval is for --follow"),
        ("import-schema", "Missing argument 'CONNINFO'"),
        ("plan", "Missing argument 'FILE'"),
        ("restore", "Missing argument 'FOLDER'"),
        ("run --temp --catalog c.db x.sql", "--temp and --catalog exclude each other"),
        ("serve --nosuch", "No such option"),
        ("serve -c port", "-c port requires a value"),
        ("standby", "Usage: pgrepl standby"),
        ("standby creat there", "No such command 'creat'"),
        ("status --interval 3", "--interval is for --watch"),
        ("sync --conf x", 'invalid Spark setting "x"'),
        ("verify too many", "Got unexpected extra arguments"),
    ],
)
def test_a_command_line_that_is_not_valid_exits_with_2(typed: str, said: str, tmp_path: Path) -> None:
    done = pgrepl(*typed.split(), cwd=tmp_path)
    assert said in done.stderr
    assert (done.stdout, done.returncode, os.listdir(tmp_path)) == ("", 2, [])


@pytest.mark.parametrize(("typed", "code"), [("--nosuch", 1), ("-P nosuch=1", 1), ("-d nosuch -c x", 2), ("-c x", 1)])
def test_the_shell_exits_as_psql_does(typed: str, code: int, tmp_path: Path) -> None:
    """psql: 1 for a wrong option, 2 without a connection."""
    assert pgrepl(*typed.split(), cwd=tmp_path).returncode == code
