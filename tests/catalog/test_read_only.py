"""A catalog that cannot be written, or whose disk is full: it is read, and what is the matter is said."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError, Report
from pgrepl.statements.run import run
from tests.harness.forked import pgrepl
from tests.lake import duck

Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A small file system of its own, in memory; `mount("remount,ro")` protects it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = False

    def mount(options: str) -> Path:
        nonlocal mounted
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("nothing can be mounted here")
        mounted = True
        return folder

    yield mount
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def play(session: Session, text: str) -> list[tuple[str | None, ...]]:
    return [row for result in run(session, text) for row in result.rows]


def made(folder: Path) -> Path:
    catalog = folder / "catalog.db"
    opened = open_catalog(catalog)
    session = open_session(opened, settings={"pgrepl.engine": "local"})
    play(session, "CREATE TABLE t AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 300) g")
    play(session, "INSERT INTO t VALUES (0, 'small')")
    session.close()
    opened.close()
    return catalog


def read(catalog: Path) -> tuple[list[Report], PgError]:
    """What a session is told at its start, and by its first write; it reads before and after that."""
    told: list[Report] = []
    opened = open_catalog(catalog)
    session = open_session(opened, on_report=told.append, settings={"pgrepl.engine": "local"})
    try:
        for _ in range(2):
            assert play(session, "SELECT count(*), sum(a) FROM t") == [("301", "45150")]
            with pytest.raises(PgError) as caught:
                play(session, "INSERT INTO t VALUES (7, 'x')")
        with pytest.raises(PgError) as refused:
            play(session, "SELECT * FROM t FOR UPDATE")
        assert refused.value.message == caught.value.message
        assert play(session, "SELECT relname FROM pg_class WHERE relname = 't'") == [("t",)]
    finally:
        session.close()
        opened.close()
    return told, caught.value


def of_tool(catalog: Path, *arguments: str) -> str:
    done = pgrepl(*arguments, "--catalog", str(catalog))
    return done.stdout + done.stderr


def left_open(catalog: Path) -> None:
    """As a killed process leaves it: with a log that holds commits, and nobody who has it open."""
    copy = catalog.with_name("copy.db")
    with closing(sqlite3.connect(catalog)) as link:
        link.execute("SELECT count(*) FROM pg_class").fetchall()
        opened = open_catalog(catalog)
        session = open_session(opened)
        play(session, "CREATE TABLE logged (a int)")
        shutil.copy(catalog, copy)
        shutil.copy(f"{catalog}-wal", f"{copy}-wal")
        session.close()
        opened.close()
    for end in ("", "-wal"):
        os.replace(f"{copy}{end}", f"{catalog}{end}")


@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
def test_a_read_only_mount(mount: Mount, crashed: bool) -> None:
    folder = mount("size=16m")
    catalog = made(folder)
    if crashed:
        left_open(catalog)
    mount("remount,ro")
    told, error = read(catalog)
    assert [(r.severity, r.message) for r in told] == [
        ("WARNING", f'catalog "{catalog}" can only be read: Read-only file system')
    ]
    assert (error.sqlstate, error.message) == ("25006", f'catalog "{catalog}" cannot be written: Read-only file system')
    shown = of_tool(catalog, "-c", "\\d t", "-c", "SELECT a FROM t WHERE a = 300")
    assert f'WARNING:  catalog "{catalog}" can only be read: Read-only file system' in shown
    assert "a      | integer" in shown
    assert "300" in shown
    assert "Traceback" not in of_tool(catalog, "status")
    if crashed:
        assert "logged" in of_tool(catalog, "-c", "\\dt")
    mount("remount,rw")
    opened = open_catalog(catalog)
    session = open_session(opened)
    assert play(session, "INSERT INTO t VALUES (7, 'x'); SELECT count(*) FROM t") == [("302",)]
    session.close()
    opened.close()
    assert duck.duck(catalog, "SELECT count(*) FROM postgres.t") == [("302",)]
    duck.close(catalog)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_protected_file_or_folder(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = made(tmp_path)
    before = catalog.read_bytes()
    protected = catalog if what == "file" else tmp_path
    monkeypatch.setattr(os, "access", lambda path, how: Path(path) != protected)  # root may write everything
    told, error = read(catalog)
    assert [r.message for r in told] == [f'catalog "{catalog}" can only be read: Permission denied']
    assert (error.sqlstate, error.message) == ("25006", f'catalog "{catalog}" cannot be written: Permission denied')
    assert catalog.read_bytes() == before


@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
def test_a_full_disk(mount: Mount, crashed: bool) -> None:
    folder = mount("size=16m")
    catalog = made(folder)
    if crashed:
        left_open(catalog)
    filler = folder / "filler"
    fill(filler)
    told, error = read(catalog)
    assert [r.message for r in told] == [f'catalog "{catalog}" can only be read: No space left on device']
    assert (error.sqlstate, error.message) == (
        "53100",
        f'catalog "{catalog}" cannot be written: No space left on device',
    )
    assert "Traceback" not in of_tool(catalog, "status")
    filler.unlink()
    opened = open_catalog(catalog)
    session = open_session(opened)
    assert play(session, "INSERT INTO t VALUES (7, 'x'); SELECT count(*) FROM t") == [("302",)]
    session.close()
    opened.close()


def fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_a_disk_that_becomes_full(mount: Mount) -> None:
    """Whatever a statement does when there is no room any more: nothing of it remains, reading goes on, and when there
    is room again, so does writing."""
    folder = mount("size=16m")
    catalog = made(folder)
    filler = folder / "filler"
    opened = open_catalog(catalog)
    session = open_session(opened, settings={"pgrepl.engine": "local"})
    play(session, "SELECT count(*) FROM t")
    count = 301
    statements = (
        "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1000, 1040) g",
        "INSERT INTO t SELECT g, repeat(md5(g::text), 30) FROM generate_series(1000, 3000) g",
        "CREATE TABLE other (a int PRIMARY KEY, b text)",
        "BEGIN; INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1000, 1040) g; COMMIT",
        "UPDATE t SET b = b || 'y'",
    )
    try:
        for statement in statements:
            fill(filler)
            with pytest.raises(PgError) as caught:
                for _ in range(20):  # the log may have room from before
                    play(session, statement)
                    count = int(play(session, "SELECT count(*) FROM t")[0][0] or 0)
            assert caught.value.sqlstate in ("53100", "42P07"), (statement, caught.value)
            if session.in_block:
                play(session, "ROLLBACK")
            assert play(session, "SELECT count(*) FROM t") == [(str(count),)]
            filler.unlink()
            play(session, "INSERT INTO t VALUES (7, 'x')")
            count += 1
        assert play(session, "SELECT count(*) FROM t") == [(str(count),)]
    finally:
        session.close()
        opened.close()
    assert duck.duck(catalog, "SELECT count(*) FROM postgres.t") == [(str(count),)]
    duck.close(catalog)
