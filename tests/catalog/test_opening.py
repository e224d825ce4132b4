"""Opening catalog.db: what is made, what is refused in one sentence and left as it is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.store.connection import FORMAT_VERSION, Catalog, for_psycopg, without_password
from pgrepl.catalog.store.files import DataFolder
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError, Report
from tests.harness.database import identifiers_seen


def refusal(path: Path | str) -> Report:
    with pytest.raises(PgError) as caught:
        open_catalog(path)
    return caught.value.report


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_catalog_is_its_owners_alone_in_all_its_files(path: Path) -> None:
    before = os.umask(0)
    try:
        catalog = open_catalog(path)
        session = open_session(catalog)
        session.transaction.begin_statement(writes=True)
        session.snapshot()
        session.transaction.end_statement()
    finally:
        os.umask(before)
    assert {p.name: mode(p) for p in path.parent.iterdir()} == {
        "catalog.db": 0o600,
        "catalog.db-shm": 0o600,
        "catalog.db-wal": 0o600,
    }
    session.close()
    catalog.close()


def test_opening_again_finds_the_same_instance(path: Path) -> None:
    def identifier() -> int:
        catalog = open_catalog(path)
        link = catalog.connect()
        found = link.execute("SELECT system_identifier, next_oid FROM pgrepl_instance")
        link.close()
        catalog.close()
        assert found[0][1] == 16384
        return int(found[0][0])

    assert identifier() == identifier()


def test_all_who_come_first_at_once_find_one_catalog(path: Path) -> None:
    assert len(set(identifiers_seen(lambda: open_catalog(path), visitors=8))) == 1
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []


def test_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "no" / "catalog.db"
    report = refusal(path)
    assert (report.severity, report.sqlstate) == ("FATAL", "58P01")
    assert report.message == f'could not create catalog "{path}": No such file or directory'


def test_a_folder_is_no_catalog(tmp_path: Path) -> None:
    assert refusal(tmp_path).message == f'could not open catalog "{tmp_path}": Is a directory'


def _foreign_text(path: Path) -> str:
    path.write_text("these are my notes, not a database\n" * 9)
    return f'"{path}" is not a pgrepl catalog'


def _foreign_database(path: Path) -> str:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (a)")
    return f'"{path}" is an SQLite database, but not a pgrepl catalog'


def _empty(path: Path) -> str:
    path.write_bytes(b"")
    return f'catalog "{path}" is empty: it was cut short, or it is no pgrepl catalog'


def _header_only(path: Path) -> str:
    _made(path)
    path.write_bytes(path.read_bytes()[:60])
    return f'catalog "{path}" is cut short: it has 60 bytes'


def _truncated(path: Path) -> str:
    _made(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return f'catalog "{path}" is cut short: it has {len(whole) // 2} of {len(whole)} bytes'


def _newer(path: Path) -> str:
    _made(path)
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    newer = f"it has format {FORMAT_VERSION + 1}, this one knows format {FORMAT_VERSION}"
    return f'catalog "{path}" was made by a newer pgrepl: {newer}'


def _made(path: Path) -> None:
    open_catalog(path).close()


@pytest.mark.parametrize("make", [_foreign_text, _foreign_database, _empty, _header_only, _truncated, _newer])
def test_what_is_not_ours_is_named_and_left_alone(path: Path, make) -> None:  # type: ignore[no-untyped-def]
    message = make(path)
    before = path.read_bytes()
    neighbours = sorted(p.name for p in path.parent.iterdir())
    report = refusal(path)
    assert (report.severity, report.message) == ("FATAL", message)
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == neighbours


def test_a_link_that_leads_nowhere_is_no_catalog(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere.db"))
    report = refusal(path)
    assert (report.severity, report.sqlstate) == ("FATAL", "58P01")
    assert report.message == f'could not open catalog "{path}": No such file or directory'
    assert not path.exists()


def test_a_link_that_leads_to_itself_is_no_catalog(path: Path) -> None:
    path.symlink_to(path)
    assert refusal(path).message == f'could not open catalog "{path}": Too many levels of symbolic links'


def test_a_fifo_is_no_catalog_and_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    report = refusal(path)
    assert (report.sqlstate, report.message) == ("42809", f'"{path}" is not a pgrepl catalog')


def test_a_catalog_without_snapshots_is_damaged(path: Path) -> None:
    _made(path)
    with closing(sqlite3.connect(path)) as link:
        link.execute("DELETE FROM ducklake_snapshot")
        link.commit()
    catalog = open_catalog(path)
    with pytest.raises(PgError) as caught:
        open_session(catalog)
    assert caught.value.sqlstate == "XX001"
    assert caught.value.message == f'catalog "{path}" is damaged: it has no snapshot'
    catalog.close()


def test_damage_in_the_middle_is_said_in_our_words(path: Path) -> None:
    _made(path)
    whole = bytearray(path.read_bytes())
    whole[4096:] = b"\xa5" * (len(whole) - 4096)
    path.write_bytes(whole)
    report = refusal(path)
    assert (report.severity, report.sqlstate) == ("FATAL", "XX001")
    assert report.message.startswith(f'catalog "{path}" is damaged: ')


def test_a_catalog_that_vanishes_below_its_session_is_an_error_not_a_traceback(path: Path) -> None:
    catalog = open_catalog(path)
    session = open_session(catalog)
    shutil.rmtree(path.parent)
    session.transaction.begin_statement(writes=False)
    session.transaction.fail_statement()
    session.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://u:secret@h/d", 'catalog "mysql://u:***@h/d": only SQLite and PostgreSQL can hold a catalog'),
        ("sqlite://", "a catalog in memory is not supported"),
        (":memory:", "a catalog in memory is not supported"),
        ("nosuch://x", 'catalog "nosuch://x": only SQLite and PostgreSQL can hold a catalog'),
    ],
)
def test_urls_that_hold_no_catalog(url: str, message: str) -> None:
    assert refusal(url).message == message


def test_an_unreachable_server_is_one_sentence_without_the_password() -> None:
    report = refusal("postgresql://someone:secret@127.0.0.1:1/d")
    assert report.severity == "FATAL"
    assert report.message.startswith('could not open catalog "postgresql://someone:***@127.0.0.1:1/d": ')
    assert "\n" not in report.message


def test_a_sqlite_url_is_the_file(path: Path) -> None:
    catalog: Catalog = open_catalog(f"sqlite:///{path}")
    assert catalog.path == path
    catalog.close()


def test_parameters_are_written_as_the_driver_wants_them() -> None:
    sql = """SELECT "w%?", '5 %?' FROM t WHERE a = ? AND "b""?" LIKE ?"""
    assert for_psycopg(sql) == """SELECT "w%%?", '5 %%?' FROM t WHERE a = %s AND "b""?" LIKE %s"""


def test_the_files_of_a_catalog_stay_beside_it_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r"""`\cd` changes the folder of the process; locks in another folder would bind nobody."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    catalog = open_catalog("catalog.db")
    session = open_session(catalog)
    monkeypatch.chdir("elsewhere")
    assert session.transaction.locks.xid > 0
    with session.beside.newest():
        pass
    session.close()
    catalog.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (tmp_path / "catalog.db-locks").exists()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("catalog.db", "catalog.db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://u:p@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u@host/db?password=p&sslmode=require", "postgresql://u@host/db?password=***&sslmode=require"),
        ("postgresql://host/db?sslmode=require&sslpassword=p", "postgresql://host/db?sslmode=require&sslpassword=***"),
    ],
)
def test_messages_show_no_password_of_a_url(name: str, shown: str) -> None:
    assert without_password(name) == shown


def test_a_catalog_on_a_server_has_no_password_in_its_name() -> None:
    report = refusal("postgresql://u@127.0.0.1:1/db?password=hunter2")
    assert report.message.startswith('could not open catalog "postgresql://u@127.0.0.1:1/db?password=***": ')


def test_the_folder_of_a_catalog_that_is_damaged_stays_its_own(path: Path) -> None:
    """The row that says so is gone: whether the files are in use is not known."""
    open_catalog(path).close()
    with closing(sqlite3.connect(path)) as link:
        link.execute("DELETE FROM pgrepl_instance")
        link.commit()
    owner = DataFolder(f"{path}.files/", str(path.with_name("other.db")), 0).other_owner(b"")
    assert owner == str(path)
