"""Manifests and manifest lists, and the removal of metadata that nobody reads any more.

A manifest has the files of a range (contents.py), and its name a digest of what is in it: one that is there is not
written again. Sequence numbers are DuckLake's snapshots.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.iceberg import avro, tables
from pgrepl.iceberg.avro import facts_of
from pgrepl.iceberg.place import SETTING, TableFolder, digest, folder_names, place_of
from pgrepl.iceberg.schema import Shape
from pgrepl.lake import storage
from pgrepl.lake.read.footers import FILE_PATH

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.iceberg.place import Place

DATA, DELETES = 0, 1  # kinds of files
_KINDS = ("data", "deletes")
NAMED = "pgrepl.files"  # of a file's own facts: the files in this folder that it names


class Statistics(NamedTuple):
    """Of a column in a file, as DuckLake has them."""

    size: int | None
    nulls: int | None
    low: str | None
    high: str | None
    has_nan: Any


class Entry(NamedTuple):
    """What a manifest list is told of an entry."""

    sequence: int
    rows: int
    first_row_id: int | None = None


@dataclass
class Plan:
    """A manifest as it has to be. `make` gives its encoded entries, and the names of the sidecars in them; it is told
    the manifest's last sequence number, whose files are those that were added."""

    name: str
    kind: int
    shape: Shape
    entries: Sequence[Entry]
    rows: int
    make: Callable[[int], tuple[list[bytes], list[str]]]
    row: tuple[int, bytes] = (-1, b"")  # of the manifest's length, its row in a list


class Writer:
    """Writes the manifests of a table, of one version of the format."""

    def __init__(self, folder: TableFolder, version: int) -> None:
        self.folder = folder
        self.version = version

    def name(self, kind: int, of: object, shape: Shape) -> str:
        """The name of the manifest with these contents."""
        return f"metadata/{_KINDS[kind]}-{digest(self.version, self.folder.location, shape.types, of)}.avro"

    def _row(self, plan: Plan) -> bytes:
        """The row of a manifest, which is written if it is not there."""
        size = self.folder.size(plan.name)
        if size is None:
            rows, sidecars = plan.make(max(entry.sequence for entry in plan.entries))
            facts = {
                "schema": json.dumps(plan.shape.json), "schema-id": str(plan.shape.version), "partition-spec": "[]",
                "partition-spec-id": "0", "format-version": str(self.version), "content": _KINDS[plan.kind],
                NAMED: json.dumps(sidecars),
            }  # fmt: skip
            size = self.folder.write(plan.name, avro.container(avro.entry(self.version), facts, rows))
        if plan.row[0] != size:
            plan.row = size, self._encoded(plan, size)
        return plan.row[1]

    def manifest_list(self, snapshot: int, plans: Sequence[Plan]) -> str:
        """The name of the list of a snapshot's manifests."""
        names = [plan.name for plan in plans]
        name = f"metadata/snap-{snapshot}-{digest(self.version, self.folder.location, names)}.avro"
        if self.folder.size(name) is None:
            facts = {"snapshot-id": str(snapshot), "sequence-number": str(snapshot), "parent-snapshot-id": "null",
                     "format-version": str(self.version), NAMED: json.dumps(names)}  # fmt: skip
            rows = [self._row(plan) for plan in plans]
            self.folder.write(name, avro.container(avro.manifest_list(self.version), facts, rows))
        return name

    def _encoded(self, plan: Plan, size: int) -> bytes:
        entries = plan.entries
        last = max(entry.sequence for entry in entries)
        added = [entry.rows for entry in entries if entry.sequence == last]
        rows = sum(entry.rows for entry in entries)
        numbers = (size, 0, plan.kind, last, min(entry.sequence for entry in entries), last, len(added),
                   len(entries) - len(added), 0, sum(added), rows - sum(added), 0)  # fmt: skip
        found = [avro.text(self.folder.path(plan.name)), *map(avro.number, numbers), avro.NOTHING]
        if self.version >= 3:
            first = [entry.first_row_id for entry in entries if entry.first_row_id is not None]
            found.append(avro.some_number(min(first) if first and plan.kind == DATA else None))
        return b"".join(found)

    # --- entries --------------------------------------------------------------------------------------------------

    def data_file(self, shape: Shape, path: str, entry: Entry, size: int, statistics: dict[int, Statistics]) -> bytes:
        """A data file's entry without its head."""
        found = [
            avro.text(path), _parquet(), avro.number(entry.rows), avro.number(size),
            *_metrics(shape, entry.rows, statistics), avro.some_number(0), avro.NOTHING,
        ]  # fmt: skip
        if self.version >= 3:
            found += [avro.some_number(entry.first_row_id), avro.NOTHING, avro.NOTHING]
        return b"".join(found)

    def delete_entry(self, path: str, of: str, entry: Entry, size: int, last: int, vector: Vector | None) -> bytes:
        """`of`: the path of the data file; `vector`: the place of a deletion vector in its file."""
        if vector is None:
            bound = avro.some(avro.array([avro.number(FILE_PATH) + avro.text(of)]))
            metrics, file_format = (avro.NOTHING * 4 + bound * 2), _parquet()
        else:
            metrics, file_format = avro.NOTHING * 6, avro.text("PUFFIN")
        found = [
            head(entry.sequence, last, DELETES), avro.text(path), file_format, avro.number(entry.rows),
            avro.number(size), metrics, avro.NOTHING, avro.some(avro.text(of)),
        ]  # fmt: skip
        if self.version >= 3:
            place = (None, None) if vector is None else vector
            found += [avro.NOTHING, *map(avro.some_number, place)]
        return b"".join(found)


class Vector(NamedTuple):
    """The place of a deletion vector in its file."""

    offset: int
    size: int


@cache
def _parquet() -> bytes:
    return avro.text("PARQUET")


def head(sequence: int, last: int, kind: int) -> bytes:
    """Whether the file was added by the manifest's last snapshot, by which snapshot it was; what it holds."""
    encoded = avro.some_number(sequence)
    return avro.number(1 if sequence == last else 0) + encoded * 3 + avro.number(kind)


def _metrics(shape: Shape, rows: int, statistics: dict[int, Statistics]) -> list[bytes]:
    """Sizes, numbers of values, of NULLs and of NaNs, lower and upper bounds."""
    sizes, counts, nulls, nans, lows, highs = [], [], [], [], [], []
    count = avro.number(rows)
    for leaf in shape.leaves:
        known = statistics.get(leaf.id)
        if known is None:
            continue
        if known.size is not None:
            sizes.append(leaf.key + avro.number(known.size))
        if leaf.is_column:
            counts.append(leaf.key + count)
            if known.nulls is not None:
                nulls.append(leaf.key + avro.number(known.nulls))
        if leaf.is_float:
            if known.has_nan is None or known.has_nan:
                continue  # DuckDB takes NaN for the greatest value, and would skip the file
            nans.append(leaf.key + b"\x00")
        if known.low is not None and (low := leaf.low(known.low)) is not None:
            lows.append(leaf.key + avro.data(low))
        if known.high is not None and (high := leaf.high(known.high)) is not None:
            highs.append(leaf.key + avro.data(high))
    return [avro.some(avro.array(each)) for each in (sizes, counts, nulls, nans, lows, highs)]


# --- cleaning ---------------------------------------------------------------------------------------------------------


HINT = "metadata/version-hint.text"
_LIST = re.compile(r'"manifest-list": "([^"]*)"')
_METADATA = ".metadata.json"
_EXPORTED = re.compile(r"/v\d+\.metadata\.json\Z")
_DIGEST = "[0-9a-f]{24}"
_OURS = re.compile(
    rf"metadata/((00000-{_DIGEST}|v\d+)\.metadata\.json|(data|deletes|snap-\d+)-{_DIGEST}\.avro|version-hint\.text)(\..*tmp)?"
    rf"|data/(rows|deletes)-{_DIGEST}\.(parquet|puffin)(\..*tmp)?"
)
_PARTS = 4  # of the time: so often it is looked for what can go
_MAKING = 60  # seconds that metadata may be in the making


swept: dict[str, float] = {}  # when this process has looked at a folder


def sweep(folder: TableFolder, current: str, grace: int) -> None:
    """Remove what no metadata.json names that was the current one within `grace` seconds. A process looks at a folder
    a few times in that time."""
    now = time.monotonic()
    if now < swept.get(folder.location, -grace) + grace / _PARTS:
        return
    swept[folder.location] = now
    ages = {name: age for name, age in folder.ages().items() if _OURS.fullmatch(name)}
    written = sorted((age, name) for name, age in ages.items() if name.endswith(_METADATA))
    dead = {name for is_of in (_EXPORTED.search, _is_own) for name in _followed(written, is_of, grace)} - {current}
    if not dead or max(ages[name] for name in dead) < grace + grace / _PARTS:
        return
    living = named_by(folder, [name for _, name in written if name not in dead])
    for name, age in ages.items():
        if name in dead or (name not in living and age > max(grace, _MAKING)):
            folder.remove(name)


def _is_own(name: str) -> bool:
    return not _EXPORTED.search(name)


def _followed(written: list[tuple[float, str]], is_of: Callable[[str], object], grace: int) -> list[str]:
    """Those that were followed by another one longer than `grace` ago."""
    return [name for age, name in written if age > grace and is_of(name)][1:]  # the first may have been followed lately


def named_by(folder: TableFolder, metadata: Sequence[str]) -> set[str]:
    """The files that are named by these, directly or not."""
    start = len(folder.location) + 1
    waiting = [path[start:] for name in metadata for path in _LIST.findall(folder.read(name) or "")]
    found = {*metadata, HINT}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if name.endswith(".avro"):
                waiting += json.loads(facts_of(folder.bytes_of(name)).get(NAMED, "[]"))
    return found


def remove_dropped(session: Session) -> None:
    """Remove the metadata of tables that are no more, and of which nothing was asked for within the time."""
    try:
        _remove_dropped(session, place_of(session))
    except PgError as problem:  # there is no place, or it does not answer
        if session.settings.get(SETTING):
            session.notice("WARNING", f"metadata of dropped tables was not removed: {problem.message}")


def _remove_dropped(session: Session, place: Place) -> None:
    grace = int(session.settings.value("pgrepl.iceberg_grace"))
    there = {folder_names(namespace, name) for namespace, name in tables.of_everyone(session)}
    for folder in _folders(place, there):
        ages = folder.ages()
        if ages and all(age > grace for age in ages.values()):
            for name in ages:
                if _OURS.fullmatch(name):
                    folder.remove(name)


def _folders(place: Place, but: set[tuple[str, str]]) -> Iterator[TableFolder]:
    for namespace in storage.folders_in(f"{place.location}/"):
        for name in storage.folders_in(f"{place.location}/{namespace}/"):
            if (namespace, name) not in but:
                yield TableFolder(f"{place.location}/{namespace}/{name}")
