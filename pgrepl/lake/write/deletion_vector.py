"""Deletion vectors: the deleted positions of a data file as a Roaring bitmap, as Iceberg defines them for Puffin files.

A file of DuckLake 1.0 is one bare blob; its deletions are of the snapshot at which the file begins. One of DuckLake 1.1
may be a Puffin container, as Iceberg has it, with a blob for each snapshot; each has all positions that are deleted at
its snapshot.

blob:      size (big-endian) | magic | bitmap | CRC-32 of magic and bitmap (big-endian)
bitmap:    number of 32-bit bitmaps, and of each its upper 32 bits and itself (Roaring's portable format)
container: PFA1 | blobs | PFA1 | JSON about the blobs | its size | flags | PFA1
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.ground.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]

_MAGIC, _PUFFIN = b"\xd1\xd3\x39\x64", b"PFA1"
_TYPE, _SNAPSHOT = "deletion-vector-v1", "ducklake-snapshot-id"
_TAIL = 12  # bytes behind the JSON of a container
_NO_RUNS, _RUNS = 12346, 12347  # cookies of a 32-bit bitmap
_IN_ARRAY = 4096  # values of a container up to which they are listed
_OFFSETS = 4  # containers from which on a bitmap with runs has offsets


class Damaged(ValueError):
    """The bytes are no deletion vector."""


class Blob(NamedTuple):
    """A vector in a file. `snapshot` None: that at which the file begins."""

    snapshot: int | None
    offset: int
    length: int


# --- files ------------------------------------------------------------------------------------------------------------


def blobs(data: bytes) -> list[Blob]:
    """The vectors in a file, by their snapshots."""
    if data[4:8] == _MAGIC:
        return [Blob(None, 0, len(data))]
    if len(data) < 4 * 2 + _TAIL or data[:4] != _PUFFIN or data[-4:] != _PUFFIN:
        raise Damaged("It is no deletion vector.")
    size, flags = struct.unpack("<II", data[-_TAIL:-4])
    start = len(data) - _TAIL - size
    if flags or start < 8 or data[start - 4 : start] != _PUFFIN:
        raise Damaged("Its footer cannot be read.")
    try:
        found = [_blob(each) for each in json.loads(data[start:-_TAIL])["blobs"] if each["type"] == _TYPE]
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Damaged("Its footer cannot be read.") from problem
    if not all(4 <= blob.offset <= blob.offset + blob.length <= start - 4 for blob in found):
        raise Damaged("Its footer names bytes that are not there.")
    return sorted(found, key=lambda blob: -1 if blob.snapshot is None else blob.snapshot)


def _blob(given: dict[str, Any]) -> Blob:
    snapshot = given.get("properties", {}).get(_SNAPSHOT)
    return Blob(None if snapshot is None else int(snapshot), int(given["offset"]), int(given["length"]))


def read(data: bytes, begin_snapshot: int) -> tuple[Positions, Positions]:
    """The positions in a file, ascending, and the snapshot of each: of the first vector that has it."""
    positions = snapshots = np.empty(0, np.int64)
    for blob in reversed(blobs(data)):
        here = decode(data[blob.offset : blob.offset + blob.length])
        when = np.int64(begin_snapshot if blob.snapshot is None else blob.snapshot)
        known = np.isin(positions, here, assume_unique=True)
        snapshots[known] = when
        if np.count_nonzero(known) < len(here):  # in the last vector: it has all positions of earlier ones
            missing = np.setdiff1d(here, positions, assume_unique=True) if len(positions) else here
            positions = np.concatenate([positions, missing])
            snapshots = np.concatenate([snapshots, np.full(len(missing), when)])
            if len(missing) < len(positions):
                order = np.argsort(positions)
                positions, snapshots = positions[order], snapshots[order]
    return positions, snapshots


def made(positions: Positions, snapshots: Positions | None, path: str, *, contained: bool = True) -> tuple[bytes, int]:
    """A file with positions, ascending, of the data file at `path`, and the size of its footer. `snapshots`: of the
    deletions. Iceberg's readers want a container; a bare blob is all that DuckLake 1.0 knows."""
    if not contained:
        return encode(positions), 0
    file = _PUFFIN
    told = []
    for snapshot in [None] if snapshots is None else np.unique(snapshots).tolist():
        here = positions if snapshots is None or snapshot is None else positions[snapshots <= snapshot]
        blob = encode(here)
        properties = {"referenced-data-file": path, "cardinality": str(len(here))}
        if snapshot is not None:
            properties[_SNAPSHOT] = str(snapshot)
        told.append(
            {"type": _TYPE, "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": len(file),
             "length": len(blob), "properties": properties}
        )  # fmt: skip
        file += blob
    footer = json.dumps({"blobs": told, "properties": {"created-by": "pgrepl"}}).encode()
    end = _PUFFIN + footer + struct.pack("<II", len(footer), 0) + _PUFFIN
    return file + end, len(end)


# --- blobs ------------------------------------------------------------------------------------------------------------


def decode(blob: bytes) -> Positions:
    """The positions in a vector, ascending."""
    if len(blob) < 20 or blob[4:8] != _MAGIC or int.from_bytes(blob[:4], "big") != len(blob) - 8:
        raise Damaged("It is no deletion vector.")
    if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
        raise Damaged("The checksum of a vector does not agree.")
    found = [np.empty(0, np.int64)]
    try:
        (count,) = struct.unpack_from("<q", blob, 8)
        at = 16
        for _ in range(count):
            (upper,) = struct.unpack_from("<I", blob, at)
            at = _decode_bitmap(blob, at + 4, upper << 32, found)
    except (struct.error, ValueError) as problem:
        raise Damaged("A vector cannot be read.") from problem
    if at != len(blob) - 4:
        raise Damaged("A vector cannot be read.")
    return np.concatenate(found)


def _decode_bitmap(blob: bytes, at: int, upper: int, found: list[Any]) -> int:
    """Add the values of the 32-bit bitmap at `at`, each with `upper` added; returns where it ends."""
    (cookie,) = struct.unpack_from("<I", blob, at)
    runs = bytes(0)
    if cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", blob, at + 4)
        at += 8
    elif cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        at += 4
        runs = blob[at : at + (count + 7) // 8]
        at += len(runs)
    else:
        raise ValueError(cookie)
    heads = np.frombuffer(blob, "<u2", 2 * count, at).astype(np.int64).reshape(-1, 2).tolist()
    at += 4 * count + (4 * count if not runs or count >= _OFFSETS else 0)
    for number, (key, most) in enumerate(heads):
        size, values = _decode_container(blob, at, most + 1, bool(runs) and runs[number // 8] >> number % 8 & 1 == 1)
        found.append(values + (upper + (key << 16)))
        at += size
    return at


def _decode_container(blob: bytes, at: int, count: int, is_runs: bool) -> tuple[int, Positions]:
    """The size of a container, and its values."""
    if is_runs:
        (number,) = struct.unpack_from("<H", blob, at)
        pairs = np.frombuffer(blob, "<u2", 2 * number, at + 2).astype(np.int64).reshape(-1, 2)
        lengths = pairs[:, 1] + 1
        before = np.cumsum(lengths) - lengths
        return 2 + 4 * number, np.arange(lengths.sum()) + np.repeat(pairs[:, 0] - before, lengths)
    if count <= _IN_ARRAY:
        return 2 * count, np.frombuffer(blob, "<u2", count, at).astype(np.int64)
    bits = np.frombuffer(blob, np.uint8, 8192, at)
    return 8192, np.flatnonzero(np.unpackbits(bits, bitorder="little").view(np.bool_))


def encode(positions: Positions) -> bytes:
    """A vector with distinct positions, ascending."""
    uppers, starts = np.unique(positions >> 32, return_index=True)
    parts = [_MAGIC, struct.pack("<q", len(uppers))]
    for upper, here in zip(uppers.tolist(), np.split(positions, starts[1:]) if len(uppers) else (), strict=True):
        parts += [struct.pack("<I", upper), *_encode_bitmap(here & 0xFFFFFFFF)]
    whole = b"".join(parts)
    return struct.pack(">I", len(whole)) + whole + struct.pack(">I", zlib.crc32(whole))


def _encode_bitmap(values: Positions) -> Iterator[bytes]:
    """A 32-bit bitmap of listed values and of bits, without runs: every reader knows these."""
    keys, starts = np.unique(values >> 16, return_index=True)
    containers = [_encode_container(here) for here in np.split(values & 0xFFFF, starts[1:])]
    counts = np.diff(np.append(starts, len(values)))
    yield struct.pack("<II", _NO_RUNS, len(keys))
    yield np.stack([keys, counts - 1], 1).astype("<u2").tobytes()
    sizes = np.array([8 + 8 * len(keys), *map(len, containers[:-1])])
    yield np.cumsum(sizes).astype("<u4").tobytes()
    yield from containers


def _encode_container(values: Positions) -> bytes:
    if len(values) <= _IN_ARRAY:
        return values.astype("<u2").tobytes()
    bits = np.zeros(1 << 16, np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()
