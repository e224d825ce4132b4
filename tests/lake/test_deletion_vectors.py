"""Deletion vectors beside DuckDB's, and what is done with tables that have them."""

from __future__ import annotations

import json
import random
import struct
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from pgrepl.ground.errors import PgError
from pgrepl.lake.read.files import data_files
from pgrepl.lake.read.footers import forget_all
from pgrepl.lake.verify import Verification
from pgrepl.lake.write.delete_files import Damaged, decode, encode, made, read
from tests.harness.dose import dose
from tests.lake.conftest import Lake
from tests.lake.test_changes import feed, state
from tests.lake.test_delete_files import assert_history, delete_files

VECTORS = ("CALL lake.set_option('write_deletion_vectors', true)", "CALL lake.set_option('data_inlining_row_limit', 0)")


def positions(chance: random.Random, top: int) -> Any:
    """Some of the positions below `top`: few, many, ranges, at the ends of containers."""
    share = chance.choice((0.0001, 0.01, 0.2, 0.9))
    found = {chance.randrange(top) for _ in range(int(top * share))} | {65535, 65536, top - 1}
    start = chance.randrange(top)
    found |= set(range(start, min(top, start + chance.choice((0, 10, 9000, 70000)))))
    return np.array(sorted(found), np.int64)


@pytest.mark.parametrize("seed", [0, 1, *dose(range(2, 30), 99, 98)])
def test_what_is_written_is_read(seed: int) -> None:
    chance = random.Random(seed)
    here = positions(chance, 300_000)
    if seed % 2:
        here = np.concatenate([here, here + (3 << 32), here + (5 << 40)])
    assert decode(encode(here)).tolist() == here.tolist()
    when = np.array([chance.randrange(5, 9) for _ in here])
    found, snapshots = read(made(here, when, "/a")[0], 0)
    assert (found.tolist(), snapshots.tolist()) == (here.tolist(), when.tolist())


def test_no_positions() -> None:
    assert decode(encode(np.empty(0, np.int64))).tolist() == []


def blob_of(bitmap: bytes) -> bytes:
    whole = b"\xd1\xd3\x39\x64" + struct.pack("<qI", 1, 0) + bitmap
    return struct.pack(">I", len(whole)) + whole + struct.pack(">I", zlib.crc32(whole))


@pytest.mark.parametrize("count", [3, 5])  # of containers: from four on there are offsets
def test_containers_of_runs(count: int) -> None:
    """Other writers have them: in turn runs and lists here."""
    runs = [n for n in range(count) if n % 2 == 0]
    bits = sum(1 << n for n in runs)
    bitmap = struct.pack("<I", 12347 | count - 1 << 16) + bytes([bits])
    expected: list[int] = []
    bodies = []
    for n in range(count):
        ranges = [(1, 3), (100, 200), (65534, 65535)] if n in runs else [(7, 7), (9, 9)]
        values = [v for low, high in ranges for v in range(low, high + 1)]
        expected += [v + (n << 16) for v in values]
        bitmap += struct.pack("<HH", n, len(values) - 1)
        pairs = [struct.pack("<HH", low, high - low) for low, high in ranges]
        listed = struct.pack(f"<{len(values)}H", *values)
        bodies.append(struct.pack("<H", len(ranges)) + b"".join(pairs) if n in runs else listed)
    bitmap += bytes(4 * count if count >= 4 else 0) + b"".join(bodies)
    assert decode(blob_of(bitmap)).tolist() == expected


def test_a_container_of_duckdbs() -> None:
    """As its pull request 1244 shows it; the first vector may have no snapshot, and other blobs are left alone."""
    first, second = encode(np.array([1, 5])), encode(np.array([1, 3, 5]))
    data = b"PFA1" + first + second
    told = [
        {"type": "apache-datasketches-theta-v1", "offset": 4, "length": 1},
        {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4,
         "length": len(first), "properties": {"referenced-data-file": "a.parquet", "cardinality": "2"}},
        {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1,
         "offset": 4 + len(first), "length": len(second),
         "properties": {"referenced-data-file": "a.parquet", "cardinality": "3", "ducklake-snapshot-id": "9"}},
    ]  # fmt: skip
    payload = json.dumps({"blobs": told, "properties": {"created-by": "ducklake"}}).encode()
    data += b"PFA1" + payload + struct.pack("<II", len(payload), 0) + b"PFA1"
    found, snapshots = read(data, 4)
    assert (found.tolist(), snapshots.tolist()) == ([1, 3, 5], [4, 9, 4])


@pytest.mark.parametrize("kind", ["bare", "container"])
def test_damaged_bytes_are_noticed(kind: str) -> None:
    here = np.arange(0, 100_000, 7)
    data = made(here, None if kind == "bare" else here % 2 + 3, "/a", contained=kind != "bare")[0]
    chance = random.Random(1)
    for cut in (0, 3, 8, 30, len(data) - 1):
        with pytest.raises(Damaged):
            read(data[:cut], 3)
    for _ in range(60):
        bit = chance.randrange(len(data) * 8)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with suppress(Damaged):  # a footer has no checksum of its own: the catalog has one of the file
            assert len(read(bytes(flipped), 3)[0]) in (len(here), 0, len(here) // 2, (len(here) + 1) // 2)


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def t(lake: Lake) -> Lake:
    lake.duck_runs(*VECTORS)
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("INSERT INTO t SELECT g, 'x' FROM generate_series(0, 99999) g")
    lake.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    return lake


def formats(lake: Lake) -> list[tuple[Any, ...]]:
    return lake.query(
        "SELECT format, partial_max IS NOT NULL, footer_size > 0 FROM ducklake_delete_file WHERE end_snapshot IS NULL"
        " ORDER BY delete_file_id"
    )


def problems(lake: Lake) -> list[str]:
    return [str(each) for each in Verification(lake.session).run(lambda done, total: None)]


CONDITIONS = ("a % 3 = 0", "a BETWEEN 65000 AND 80000")


def test_vectors_of_duckdb_are_read(t: Lake) -> None:
    for condition in CONDITIONS:
        before = t.last_snapshot()
        t.duck_runs(f"DELETE FROM postgres.t WHERE {condition}")
        last = t.last_snapshot()
        assert formats(t) == [("puffin", False, False)]
        theirs = t.duck("SELECT count(*), sum(a) FROM postgres.t")
        rows = state(t, last)
        assert theirs == [(str(len(rows)), str(sum(a for a, _ in rows.values())))]
        assert {change[1] for change in feed(t, before, last)} >= state(t, before).keys() - rows.keys()
    assert problems(t) == []
    t.sql("DELETE FROM t WHERE a < 10000")  # DuckDB's vector and new positions, of two snapshots
    assert formats(t) == [("parquet", True, True)]
    rows = state(t, t.last_snapshot())
    t.sql("VACUUM t")
    assert formats(t) == []
    assert state(t, t.last_snapshot()) == rows


def test_vectors_are_written_where_the_option_says_so(t: Lake) -> None:
    first = t.last_snapshot()
    t.sql("DELETE FROM t WHERE a % 500 = 0")
    assert formats(t) == [("puffin", False, False)]
    (path,) = delete_files(t)
    t.sql("DELETE FROM t WHERE a % 500 = 1")
    assert formats(t) == [("parquet", True, True)]  # DuckLake 1.0 knows one vector a file
    assert_history(t, first)
    assert problems(t) == []
    t.sql("SET pgrepl.file_grace = 0")
    t.sql("VACUUM")
    assert not path.exists()
    stray = delete_files(t)[0].with_name("stray-delete.puffin")
    stray.write_bytes(b"x")
    t.sql("VACUUM")
    assert not stray.exists()


def test_bytes_are_duckdbs(t: Lake) -> None:
    """DuckDB writes the same vector for the same deletions."""
    t.sql("CREATE TABLE u AS SELECT * FROM t")
    for name in ("t", "u"):
        delete = f"DELETE FROM {name} WHERE a % 3 = 0 OR a % 50000 = 1 OR a BETWEEN 80000 AND 81000"
        t.sql(delete) if name == "t" else t.duck_runs(delete.replace("u", "postgres.u", 1))
    ours, theirs = delete_files(t)
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("seed", dose(range(12), 12))
def test_duckdb_reads_random_vectors(lake: Lake, seed: int) -> None:
    lake.duck_runs(*VECTORS)
    chance = random.Random(seed)
    lake.sql("CREATE TABLE t (a int)")
    lake.sql("INSERT INTO t SELECT generate_series(0, 99999)")
    here = positions(chance, 100_000)
    with lake.statement():
        (file,) = data_files(lake.session, lake.table("t"))
    lake.write("t", lambda write: write.delete_positions(file.data_file_id, here))
    assert formats(lake) == [("puffin", False, False)]
    left = sorted(set(range(100_000)) - set(here.tolist()))
    found = lake.duck("SELECT count(*), sum(a), sum(a::hugeint * a) FROM postgres.t")
    assert found == [tuple(map(str, (len(left), sum(left), sum(a * a for a in left))))]


def test_a_damaged_vector(t: Lake) -> None:
    t.sql("DELETE FROM t WHERE a % 500 = 0")
    (path,) = delete_files(t)
    data = path.read_bytes()
    for change in (data[:-1], data[:100] + bytes([data[100] ^ 1]) + data[101:], encode(np.arange(400))):
        path.write_bytes(change)
        forget_all()
        with pytest.raises(PgError) as error:
            t.rows("t")
        assert error.value.sqlstate == "XX001"
        assert len(problems(t)) == 1
    path.unlink()
    forget_all()
    with pytest.raises(PgError):
        t.rows("t")
