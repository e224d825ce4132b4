"""pg_dump 18 dumps a database of the lake, and its output makes the same database in PostgreSQL."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.harness.serving import program, serving
from tests.postgres.server import new_server
from tests.server.test_psql_lists import FOLDER, psql


def dumped(host: str, port: int, database: str, *options: str) -> str:
    """The dump, without what differs between PostgreSQL 17 and 18: versions, names of NOT NULL constraints."""
    command = [program("pg_dump", 18), "-h", host, "-p", str(port), "-U", "postgres", "-d", database, *options]
    environment = {"PATH": os.environ["PATH"]}
    text = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    text = re.sub(r"^(\\(un)?restrict .*|-- Dumped from .*)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"CONSTRAINT \w+ NOT NULL", "NOT NULL", text)
    return text.replace("streaming = parallel);", "streaming = off);")


@pytest.mark.slow
def test_a_dump_makes_the_same_database_in_postgresql(tmp_path: Path) -> None:
    server = new_server(18, "max_prepared_transactions = 10\n")
    try:
        with serving(tmp_path / "lake") as lake:
            for host, port in ((server.host, server.port), (str(lake.folder), lake.port)):
                psql(18, host, port, "-c", "CREATE DATABASE play")
                psql(18, host, port, "-q", "-d", "play", "-f", str(FOLDER / "schema.sql"))
            assert dumped(str(lake.folder), lake.port, "play", "-s") == dumped(server.host, server.port, "play", "-s")
            (tmp_path / "dump.sql").write_text(dumped(str(lake.folder), lake.port, "play"))
        psql(18, server.host, server.port, "-c", "CREATE DATABASE restored")
        said = psql(18, server.host, server.port, "-q", "-d", "restored", "-f", str(tmp_path / "dump.sql"))
        assert "ERROR" not in said
        counted = psql(18, server.host, server.port, "-A", "-t", "-d", "restored", "-c", "SELECT count(*) FROM t")
        assert counted == "20\n"
    finally:
        server.stop()
