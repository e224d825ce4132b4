"""The memory of an apply is bounded by logical_decoding_work_mem, however many changes a transaction has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.lake import commit
from pgrepl.lake.read.files import data_files
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.lake.write.file_writer import DataFileWriter
from pgrepl.lake.write.statement import Write
from tests.harness.pair import Pair

ROOT = Path(__file__).resolve().parents[2]
IN_FILE = 200_000

APPLY = """
import resource, sys
from pathlib import Path
from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.replication.log import ServerLog
from pgrepl.replication.subscriber.worker import Worker

session = open_session(open_catalog(Path(sys.argv[1])), "sub")
done = Worker(session, int(sys.argv[2]), ServerLog(None)).round()
assert done.error is None, done.error
print(done.changes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def arrays(ids: Any, word: str) -> list[pa.Array]:
    return [pa.array(ids), pa.array(ids % 100, pa.int32()), pa.array([f"{word} {n}" for n in ids.tolist()])]


def files(table: LakeTable, write: Write, ids: Any, word: str, row_ids: Any = None) -> None:
    for start in range(0, len(ids), IN_FILE):
        part = slice(start, start + IN_FILE)
        writer = DataFileWriter(table, row_ids=row_ids is not None)
        own = None if row_ids is None else pa.array(row_ids[part])
        writer.write_arrays(arrays(ids[part], word), own, len(ids[part]))
        write.insert_files([writer.close()])


def changed(pair: Pair, rows: int) -> int:
    """A table of so many rows on both sides; then, in one transaction, every other one is updated, every tenth is
    deleted, and half as many come. How many changes that are."""
    pair.both("CREATE TABLE t (a bigint PRIMARY KEY, b int, c text)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    ids = np.random.default_rng(1).permutation(rows)
    for session, changes in ((pair.sub.session, False), (pair.pub.session, False), (pair.pub.session, True)):
        if changes:
            options = "WITH (copy_data = false)"
            pair.sub(f"CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p {options}")
        session.transaction.begin_statement(writes=True)
        table = lake_table(session, find_relation(session, range_var(["t"])).oid)
        write = Write(session, table)
        if changes:
            start = 0
            for file in data_files(session, table):
                here = np.arange(start, start + file.record_count)
                write.delete_positions(file.data_file_id, np.flatnonzero((here % 2 == 0) | (here % 10 == 1)))
                start += file.record_count
            files(table, write, ids[::2], "changed", np.arange(0, rows, 2))
            files(table, write, np.arange(rows, rows + rows // 2), "new")
        else:
            files(table, write, ids, "old")
        commit.record_writes(session, [write])
        session.transaction.end_statement()
    return rows // 2 + rows // 10 + rows // 2


def peak(folder: Path, rows: int, memory: str) -> int:
    """Of a process that applies these changes, in megabytes."""
    folder.mkdir()
    pair = Pair(folder)
    try:
        pair.sub(f"ALTER SYSTEM SET logical_decoding_work_mem = '{memory}'")
        count = changed(pair, rows)
        ((subid,),) = pair.sub("SELECT oid FROM pg_subscription")
    finally:
        pair.close()
    command = [sys.executable, "-c", APPLY, str(folder / "catalog.db"), str(subid)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    changes, found = map(int, done.stdout.split())
    assert changes == count
    return found


def test_memory_does_not_grow_with_the_transaction(tmp_path: Path) -> None:
    small, large = peak(tmp_path / "small", 60_000, "2MB"), peak(tmp_path / "large", 260_000, "2MB")
    assert large - small < 50


@pytest.mark.slow
def test_memory_of_millions_of_changes(tmp_path: Path) -> None:
    small, large = peak(tmp_path / "small", 200_000, "8MB"), peak(tmp_path / "large", 3_000_000, "8MB")
    assert large - small < 80
    assert large < 400
