"""psql 16 and 18 print of the lake what they print of a PostgreSQL server with the same objects."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.harness.serving import program, serving
from tests.postgres.server import new_server

FOLDER = Path(__file__).parent / "psql"
COMMANDS = (FOLDER / "commands.txt").read_text("utf-8").splitlines()


def psql(version: int, host: str, port: int, *arguments: str) -> str:
    command = [program("psql", version), "-X", "-h", host, "-p", str(port), "-U", "postgres", *arguments]
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    return done.stdout


def shown(version: int, host: str, port: int, script: Path) -> list[str]:
    """What is printed of each command, in order, without the numbers of objects and PostgreSQL 18's new constraints."""
    psql(version, host, port, "-c", "CREATE DATABASE play")
    made = psql(version, host, port, "-d", "play", "-q", "-f", str(FOLDER / "schema.sql"))
    assert "ERROR" not in made
    printed = psql(version, host, port, "-d", "play", "-q", "-f", str(script))
    printed = re.sub(r"Not-null constraints:\n(?:    .*\n)+", "", printed)
    return re.sub(r"'\d+'::oid", "'N'::oid", printed).split(">>> ")


def compare(version: int, commands: list[str], folder: Path) -> None:
    script = folder / "commands.sql"
    script.write_text("".join(f"\\echo >>> {n}\n{command}\n" for n, command in enumerate(commands)))
    server = new_server(version, "max_prepared_transactions = 10\n")
    try:
        theirs = shown(version, server.host, server.port, script)
    finally:
        server.stop()
    with serving(folder / "lake") as lake:
        ours = shown(version, str(lake.folder), lake.port, script)
    assert len(theirs) == len(commands) + 1
    for command, there, here in zip(["", *commands], theirs, ours, strict=True):
        assert (command, here) == (command, there)


def test_older_psqls_ask_for_columns_that_17_has_no_more(tmp_path: Path) -> None:
    """PostgreSQL 17 and 18 say so, too."""
    with serving(tmp_path) as lake:
        for command, table, column in (("-l", "d", "daticulocale"), ("-c\\dO", "c", "colliculocale")):
            said = psql(16, str(lake.folder), lake.port, command)
            assert f"ERROR:  column {table}.{column} does not exist\n" in said
            assert f'HINT:  Perhaps you meant to reference the column "{table}.{column.replace("icu", "")}".\n' in said


@pytest.mark.slow
def test_psql_18_prints_the_same(tmp_path: Path) -> None:
    compare(18, COMMANDS[::4], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", [16, 18])
def test_psql_prints_the_same_of_everything(tmp_path: Path, version: int) -> None:
    compare(version, COMMANDS, tmp_path)
