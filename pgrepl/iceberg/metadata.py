"""A table's metadata.json, with all that it names: its schemas, and its snapshots with their manifest lists.

It is made when somebody asks for it, from one read transaction of the catalog. Its name is a digest of the table's
state: if it is there, nothing has changed. After a commit it is made from what the last making has read, and from what
has changed since.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.iceberg import contents as names
from pgrepl.iceberg import schema, tables
from pgrepl.iceberg.contents import Contents, changes, state
from pgrepl.iceberg.manifests import DATA, Writer, sweep
from pgrepl.iceberg.place import digest
from pgrepl.iceberg.schema import ColumnRow, Columns, Shape
from pgrepl.iceberg.snapshots import Planner
from pgrepl.lake.read.local import promise

if TYPE_CHECKING:
    from pgrepl.iceberg.place import Place, TableFolder
    from pgrepl.iceberg.tables import Described

_MADE_BY = 2  # another number when metadata of the same state would be different
_MOMENT = 1000  # milliseconds
_LOOKED_AT = 10  # times as many changes as snapshots
_REMEMBERED = 50_000  # files and inlined rows, of all tables together
_WORN = 5000  # of these, how many may have come until a table is read anew


@frozen
class Metadata:
    location: str  # of metadata.json, which is written, as is all that it names
    json: str


State = tuple[str, ...]


def state_of(table: Described, snapshot: int | None = None) -> State:
    """What changes with each commit and VACUUM that changes the table, and with its options; or of what was there at a
    snapshot, then it does not change with later commits."""
    at = table.snapshot if snapshot is None else snapshot
    known: list[object] = [_MADE_BY, table.uuid, table.options, _kept(table)]
    for member in table.members:
        known += [member.table_id, member.location, *state(table.session, member, at)]
    return tuple([str(fact) for fact in known])


def _kept(table: Described) -> int:
    return int(table.session.settings.value("pgrepl.iceberg_snapshots"))


def table_metadata(table: Described, place: Place, known: State | None = None) -> Metadata:
    """The table's metadata now, of which the state may be known. What it names stays readable for
    pgrepl.iceberg_grace."""
    folder = place.of(table)
    grace = int(table.session.settings.value("pgrepl.iceberg_grace"))
    promise(table.session, table.snapshot, grace)
    known = known or state_of(table)
    name = f"metadata/00000-{digest(known, folder.location)}.metadata.json"  # as ClickHouse wants names
    text = _whole(folder, name)
    if text is None:
        with _locks.setdefault(folder.location, Lock()):
            text = _whole(folder, name)  # another thread may have made it
            if text is None:
                text = json.dumps(_making(table, folder, known).metadata())
                folder.write(name, text.encode())
                with suppress(PgError):  # what could not be read or removed now is looked at again
                    sweep(folder, name, grace)
    return Metadata(folder.path(name), text)


def _whole(folder: TableFolder, name: str) -> str | None:
    text = folder.read(name)
    return text if text is not None and text.endswith("}") else None


_locks: dict[str, Lock] = {}  # of tables, by their folders
_makings: dict[str, Making] = {}  # the last ones, oldest first


def _making(table: Described, folder: TableFolder, known: State) -> Making:
    """The table's last making if it can go on, else a new one."""
    last = _makings.pop(folder.location, None)  # an error would leave it unfinished
    making = last if last is not None and last.goes_on(table) else Making(table)
    making.read(table, folder, known)
    _makings[folder.location] = last if last is not None and last.until > making.until else making
    kept = list(_makings.items())
    while len(kept) > 1 and sum(making.weight for _, making in kept) > _REMEMBERED:
        _makings.pop(kept.pop(0)[0], None)
    return making


class Making:
    """What a table's metadata is made from, as of the snapshot at which it was last made.

    A making goes on where what was there at that snapshot is still as it was, and has only ended: so after commits, not
    after VACUUM.
    """

    def __init__(self, table: Described) -> None:
        self._columns = _columns(table)
        self._state: State = ()
        self.until = -1
        self._version = 0  # of the format
        self._weight = 0  # when it began
        self._contents: list[Contents] = []
        self._planner = Planner()
        self._shapes: dict[object, Shape] = {}
        self._told: dict[int, Shape | None] = {}  # of past snapshots; None: the files do not tell it
        self._made: dict[int, tuple[Shape, str, dict[str, Any]]] = {}  # snapshots, with the names of their lists

    @property
    def weight(self) -> int:
        return sum(contents.weight for contents in self._contents)

    def goes_on(self, table: Described) -> bool:
        return (
            self.until <= table.snapshot
            and self.weight <= 2 * self._weight + _WORN
            and [columns.rows for columns in self._columns] == [columns.rows for columns in _columns(table)]
            and self._state == state_of(table, self.until)
        )

    def read(self, table: Described, folder: TableFolder, known: State) -> None:
        """Read what has changed since the last time."""
        self._table, self._session, self._folder = table, table.session, folder
        self._last = table.snapshot
        most = _LOOKED_AT * _kept(table) + 1
        is_first = not self._contents
        if is_first:
            self._changes = self._all_changes(most)
            self._times = self._snapshots()
            self._contents = [Contents(min(self._times)) for _ in table.members]
        for contents, member in zip(self._contents, table.members, strict=True):
            self._changes |= contents.read(self._session, member, self._last)
        if is_first:
            self._weight = self.weight
        else:
            self._changes = set(sorted(self._changes)[-most:])
            self._times = self._snapshots()
        version = table.options.version or (3 if self._needs_version_3() else 2)
        if version != self._version:
            self._shapes, self._told, self._made = {}, {}, {}
        self._version = version
        self._state, self.until = known, self._last
        self._names = names.of_files(self._session, set().union(*(contents.mappings for contents in self._contents)))

    def _all_changes(self, most: int) -> set[int]:
        snapshots: set[int] = set()
        for member in self._table.members if _kept(self._table) else ():
            snapshots |= changes(self._session, member, most)
        return snapshots

    # --- snapshots ------------------------------------------------------------------------------------------------

    def _snapshots(self) -> dict[int, int]:
        """The last snapshots that changed the table, and the catalog's last one, with their times. Of those of one
        transaction, which others never see one by one, only the last; and of those of one moment, if there are more
        than are told: so a load is cheap while many commit. VACUUM forgets changes: with the catalog's last the current
        one never goes back."""
        most = _kept(self._table)
        every = {snapshot for snapshot in self._changes if snapshot < self._last and most} | {self._last}
        rows = self._session.link.execute(tables.snapshots(len(every)), tuple(every))
        last_of = {_transaction(extra, at): (at, *told) for at, *told, extra in rows}
        snapshots = [(at, schema.milliseconds(when), next_file) for at, when, next_file in sorted(last_of.values())]
        if len(snapshots) > most + 1:
            of_moment = {when // _MOMENT: (at, when, next_file) for at, when, next_file in snapshots}
            snapshots = sorted(of_moment.values())
        chosen = snapshots[-most - 1 :]
        self._next_files = {snapshot: next_file for snapshot, _, next_file in chosen}
        return {snapshot: when for snapshot, when, _ in chosen}

    def _can_be_told(self, snapshot: int) -> bool:
        """Do the files still tell what was there at a snapshot, with its definition?"""
        if any(contents.hides(snapshot) for contents in self._contents):
            return False
        if self._table.is_tree:
            then = inheritors(self._session.at(snapshot), self._table.relid)
            if then != inheritors(self._session, self._table.relid):
                return False
        return any(columns.at(snapshot) for columns in self._columns) and not (
            self._version < 3 and self._lacking(snapshot)
        )

    def _lacking(self, snapshot: int) -> set[int]:
        ids: set[int] = set()
        for columns, contents in zip(self._columns, self._contents, strict=True):
            ids |= schema.lacking_columns(columns, snapshot, partial(contents.have, snapshot=snapshot))
        return ids & {field.id for field in self._columns[0].at(snapshot)}

    def _needs_version_3(self) -> bool:
        return bool(self._lacking(self._last)) or any(contents.has_vectors(self._last) for contents in self._contents)

    def _shape(self, snapshot: int) -> Shape:
        lacking = self._lacking(snapshot)
        key = (self._columns[0].version(snapshot), frozenset(lacking), str(self._names.unreadable))
        if key not in self._shapes:
            self._shapes[key] = schema.shape(
                self._columns[0],
                snapshot,
                format_version=self._version,
                omits_time=self._table.options.omits_time,
                lacking=lacking,
                unreadable=self._names.unreadable,
            )
        return self._shapes[key]

    def _shape_of_past(self, snapshot: int) -> Shape | None:
        """None: the files do not tell the snapshot."""
        if snapshot not in self._told:
            self._told[snapshot] = self._shape(snapshot) if self._can_be_told(snapshot) else None
        return self._told[snapshot]

    # --- all of it ------------------------------------------------------------------------------------------------

    def metadata(self) -> dict[str, Any]:
        self._planner.begin(self._table, Writer(self._folder, self._version), self._next_files)
        shapes: dict[int, Shape] = {}
        by_version: dict[int, Shape] = {}
        for snapshot in sorted(self._times, reverse=True):
            shape = self._shape(snapshot) if snapshot == self._last else self._shape_of_past(snapshot)
            if shape is not None:
                same = by_version.setdefault(shape.version, shape)
                if same.ids == shape.ids:
                    same.defaults |= shape.defaults
                    shapes[snapshot] = same
        self._told = {snapshot: self._told[snapshot] for snapshot in self._times if snapshot in self._told}
        self._made = {snapshot: self._made[snapshot] for snapshot in shapes if snapshot in self._made}
        snapshots: list[dict[str, Any]] = []
        for snapshot in sorted(shapes):
            told = self._snapshot(snapshot, shapes[snapshot])
            parent = {"parent-snapshot-id": snapshots[-1]["snapshot-id"]} if snapshots else {}
            snapshots.append(told | parent)
        current = shapes[self._last]
        metadata = {
            "format-version": self._version, "table-uuid": self._table.uuid, "location": self._folder.location,
            "last-sequence-number": self._last, "last-updated-ms": snapshots[-1]["timestamp-ms"],
            "last-column-id": max(columns.highest_id for columns in self._columns),
            "current-schema-id": current.version,
            "schemas": [by_version[version].json for version in sorted(by_version)],
            "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
            "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": self._properties(current), "current-snapshot-id": self._last,
            "refs": {"main": {"snapshot-id": self._last, "type": "branch"}}, "snapshots": snapshots,
            "snapshot-log": [{key: snapshot[key] for key in ("snapshot-id", "timestamp-ms")} for snapshot in snapshots],
            "metadata-log": [], "statistics": [], "partition-statistics": [],
        }  # fmt: skip
        if self._version >= 3:
            metadata["next-row-id"] = self._next_row_id()
        return metadata

    def _snapshot(self, snapshot: int, shape: Shape) -> dict[str, Any]:
        if snapshot in self._made:
            of, name, known = self._made[snapshot]
            if of is shape and self._folder.size(name) is not None:
                return known
        plans = [plan for contents in self._contents for plan in self._planner.plans(contents, shape, snapshot)]
        name = self._planner.writer.manifest_list(snapshot, plans)
        rows = sum(plan.rows for plan in plans if plan.kind == DATA)
        files = sum(len(plan.entries) for plan in plans if plan.kind == DATA)
        told = {
            "snapshot-id": snapshot, "sequence-number": snapshot, "timestamp-ms": self._times[snapshot],
            "manifest-list": self._folder.path(name), "schema-id": shape.version,
            "summary": {"operation": "overwrite", "total-records": str(rows), "total-data-files": str(files)},
        }  # fmt: skip
        if self._version >= 3:
            told |= {"first-row-id": 0, "added-rows": rows}
        self._made[snapshot] = shape, name, told
        return told

    def _next_row_id(self) -> int:
        ids = [self._session.link.execute(tables.NEXT_ROW_ID, (member.table_id,)) for member in self._table.members]
        return max((int(rows[0][0]) for rows in ids if rows), default=0)

    def _properties(self, shape: Shape) -> dict[str, str]:
        properties = {"pgrepl.table": self._table.full_name}
        if shape.left_out:
            told = [f"{name}: {why}" for name, why in shape.left_out.items()]
            properties["pgrepl.left-out"] = "; ".join(told)
        if self._names.mapping:
            properties["schema.name-mapping.default"] = json.dumps(self._names.mapping)
        return properties


def _columns(table: Described) -> list[Columns]:
    """Of each member."""
    rows_of_members = [table.session.link.execute(tables.COLUMNS, (member.table_id,)) for member in table.members]
    return [Columns([ColumnRow(*row) for row in rows]) for rows in rows_of_members]


def _transaction(extra: str | None, snapshot: int) -> object:
    """What a snapshot's commit_extra_info says of the transaction that it was made in; else the snapshot alone."""
    return json.loads(extra).get("transaction", snapshot) if extra and '"transaction"' in extra else snapshot
