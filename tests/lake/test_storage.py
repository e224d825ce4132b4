"""Where files are: folders, URIs, an S3; what is said when one is missing, damaged, or cannot be written."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.lake import storage
from pgrepl.lake.read.footers import forget_all
from tests.harness.dose import dose
from tests.lake.conftest import Lake
from tests.lake.test_write import assert_same_history, delete, files_of, numbered, table, update  # noqa: F401


def data_files(lake: Lake, suffix: str = ".parquet") -> list[Path]:
    folder = lake.path.parent / "catalog.db.files"
    return sorted(path for path in folder.rglob("*" + suffix))


@pytest.fixture(autouse=True)
def _begin_anew() -> None:
    forget_all()


# --- files that are not what they should be -----------------------------------------------------------------------


def test_a_missing_file(table: Lake) -> None:  # noqa: F811
    (path,) = data_files(table)
    path.unlink()
    with pytest.raises(PgError) as caught:
        table.rows("t")
    assert (caught.value.sqlstate, caught.value.message) == (
        "58P01", f'could not open file "{path}": No such file or directory',
    )  # fmt: skip


def test_a_missing_delete_file(table: Lake) -> None:  # noqa: F811
    delete(table, *range(200))
    forget_all()
    (path,) = data_files(table, "-delete.parquet")
    path.unlink()
    with pytest.raises(PgError, match=f'could not open file "{path}": No such file or directory'):
        table.rows("t")


@pytest.mark.parametrize("damage", ["cut short", "emptied", "overwritten", "a page"])
def test_a_damaged_file(table: Lake, damage: str) -> None:  # noqa: F811
    (path,) = data_files(table)
    whole = path.read_bytes()
    path.write_bytes(
        {
            "cut short": whole[: len(whole) // 2],
            "emptied": b"",
            "overwritten": b"x" * len(whole),
            "a page": whole[:4] + b"\xff" * 2000 + whole[2004:],
        }[damage]
    )
    with pytest.raises(PgError) as caught:
        table.rows("t")
    assert caught.value.sqlstate == "XX001"
    assert caught.value.message.startswith(f'could not read file "{path}"')


def test_a_file_that_may_not_be_read(table: Lake, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def refuse(path: str) -> Any:
        raise OSError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(storage, "open_input", refuse)
    with pytest.raises(PgError) as caught:
        table.rows("t")
    assert (caught.value.sqlstate, caught.value.message) == (
        "42501", f'could not open file "{data_files(table)[0]}": Permission denied',
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_files_are_for_their_owner_only_also_in_folders_of_others(lake: Lake, engine: str) -> None:
    """DuckDB, whose tables' folders everybody may look into, has written first."""
    before = os.umask(0o022)
    try:
        lake.sql("CREATE TABLE t (a int)")
        lake.duck_runs("INSERT INTO postgres.t SELECT range FROM range(500)")
        folder = Path(lake.catalog.data_path, "postgres", "t")
        theirs = set(folder.iterdir())
        lake.sql(f"SET pgrepl.engine = {engine}")
        lake.sql("INSERT INTO t SELECT a FROM generate_series(1, 2000) a")
        lake.sql("DELETE FROM t WHERE a % 2 = 0")
        made = set(folder.iterdir()) - theirs
        assert len(made) >= 2
        assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
    finally:
        os.umask(before)


# --- files that cannot be written ---------------------------------------------------------------------------------


class FullDisk:
    """Takes some bytes, then no more."""

    def __init__(self, path: str, room: int) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._room = room
        self.closed = False

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if size > self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._room -= size
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize("room", dose([0, 100, 500], 3))
@pytest.mark.parametrize("what", dose(["insert", "delete", "update"], 3, 2))
def test_a_full_disk(table: Lake, monkeypatch: pytest.MonkeyPatch, what: str, room: int) -> None:  # noqa: F811
    import pyarrow as pa

    before, files = table.rows("t"), files_of(table)
    monkeypatch.setattr(storage, "open_output", lambda path: pa.PythonFile(FullDisk(path, room), "w"))
    with pytest.raises(PgError) as caught:
        if what == "insert":
            table.insert("t", *[(str(i), os.urandom(20).hex()) for i in range(1000)])
        elif what == "delete":
            delete(table, *range(0, 1000, 2))
        else:
            update(table, "x" * 30, *range(0, 1000, 3))
    monkeypatch.undo()
    assert caught.value.sqlstate == "53100"
    assert caught.value.message.startswith(f'could not write file "{table.path.parent}/catalog.db.files/')
    assert caught.value.message.endswith('": No space left on device')
    assert caught.value.report.hint == "Check free disk space."
    assert files_of(table) == files
    assert table.rows("t") == before
    table.insert("t", *numbered(200, 3000))
    assert_same_history(table)


def test_a_folder_that_cannot_be_made(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    folder = lake.path.parent / "catalog.db.files"
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("in the way")
    with pytest.raises(PgError) as caught:
        lake.insert("t", *numbered(200))
    assert caught.value.sqlstate == "58030"
    folder.unlink()
    lake.insert("t", *numbered(200))
    assert len(lake.rows("t")) == 200


def test_a_file_is_on_the_disk_before_anything_refers_to_it(table: Lake, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    table.insert("t", *numbered(200, 2000))
    (newest,) = (path for path in data_files(table) if path.stat().st_ino in synced)
    assert newest.parent.stat().st_ino in synced


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_fifo_in_place_of_a_file_is_not_waited_for(table: Lake, engine: str) -> None:  # noqa: F811
    table.insert("t", *numbered(200, 2000))
    newest = max(data_files(table), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    os.mkfifo(newest)
    table.sql(f"SET pgrepl.engine = {engine}")
    with pytest.raises(PgError) as caught:
        table.sql("SELECT sum(a) FROM t")
    assert caught.value.sqlstate == "XX001"
    assert str(newest) in caught.value.message


# --- other places -------------------------------------------------------------------------------------------------


def test_a_data_folder_by_uri(tmp_path: Path) -> None:
    folder = tmp_path / "da%20ta ü"
    made = Lake(tmp_path, data_path=f"file://{folder}")
    try:
        made.sql("CREATE TABLE t (a int, b text)")
        made.insert("t", *numbered(300))
        delete(made, *range(150))
        assert_same_history(made)
        assert len(list(folder.rglob("*.parquet"))) == 2
    finally:
        made.close()


def test_data_in_an_s3(tmp_path: Path, bucket: Any) -> None:
    made = Lake(tmp_path, data_path="s3://lake-bucket/some folder/x%20y")
    try:
        made.sql("CREATE TABLE t (a int, b text)")
        made.insert("t", *numbered(300))
        delete(made, *range(150))
        delete(made, *range(150, 160))
        update(made, "new", *range(160, 280))
        rows = dict(made.rows("t"))
        assert (len(rows), rows["279"], rows["299"]) == (140, "new", "row 299")
        keys = bucket.all_keys()
        made.sql("BEGIN")
        made.insert("t", *numbered(300))
        delete(made, *range(200, 299))
        made.sql("ROLLBACK")
        assert {
            key for key in bucket.all_keys() if not key.endswith("/")
        } == keys  # a folder may be left, as S3 has them
        assert all(key.startswith("some folder/x%20y/") for key in keys)
        nothing = next(key for key in sorted(keys) if key.endswith(".parquet"))
        bucket.delete(nothing)
        forget_all()
        with pytest.raises(PgError) as caught:
            made.rows("t")
        assert caught.value.sqlstate == "58P01"
        assert caught.value.message == f'could not open file "s3://lake-bucket/{nothing}": No such file or directory'
    finally:
        made.close()


def test_names_that_nobody_has() -> None:
    names = [storage.new_name() for _ in range(1000)]
    assert len(set(names)) == 1000
    assert all(name.startswith("ducklake-01") and name.endswith(".parquet") for name in names)
