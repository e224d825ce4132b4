"""VACUUM leaves files to whoever still reads them."""

from __future__ import annotations

import os
from pathlib import Path

from pgrepl.backend import open_session
from pgrepl.lake.read.local import FOLDER
from pgrepl.statements.run import run
from tests.lake.conftest import Lake


def marks(lake: Lake) -> list[str]:
    folder = Path(lake.catalog.data_path + FOLDER)
    return os.listdir(folder) if folder.exists() else []


def test_a_transaction_that_keeps_its_snapshot_keeps_its_files(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 300)")
    reader = open_session(lake.catalog)

    def count() -> list[tuple[str | None, ...]]:
        return [row for result in run(reader, "SELECT count(*) FROM t") for row in result.rows]

    list(run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ"))
    assert count() == [("300",)]
    assert len(marks(lake)) == 1
    lake.sql("SET pgrepl.file_grace = 0")
    lake.sql("DELETE FROM t WHERE a > 100")
    lake.sql("VACUUM FULL t")
    assert count() == [("300",)]
    list(run(reader, "COMMIT"))
    assert (marks(lake), count()) == ([], [("100",)])
    lake.sql("VACUUM")
    assert lake.query("SELECT count(*) FROM ducklake_snapshot") == [(1,)]
    reader.close()


def test_the_mark_of_a_process_that_is_gone_holds_nothing(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 300)")
    lake.sql("BEGIN ISOLATION LEVEL REPEATABLE READ")
    lake.sql("SELECT count(*) FROM t")
    (mark,) = marks(lake)
    folder = Path(lake.catalog.data_path + FOLDER)
    machine, _, rest = mark.partition("-")
    (folder / mark).rename(folder / f"{machine}-4194304-{rest.partition('-')[2]}")  # no process has this number
    lake.sql("ROLLBACK")
    lake.sql("DELETE FROM t")
    lake.sql("VACUUM")
    assert (marks(lake), lake.query("SELECT count(*) FROM ducklake_snapshot")) == ([], [(1,)])
