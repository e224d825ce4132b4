"""Exports that are killed, that run side by side, and readers that read for long while the lake is rewritten: a reader
sees a whole version or gets an error, never wrong rows."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.iceberg.export import export
from pgrepl.iceberg.place import place_of
from tests.harness.programs import ROOT, environment
from tests.iceberg.conftest import Shop
from tests.iceberg.readers import READERS, Row, duckdb_rows, pyiceberg_rows

EXPORTER = """
import sys, time
from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.iceberg.export import export_tables
session = open_session(open_catalog(sys.argv[1]), "shop")
print("ready", flush=True)
while True:
    export_tables(session, (), None, lambda *_: None)
    time.sleep(0.001)
"""


@contextmanager
def exporting(catalog: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process exports again and again, until it is killed."""
    program = [sys.executable, "-c", EXPORTER, str(catalog)]
    with subprocess.Popen(program, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield process
        finally:
            process.kill()


def rows_of(folder: Path) -> dict[str, list[Row]]:
    return {"pyiceberg": sorted(pyiceberg_rows(str(folder))), "duckdb": sorted(duckdb_rows(str(folder)))}


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_a_killed_export_leaves_a_whole_version(tmp_path: Path, kills: int) -> None:
    """Two exporters work side by side, and are killed at some moment; what is there then was the table at some time,
    and no version is written twice."""
    shop, chance = Shop(tmp_path / "catalog.db"), random.Random(kills)
    shop.sql("SET synchronous_commit = off", "CREATE TABLE t (k int, s text)", "INSERT INTO t VALUES (0, 'first')")
    folder = tmp_path / "catalog.db.iceberg/shop/t"
    known, versions = [shop.rows("SELECT * FROM t")], dict[str, bytes]()
    for kill in range(kills):
        with exporting(tmp_path / "catalog.db") as one, exporting(tmp_path / "catalog.db") as another:
            until = time.monotonic() + chance.uniform(0.02, 0.3)
            while time.monotonic() < until:
                shop.sql(chance.choice([
                    f"INSERT INTO t SELECT g, 'r{len(known)}' FROM generate_series(1, {chance.choice([1, 120])}) g",
                    f"DELETE FROM t WHERE k % 7 = {chance.randrange(7)}", "VACUUM t",
                ]))  # fmt: skip
                known.append(shop.rows("SELECT * FROM t"))
            for process in (one, another):
                process.send_signal(signal.SIGKILL)
        if not (folder / "metadata/version-hint.text").exists():
            continue
        for reader, found in rows_of(folder).items():
            assert sorted(found, key=repr) in known, (reader, kill)
        for path in folder.glob("metadata/v*.metadata.json"):
            assert versions.setdefault(path.name, path.read_bytes()) == path.read_bytes(), path
    with reading(shop.session):
        found = shop.find("t")
        assert found is not None
        export(found, place_of(shop.session))
    assert all(sorted(each, key=repr) == known[-1] for each in rows_of(folder).values())
    shop.close()


@pytest.mark.parametrize("rounds", [18, pytest.param(3000, marks=pytest.mark.slow)])
def test_readers_read_while_the_lake_is_rewritten(tmp_path: Path, rounds: int) -> None:
    """Whoever was told of a snapshot reads its rows later, or gets an error when its files are gone. Each version has
    rows of one number only."""
    shop = Shop(tmp_path / "catalog.db")
    shop.sql("SET synchronous_commit = off", "CREATE TABLE t (k int, v int)",
             "INSERT INTO t SELECT g, 0 FROM generate_series(1, 300) g")  # fmt: skip
    over, wrong, counts = threading.Event(), list[object](), {"read": 0, "errors": 0}
    told: list[str] = [shop.metadata().location]

    def read(reader: str, seed: int) -> None:
        chance = random.Random(seed)
        while not over.is_set():
            location = chance.choice(told[-20:])
            try:
                found = READERS[reader](location)
            except Exception:  # the files are gone: each reader has errors of its own
                counts["errors"] += 1
                continue
            counts["read"] += 1
            if len(found) != 300 or len({v for _, v in found}) != 1:
                wrong.append((reader, location, len(found), {v for _, v in found}))

    readers = ("pyiceberg", "duckdb")
    threads = [threading.Thread(target=read, args=(reader, seed)) for seed, reader in enumerate(readers)]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, rounds + 1):
            shop.sql(f"UPDATE t SET v = {number}")
            told.append(shop.metadata().location)
            if number % 3 == 0:
                if number % 2:
                    shop.forget_promises()
                shop.sql("VACUUM FULL t" if number % 9 == 0 else "VACUUM t")
    finally:
        over.set()
        for thread in threads:
            thread.join()
        shop.close()
    assert not wrong
    assert counts["read"]
