"""What a driver complains of is told by its codes; where Python 3.10 has none, by SQLite's texts for them."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.catalog.store import files


def busy(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=0)) as one, closing(sqlite3.connect(path, timeout=0)) as other:
        one.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")


def locked(path: Path) -> None:
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE t (a)")
        link.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        reading = link.execute("SELECT a FROM t")
        reading.fetchone()
        link.execute("DROP TABLE t")


def readonly(path: Path) -> None:
    sqlite3.connect(path).execute("CREATE TABLE t (a)")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as link:
        link.execute("INSERT INTO t VALUES (1)")


def full(path: Path) -> None:
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE t (a)")
        link.execute("PRAGMA max_page_count = 3")
        link.execute("INSERT INTO t VALUES (zeroblob(100000))")


def nowhere(path: Path) -> None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as link:
        link.execute("SELECT 1 FROM sqlite_master")


def not_a_database(path: Path) -> None:
    path.write_bytes(b"x" * 1000)
    with closing(sqlite3.connect(path)) as link:
        link.execute("SELECT 1 FROM sqlite_master")


def malformed(path: Path) -> None:
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE t (a)")
        link.execute("INSERT INTO t VALUES (zeroblob(20000))")
        link.commit()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with closing(sqlite3.connect(path)) as link:
        link.execute("SELECT * FROM t").fetchall()


def twice(path: Path) -> None:
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE t (a PRIMARY KEY)")
        link.executemany("INSERT INTO t VALUES (?)", [(1,), (1,)])


def missing(path: Path) -> None:
    with closing(sqlite3.connect(path)) as link:
        link.execute("SELECT 1 FROM t")


COMPLAINTS: dict[Callable[[Path], None], int] = {
    busy: files.BUSY,
    locked: files.LOCKED,
    readonly: files.READONLY,
    full: files.FULL,
    nowhere: files.CANTOPEN,
    not_a_database: files.NOTADB,
    malformed: files.CORRUPT,
    twice: files.CONSTRAINT,
    missing: files.ERROR,
}


@pytest.mark.parametrize("cause", COMPLAINTS, ids=lambda cause: cause.__name__)
def test_a_complaint_has_its_code(cause: Callable[[Path], None], tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error) as caught:
        cause(tmp_path / "c.db")
    assert files.result_code(caught.value) == COMPLAINTS[cause]
    assert hasattr(caught.value, "sqlite_errorcode") or sys.version_info < (3, 11)
    without_a_code = type(caught.value)(*caught.value.args)
    assert files.result_code(without_a_code) == COMPLAINTS[cause]
    assert files.is_busy(caught.value) == (cause in (busy, locked))
    assert files.is_damaged(caught.value) == (cause in (malformed, not_a_database, missing))


def test_a_mistake_in_a_statement_is_no_damage() -> None:
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(":memory:").execute("SELECT FROM")
    assert not files.is_damaged(caught.value)


def test_text_that_is_no_text() -> None:
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(":memory:").execute("SELECT CAST(x'ff' AS text)").fetchall()
    assert files.is_not_text(caught.value)
    assert files.result_code(caught.value) in (0, files.ERROR)


class Refused(Exception):
    sqlstate = "55P03"


def test_what_a_server_says_has_its_sqlstate() -> None:
    assert files.sqlstate(Refused("no lock\nfor you")) == "55P03"
    assert files.first_line(Refused("no lock\nfor you")) == "no lock"
    assert files.result_code(Refused("no lock\nfor you")) == 0
