"""The tutorials that need a server of PostgreSQL, played with one. The others are played by test_documents.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs_runner import play, steps
from tests.harness.forked import put_program
from tests.harness.programs import ROOT
from tests.postgres.server import Server, free_port, new_server

FOLDER = ROOT / "docs" / "tutorials"
WORD, PORT = "server", "5439"
NEED_ONE = [path for path in sorted(FOLDER.glob("*.md")) if steps(path.read_text("utf-8"), WORD)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = new_server(16, "max_logical_replication_workers = 8\nwal_retrieve_retry_interval = 200\n")
    yield found
    found.stop()


@pytest.mark.parametrize("document", NEED_ONE, ids=lambda path: path.stem)
def test_a_tutorial_prints_what_it_shows(
    document: Path,
    server: Server,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs = put_program(tmp_path_factory.mktemp("bin"))
    (programs / "psql").symlink_to(server.binaries / "psql")
    monkeypatch.setenv("SERVER", f"host=127.0.0.1 port={server.port} dbname=postgres user=postgres")
    text = document.read_text("utf-8").replace(PORT, str(free_port()))
    try:
        for step, printed in play(text, tmp_path, programs, WORD):
            shown = [line.rstrip() for line in step.printed.splitlines()]
            assert [line.rstrip() for line in printed.splitlines()] == shown, (
                f"{document.name}:{step.line}: {step.command}"
            )
    finally:
        pid = tmp_path / "server.pid"
        if pid.exists():
            os.kill(int(pid.read_text()), 2)


def test_each_way_in_has_a_tutorial() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {
        "from_files", "from_postgresql", "lake_to_lake", "readers", "to_postgresql",
    }  # fmt: skip
    assert [path.stem for path in NEED_ONE] == ["from_postgresql", "to_postgresql"]
