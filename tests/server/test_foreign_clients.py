"""Clients in other languages see of the lake what they see of a real server: node-postgres, pgjdbc."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.serving import serving
from tests.postgres.server import new_server

pytestmark = pytest.mark.slow
PROGRAMS = Path(__file__).parent / "foreign"
_PATIENCE = 300


def did(*command: str, cwd: Path) -> str | None:
    """What a command prints; None: it is not there, or what it fetches is not to be had."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    return done.stdout if not done.returncode else None


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    folder = tmp_path_factory.mktemp("node")
    if did("npm", "install", "--no-audit", "--no-fund", "pg@8", "pg-cursor@2", cwd=folder) is None:
        pytest.skip("npm cannot install node-postgres")
    shutil.copy(PROGRAMS / "client.js", folder)
    yield ["node", str(folder / "client.js")]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    folder = tmp_path_factory.mktemp("java")
    installed = Path("/usr/share/java/postgresql.jar")
    if not installed.exists():
        did("apt-get", "download", "libpostgresql-jdbc-java", cwd=folder)
        for package in folder.glob("*.deb"):
            did("dpkg", "-x", str(package), str(folder), cwd=folder)
    found = [each for each in (installed, *folder.rglob("postgresql.jar")) if each.exists()]
    if not found or shutil.which("java") is None:
        pytest.skip("there is no pgjdbc")
    yield ["java", "-cp", str(found[0].resolve()), str(PROGRAMS / "Client.java")]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[list[str]], list[str]]]:
    """What a program prints beside the lake, and beside PostgreSQL 18."""
    server = new_server(18, "")
    with serving(tmp_path_factory.mktemp("lake")) as lake:

        def asked(command: list[str]) -> list[str]:
            said = []
            for port in (lake.port, server.port):
                done = subprocess.run(
                    [*command, str(port)], capture_output=True, text=True, timeout=_PATIENCE, check=False
                )
                assert not done.returncode, done.stderr
                said.append(done.stdout)
            return said

        yield asked
    server.stop()


def test_node_postgres(node: list[str], both: Callable[[list[str]], list[str]]) -> None:
    ours, theirs = both(node)
    assert ours == theirs


def test_pgjdbc(java: list[str], both: Callable[[list[str]], list[str]]) -> None:
    ours, theirs = both(java)
    assert ours.splitlines()[1:] == theirs.splitlines()[1:]  # the first line is the version
