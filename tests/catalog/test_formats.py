"""Catalogs as each older format left them (formats/, made by keep_format.py) are migrated, also after kills."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.store import bootstrap, declarative
from pgrepl.catalog.store.connection import FORMAT_VERSION, CatalogConnection
from pgrepl.catalog.store.declarative import disagreeing
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.harness.programs import ROOT

FORMATS = Path(__file__).with_name("formats")
KEPT = sorted(int(path.name.partition(".")[0]) for path in FORMATS.glob("*.tar.xz"))
OLD = [number for number in KEPT if number < FORMAT_VERSION]


@pytest.fixture
def old(tmp_path: Path) -> Callable[[int], Path]:
    def made(number: int) -> Path:
        with tarfile.open(FORMATS / f"{number}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
        return tmp_path / "catalog.db"

    return made


def written(path: Path) -> list[str]:
    """All of the catalog's tables and rows."""
    with closing(sqlite3.connect(path)) as link:
        return list(link.iterdump())


def asked(path: Path, database: str, text: str) -> list[tuple[object, ...]]:
    catalog = open_catalog(path)
    with closing(catalog), closing(open_session(catalog, database)) as session:
        found = [tuple(row) for result in run(session, text) for row in result.rows]
        assert not disagreeing(session.link, declarative.every)
    return found


def goes_on(path: Path) -> None:
    """What was there is there, changes that were under way arrive, and new ones follow."""
    orders = "SELECT count(*), sum(total) FROM orders"
    assert asked(path, "shop", orders) == [("301", "45267.50")]
    assert asked(path, "shop", "SELECT count(*) FROM large") == [("100",)]
    assert asked(path, "shop", "SELECT nextval('numbers') > 7") == [("t",)]
    assert asked(path, "shop", "SELECT tablename, attnames, rowfilter FROM pg_publication_tables") == [
        ("orders", "{id,total}", "(id > 250)")
    ]
    assert asked(path, "shop", "SELECT * FROM days") == [("2026-05-04", "1")]
    assert pgrepl("apply", cwd=path.parent).returncode == 0
    assert asked(path, "reports", orders) == [("52", "13902.50")]
    asked(
        path, "shop", "CREATE TYPE new AS ENUM ('a'); CREATE TABLE u (a new); INSERT INTO orders VALUES (2001, 'X', 5)"
    )
    assert pgrepl("apply", cwd=path.parent).returncode == 0
    assert asked(path, "reports", orders) == [("53", "13907.50")]
    verified = pgrepl("verify", cwd=path.parent)
    assert verified.returncode == 0, verified.stdout


def test_one_of_each_format_is_kept() -> None:
    assert list(range(2, FORMAT_VERSION + 1)) == KEPT  # format1.sql is the first one


@pytest.mark.parametrize("number", dose(KEPT, 4))
def test_a_catalog_of_each_format_goes_on(number: int, old: Callable[[int], Path]) -> None:
    path = old(number)
    before, kept = written(path), path.with_name(f"catalog.db.format{number}")
    open_catalog(path).close()
    assert kept.exists() == (number < FORMAT_VERSION)
    if kept.exists():
        assert written(kept) == before
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.glob(".catalog.db.*")] == []
    goes_on(path)


def kill_at(path: Path, step: int) -> int:
    """Open the catalog in a process that ends before that statement of the migration. Returns how many were done."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        done, execute = 0, CatalogConnection.execute

        def counted(self: CatalogConnection, sql: str, parameters: object = ()) -> object:
            nonlocal done
            if done == step:
                os._exit(9)
            done += migrating
            return execute(self, sql, parameters)

        def migrate(*given: object) -> None:
            nonlocal migrating
            migrating = True
            actual(*given)  # type: ignore[arg-type]
            migrating = False

        migrating, actual = False, bootstrap.migrate
        CatalogConnection.execute = counted  # type: ignore[assignment, method-assign]
        bootstrap.migrate = migrate  # type: ignore[assignment]
        try:
            open_catalog(path)
            os.write(theirs, b"%d" % done)
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return int(found or step)


@pytest.mark.parametrize("number", dose(OLD, 6))
def test_killed_in_the_middle_it_is_as_it_was(number: int, old: Callable[[int], Path], tmp_path: Path) -> None:
    steps = kill_at(old(number), 100_000)
    whole = written(tmp_path / "catalog.db")
    path = old(number)
    before = written(path)
    for step in {0, 1, steps // 3, 2 * steps // 3, steps - 1}:
        assert kill_at(path, step) == step
        assert written(path) == before
    open_catalog(path).close()
    assert len(written(path)) == len(whole)
    assert written(path.with_name(f"catalog.db.format{number}")) == before


def test_a_catalog_that_cannot_be_copied_is_not_migrated(old: Callable[[int], Path]) -> None:
    path = old(OLD[-1])
    before = written(path)
    path.with_name(f"catalog.db.format{OLD[-1]}").mkdir()
    done = pgrepl("-c", "SELECT 1", cwd=path.parent)
    assert (done.returncode, written(path)) == (2, before)
    assert 'catalog "catalog.db" could not be copied before its migration' in done.stderr


def test_it_goes_back_by_the_copy(old: Callable[[int], Path]) -> None:
    """As docs/upgrading.md says: the copy takes the catalog's place."""
    path = old(OLD[-1])
    before = written(path)
    open_catalog(path).close()
    path.with_name(f"catalog.db.format{OLD[-1]}").replace(path)
    assert written(path) == before
    goes_on(path)


def test_check_says_what_would_happen(old: Callable[[int], Path]) -> None:
    path = old(OLD[0])
    before = path.read_bytes()
    done = pgrepl("upgrade", "--check", cwd=path.parent)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.findall(r"^  (\d+): ", done.stdout, re.M) == [str(number) for number in range(3, FORMAT_VERSION + 1)]
    assert done.stdout.startswith('catalog "catalog.db" has format 2; the next command that opens it copies it to')
    assert (path.read_bytes(), path.with_name("catalog.db.format2").exists()) == (before, False)
    open_catalog(path).close()
    done = pgrepl("upgrade", "--check", cwd=path.parent)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0, f'catalog "catalog.db" has format {FORMAT_VERSION}, the newest',
    )  # fmt: skip


def test_check_of_what_cannot_be_opened(tmp_path: Path) -> None:
    done = pgrepl("upgrade", "--check", cwd=tmp_path)
    assert (done.returncode, "No such file or directory" in done.stderr, list(tmp_path.iterdir())) == (2, True, [])
    open_catalog(tmp_path / "catalog.db").close()
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as link:
        link.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")
        link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for arguments in (("upgrade", "--check"), ("-c", "SELECT 1"), ("upgrade",)):
        done = pgrepl(*arguments, cwd=tmp_path)
        newer = (
            f"was made by a newer pgrepl: it has format {FORMAT_VERSION + 1}, this one knows format {FORMAT_VERSION}"
        )
        assert (done.returncode, newer in done.stderr) == (2, True)


def test_the_documentation_has_the_format() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert f"`pgrepl_instance.format_version` is {FORMAT_VERSION}." in text
    assert list(bootstrap.BROUGHT) == list(range(1, FORMAT_VERSION + 1))
