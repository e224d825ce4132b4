"""A catalog that knows many files: a commit of 10,000 data files, and a look-up by key in a table of 100,000.

The files are named in the catalog and are not there; but for one, which the key is in.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.clock import process

ROWS = 1000  # of a file
COMMITTED, FILES = 10_000, 100_000
LOOK_UP = "SELECT s FROM t WHERE id = 5"

Line = tuple[str, str, str, str, bool]


def commit(folder: Path, first: int, count: int) -> float:
    """Seconds that a commit of so many files takes, whose keys begin behind those of `first` files."""
    from pgrepl.backend import open_session
    from pgrepl.catalog.facts.relation import find_relation, range_var
    from pgrepl.catalog.session.transaction import reading
    from pgrepl.catalog.store.opening import open_catalog
    from pgrepl.lake import commit, storage
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.table import lake_table
    from pgrepl.lake.write.statement import Write
    from pgrepl.lake.write.statistics import ColumnStatistics

    session = open_session(open_catalog(folder / "catalog.db"))
    with reading(session):
        table = lake_table(session, find_relation(session, range_var(["t"])).oid)
    key, text = (column.column_id for column in table.columns)
    texts = ColumnStatistics(ROWS, 0, "a", "z")
    plain = NewFile("", ROWS, 20_000, 900, {}, footer_checksum=0, checksum=0)
    files = [
        replace(
            plain,
            name=storage.new_name(),
            statistics={key: ColumnStatistics(ROWS, 0, str(at * ROWS), str((at + 1) * ROWS - 1)), text: texts},
        )
        for at in range(first, first + count)
    ]
    began = time.perf_counter()
    with reading(session):
        write = Write(session, table)
        write.insert_files(files)
        commit.record_writes(session, [write])
    taken = time.perf_counter() - began
    session.close()
    return taken


def look_up(folder: Path) -> float:
    """Seconds of the query in a session that has read its definitions."""
    from pgrepl.backend import open_session
    from pgrepl.catalog.store.opening import open_catalog
    from pgrepl.statements.run import run

    session = open_session(open_catalog(folder / "catalog.db"))
    for _ in run(session, "SELECT s FROM few WHERE id = 5"):
        pass
    began = time.perf_counter()
    (found,) = run(session, LOOK_UP)
    assert [row[0] for row in found.rows] == ["five"]
    taken = time.perf_counter() - began
    session.close()
    return taken


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        made = "INSERT INTO {0} SELECT g, CASE g WHEN 5 THEN 'five' ELSE 'a' END FROM generate_series(0, 999) g;"
        text = "".join(f"CREATE TABLE {t} (id bigint, s text); {made.format(t)}\n" for t in ("t", "few"))
        process(["-m", "pgrepl", "-X", "-q", "-v", "ON_ERROR_STOP=1"], folder, text)
        seconds = commit(folder, 1, COMMITTED)
        yield f"a commit of {COMMITTED:,} data files", f"{seconds:.2f} s", "", "2 s", seconds < 2
        commit(folder, COMMITTED + 1, FILES - COMMITTED)
        seconds = look_up(folder)
        yield f"a key among {FILES:,} files", f"{seconds:.2f} s", "", "0.5 s", seconds < 0.5
        cold = process(["-m", "pgrepl", "-X", "-c", LOOK_UP], folder)
        yield "… from cold", f"{cold:.2f} s", "", "1 s", cold < 1


if __name__ == "__main__":
    for line in measure():
        print(*line, sep=" | ")
