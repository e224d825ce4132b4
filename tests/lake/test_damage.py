"""Files that are not what the catalog says: named, not read, and left alone."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.lake.read.footers import forget_all
from tests.harness.dose import dose
from tests.lake.conftest import Lake

ROWS = "SELECT i, 'row ' || i % 97, sqrt(i), i % 3 = 0 FROM generate_series({}) i"


@pytest.fixture
def table(lake: Lake) -> Iterator[Lake]:
    """A table of two files, the first of which has a delete file."""
    lake.sql("CREATE TABLE t (a int, b text, c float8, d bool)")
    lake.sql("INSERT INTO t " + ROWS.format("1, 400"))
    lake.sql("DELETE FROM t WHERE a % 2 = 0")
    lake.sql("INSERT INTO t " + ROWS.format("401, 700"))
    yield lake


def files(lake: Lake, table: str = "t") -> tuple[list[Path], list[Path]]:
    """Data files and delete files, oldest first."""
    folder = Path(lake.catalog.data_path, "postgres", table)
    every = sorted(folder.glob("*.parquet"))
    deletes = [path for path in every if path.name.endswith("-delete.parquet")]
    return [path for path in every if path not in deletes], deletes


def problem(lake: Lake, sql: str = "SELECT * FROM t") -> PgError:
    forget_all()
    lake.session.forget_all()
    with pytest.raises(PgError) as caught:
        lake.sql(sql)
    return caught.value


def another_file_of_the_table(lake: Lake) -> Path:
    (first, second), _ = files(lake)
    shutil.copyfile(second, first)
    return first


def a_file_of_another_table(lake: Lake) -> Path:
    lake.sql("CREATE TABLE other (a int, b text, c float8, d bool)")
    lake.sql("INSERT INTO other " + ROWS.format("2001, 2400"))
    path = files(lake)[0][0]
    shutil.copyfile(files(lake, "other")[0][0], path)
    return path


def a_delete_file(lake: Lake) -> Path:
    data, deletes = files(lake)
    shutil.copyfile(deletes[0], data[0])
    return data[0]


def a_data_file_for_a_delete_file(lake: Lake) -> Path:
    data, deletes = files(lake)
    shutil.copyfile(data[0], deletes[0])
    return deletes[0]


def an_older_delete_file(lake: Lake) -> Path:
    path = files(lake)[1][0]
    old = path.read_bytes()
    lake.sql("DELETE FROM t WHERE a < 300 AND a % 2 = 1 AND a > 20")
    newer = files(lake)[1][-1]
    assert newer != path
    newer.write_bytes(old)
    return newer


SWAPS = [another_file_of_the_table, a_file_of_another_table, a_delete_file, a_data_file_for_a_delete_file,
         an_older_delete_file]  # fmt: skip


@pytest.mark.parametrize("swap", SWAPS)
def test_a_file_that_stands_in_place_of_another_is_not_read(table: Lake, swap: Callable[[Lake], Path]) -> None:
    path = swap(table)
    for sql in ("SELECT * FROM t", "SELECT count(*) FROM t", "UPDATE t SET c = 0", "DELETE FROM t WHERE a = 3"):
        found = problem(table, sql)
        assert (found.sqlstate, found.message) == ("XX001", f'could not read file "{path}"')
    before = path.read_bytes()
    assert problem(table, "VACUUM t").sqlstate == "XX001"
    assert problem(table, "VACUUM FULL t").sqlstate == "XX001"
    assert path.read_bytes() == before


def test_equal_files_of_different_rows_are_told_apart(lake: Lake) -> None:
    """Same size, same statistics: their footers differ in the files' names."""
    by_size: dict[int, str] = {}
    for name in (f"t{number}" for number in range(20)):  # checksums in a file are of four bytes, or of five
        lake.sql(f"CREATE TABLE {name} (a float8)")
        lake.sql(f"INSERT INTO {name} SELECT random() FROM generate_series(1, 200)")
        (path,) = files(lake, name)[0]
        other = by_size.setdefault(path.stat().st_size, name)
        if other != name:
            break
    shutil.copyfile(path, files(lake, other)[0][0])
    assert problem(lake, f"SELECT * FROM {other}").report.detail is not None
    assert "footer has checksum" in str(problem(lake, f"SELECT * FROM {other}").report.detail)


@pytest.mark.parametrize("kind", ["data", "delete"])
def test_a_file_whose_row_in_the_catalog_is_lost(table: Lake, kind: str) -> None:
    data, deletes = files(table)
    path = (data if kind == "data" else deletes)[0]
    with table.statement(writes=True):
        table.session.link.execute(f"DELETE FROM ducklake_{kind}_file WHERE path = ?", (path.name,))
    found = problem(table)
    assert found.sqlstate == "XX001"
    assert found.message == (
        f'catalog "{table.path}" is damaged: ducklake_{kind}_file has no row of file "{path.name}"'
    )
    table.sql("SET pgrepl.file_grace = 0")
    for sql in ("VACUUM FULL t", "VACUUM"):
        assert problem(table, sql).sqlstate == "XX001"
    assert path.exists()
    table.sql("CREATE TABLE other (a int)")
    table.sql("VACUUM other")
    assert path.exists(), "VACUUM of another table takes no file away that pgrepl has written"


def test_files_of_a_table_whose_row_is_lost_stay(table: Lake) -> None:
    data, deletes = files(table)
    with table.statement(writes=True):
        for name in ("ducklake_table", "ducklake_data_file", "ducklake_delete_file"):
            table.session.link.execute(f"DELETE FROM {name}")
    table.session.forget_all()
    table.sql("SET pgrepl.file_grace = 0")
    found = problem(table, "VACUUM t")
    message = f'catalog "{table.path}" is damaged: ducklake_table has no row of table "t"'
    assert (found.sqlstate, found.message) == ("XX001", message)
    table.sql("CREATE TABLE other (a int)")
    table.sql("VACUUM other")
    assert all(path.exists() for path in (*data, *deletes))


@pytest.mark.parametrize("change", ["record_count = 3", "begin_snapshot = 9", "file_size_bytes = 1", "row_id_start = 7",
                                    "table_id = 99", "end_snapshot = 1", "path = 'x.parquet'"])  # fmt: skip
def test_a_changed_row_of_the_catalog_is_noticed(table: Lake, change: str) -> None:
    with table.statement(writes=True):
        table.session.link.execute(f"UPDATE ducklake_data_file SET {change} WHERE data_file_id = 0")
    found = problem(table)
    assert (found.sqlstate, found.message.split(": ")[0]) == ("XX001", f'catalog "{table.path}" is damaged')


def flips(path: Path, many: int, seed: int) -> Iterator[str]:
    """The file with one bit changed, again and again."""
    whole = path.read_bytes()
    chance = random.Random(seed)
    for _ in range(many):
        bit = chance.randrange(len(whole) * 8)
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        yield f"bit {bit} of {path.name} (seed {seed})"
    path.write_bytes(whole)


def read(lake: Lake) -> list[tuple[str | None, ...]] | str:
    forget_all()
    try:
        return lake.rows("t")
    except PgError as problem:
        assert problem.sqlstate in ("XX001", "58P01"), problem
        return problem.sqlstate


def noticed_or_harmless(table: Lake, many: int, seed: int) -> int:
    noticed = 0
    before = table.rows("t")
    assert len(before) == 500
    data, deletes = files(table)
    for path in (*data, *deletes):
        for which in flips(path, many, seed):
            found = read(table)
            assert found in ("XX001", "58P01") or found == before, which
            noticed += found == "XX001"
    assert read(table) == before
    return noticed


def test_flipped_bits_are_noticed_or_harmless(table: Lake) -> None:
    assert noticed_or_harmless(table, 40, 1) >= 90


@pytest.mark.slow
def test_many_flipped_bits_are_noticed_or_harmless(table: Lake) -> None:
    assert noticed_or_harmless(table, 2000, 2) >= 5000


@pytest.fixture
def inlined(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE t (a int, b text, c float8, d bool)")
    lake.sql("INSERT INTO t " + ROWS.format("1, 400"))
    lake.sql("INSERT INTO t " + ROWS.format("401, 450"))
    lake.sql("DELETE FROM t WHERE a IN (7, 8, 420)")
    lake.sql("UPDATE t SET b = 'new' WHERE a IN (9, 430)")
    lake.sql("BEGIN; INSERT INTO t VALUES (1, 'x'); DELETE FROM t WHERE b = 'x'; COMMIT")
    return lake


@pytest.mark.parametrize(("kind", "change"), dose([
    ("data", "a = a + 1"), ("data", "b = b || ' '"), ("data", "row_id = row_id + 1"), ("data", "c = '0.5'"),
    ("data", "begin_snapshot = begin_snapshot + 1"), ("delete", "row_id = row_id + 1"), ("delete", "file_id = 3"),
], 3))  # fmt: skip
def test_changed_inlined_rows_are_noticed_before_they_are_written_anew(inlined: Lake, kind: str, change: str) -> None:
    name = inlined.query(f"SELECT name FROM sqlite_master WHERE name LIKE 'ducklake_inlined_{kind}%_2%'")[0][0]
    where = f"rowid = (SELECT min(rowid) FROM {name})"
    with inlined.statement(writes=True):
        inlined.session.link.execute(f"UPDATE {name} SET {change} WHERE {where}")
    found = problem(inlined, "VACUUM FULL t")
    assert found.sqlstate == "XX001"
    assert name in found.message


def test_sums_of_inlined_rows_follow_what_comes_and_goes(inlined: Lake) -> None:
    inlined.sql("SET pgrepl.keep_snapshots = 0; SET pgrepl.file_grace = 0")
    for number in range(6):
        inlined.sql(f"INSERT INTO t VALUES ({1000 + number}, 'y'); DELETE FROM t WHERE a = {999 + number}")
        inlined.sql("VACUUM" if number % 2 else "VACUUM FULL")
    inlined.sql("TRUNCATE t")
    inlined.sql("VACUUM")
    assert inlined.query("SELECT count(*) FROM pgrepl_inlined") == [(0,)]
    assert inlined.query("SELECT count(*) FROM pgrepl_file") == [(0,)]
