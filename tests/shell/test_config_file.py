"""pgrepl.toml: what it says stands for what is typed every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pgrepl.shell.options import BadConfigFile, apply
from tests.harness.programs import environment

WHOLE = """
dbname = "shop"
username = "ann"
data-path = "/lake"

[spark]
master = "local[1]"
conf = { "spark.executor.memory" = "4g", "spark.sql.x" = "two words" }

[settings]
"pgrepl.spark_rows" = 5000000
search_path = "a, b"
"""


def test_what_it_says_stands_for_variables(tmp_path: Path) -> None:
    (tmp_path / "pgrepl.toml").write_text(WHOLE)
    environment = {"PGUSER": "bob", "PGREPL_CONF": "spark.ui.enabled=true", "PGOPTIONS": "-c search_path=c"}
    apply(["sync", f"--catalog={tmp_path / 'catalog.db'}"], environment)
    assert environment == {
        "PGUSER": "bob",
        "PGDATABASE": "shop",
        "PGREPL_DATA_PATH": "/lake",
        "PGREPL_MASTER": "local[1]",
        "PGREPL_CONF": "spark.executor.memory=4g 'spark.sql.x=two words' spark.ui.enabled=true",
        "PGOPTIONS": r"-c pgrepl.spark_rows=5000000 -c search_path=a,\ b -c search_path=c",
    }


@pytest.mark.parametrize("option", ["--catalog", "--cat", "--ca"])
def test_the_catalog_may_be_named_by_a_prefix_of_the_option(tmp_path: Path, option: str) -> None:
    (tmp_path / "pgrepl.toml").write_text('dbname = "shop"')
    for words in ([option, f"{tmp_path / 'catalog.db'}"], [f"{option}={tmp_path / 'catalog.db'}"]):
        environment: dict[str, str] = {}
        apply(words, environment)
        assert environment == {"PGDATABASE": "shop"}


def test_a_remote_that_is_set_leaves_no_place_for_a_master(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(WHOLE)
    environment = {"PGREPL_CONFIG": str(tmp_path / "other.toml"), "PGREPL_REMOTE": "sc://host"}
    apply([], environment)
    assert "PGREPL_MASTER" not in environment


def test_there_is_none_for_a_catalog_on_a_server_or_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environment: dict[str, str] = {}
    apply([], environment)
    (tmp_path / "pgrepl.toml").write_text(WHOLE)
    apply(["--catalog", "postgresql://host/db"], environment)
    assert environment == {}
    apply([], environment)
    assert environment["PGDATABASE"] == "shop"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("dbnam = 'x'", 'it has no parameter "dbnam"'),
        ("[spark]\nmaster = 'a'\nremote = 'b'", "a master and a remote cannot both be given"),
        ("spark = 5", '"spark" is no table'),
        ("dbname = [1]", 'the value of "dbname" is neither text nor number'),
        ("dbname = ", "Invalid value"),
        ("\xff", "codec can't decode"),
    ],
)
def test_what_is_wrong_with_it_is_told(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "pgrepl.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadConfigFile) as caught:
        apply([], {"PGREPL_CONFIG": str(path)})
    assert str(path) in str(caught.value) and problem in str(caught.value)
    with pytest.raises(BadConfigFile, match="No such file"):
        apply([], {"PGREPL_CONFIG": str(tmp_path / "none.toml")})


def test_a_command_and_the_shell_follow_it(tmp_path: Path) -> None:
    def pgrepl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pgrepl", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True)

    assert pgrepl("-qc", "CREATE DATABASE shop").returncode == 0
    (tmp_path / "pgrepl.toml").write_text("dbname = 'shop'\n[settings]\n'pgrepl.spark_rows' = 5\n")
    shown = pgrepl("-Atc", "SELECT current_database(), current_setting('pgrepl.spark_rows')")
    assert shown.stdout == "shop|5\n"
    assert pgrepl("describe", "tables", "--json").stdout == "[]\n"
    (tmp_path / "pgrepl.toml").write_text("dbnam = 'shop'\n")
    for arguments in (("-c", "SELECT 1"), ("apply",)):
        refused = pgrepl(*arguments)
        text = 'pgrepl: error: invalid configuration file "pgrepl.toml": it has no parameter "dbnam"\n'
        assert (refused.returncode, refused.stderr) == (1, text)


@pytest.mark.slow
def test_workers_of_a_command_heed_its_settings(tmp_path: Path) -> None:
    def pgrepl(*arguments: str, **variables: str) -> str:
        command = [sys.executable, "-m", "pgrepl", *arguments]
        settings = environment(tmp_path) | variables
        done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    many = "INSERT INTO t SELECT generate_series(1, 6000)"
    pgrepl("-qc", "CREATE DATABASE pub", "-c", "CREATE DATABASE sub")
    pgrepl(
        "-qd", "pub", "-c", "CREATE TABLE t (id int PRIMARY KEY)", "-c", many, "-c", "CREATE PUBLICATION p FOR TABLE t"
    )
    pgrepl(
        "-qd", "sub", "-c", "CREATE TABLE t (id int PRIMARY KEY)", "-c", r"\set AUTOAPPLY off",
        "-c", "CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p",
    )  # fmt: skip
    shown = pgrepl("apply", "--dry-run", PGOPTIONS="-c pgrepl.spark_rows=100")
    assert "spark (6000 rows, more than 100)" in shown
    (tmp_path / "pgrepl.toml").write_text("[settings]\n'pgrepl.engine' = 'local'\n")
    assert 'columns (pgrepl.engine is "local")' in pgrepl("apply", "--dry-run")
    pgrepl("sync", PGOPTIONS="-c default_transaction_read_only=off")
    assert pgrepl("-Atd", "sub", "-c", "SELECT count(*) FROM t") == "6000\n"
