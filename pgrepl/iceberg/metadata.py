"""A table's metadata.json, with all that it names: its schemas, and its snapshots with their manifest lists.

It is made when somebody asks for it, from one read transaction of the catalog. Its name is a digest of the table's
state: if it is there, nothing has changed.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.iceberg import contents as names
from pgrepl.iceberg import schema, tables
from pgrepl.iceberg.contents import Contents, changes, digest, state
from pgrepl.iceberg.manifests import DATA, Writer, sweep
from pgrepl.iceberg.schema import ColumnRow, Columns, Shape
from pgrepl.iceberg.snapshots import Planner
from pgrepl.lake.read.local import promise

if TYPE_CHECKING:
    from pgrepl.iceberg.place import Place, TableFolder
    from pgrepl.iceberg.tables import Described

_MADE_BY = 2  # another number when metadata of the same state would be different
_MOMENT = 100  # milliseconds
_LOOKED_AT = 10  # times as many changes as snapshots


@frozen
class Metadata:
    location: str  # of metadata.json, which is written, as is all that it names
    json: str


def state_of(table: Described) -> str:
    """What changes with each commit and VACUUM that changes the table, and with its options: an ETag."""
    known: list[object] = [_MADE_BY, table.uuid, table.options, _kept(table)]
    for member in table.members:
        known += [member.location, *state(table.session, member)]
    return digest([str(each) for each in known])


def _kept(table: Described) -> int:
    return int(table.session.settings.value("pgrepl.iceberg_snapshots"))


def table_metadata(table: Described, place: Place) -> Metadata:
    """The table's metadata now. What it names stays readable for pgrepl.iceberg_grace."""
    folder = place.of(table)
    grace = int(table.session.settings.value("pgrepl.iceberg_grace"))
    promise(table.session, table.snapshot, grace)
    name = f"metadata/00000-{digest(state_of(table), folder.location)}.metadata.json"  # as ClickHouse wants names
    found = folder.read(name)
    if found is None or not found.endswith("}"):
        found = json.dumps(_Making(table, folder).metadata())
        folder.write(name, found.encode())
        with suppress(PgError):  # what could not be read or removed now is looked at again
            sweep(folder, name, grace)
    return Metadata(folder.path(name), found)


class _Making:
    """One making of a table's metadata."""

    def __init__(self, table: Described, folder: TableFolder) -> None:
        self._table = table
        self._folder = folder
        self._session = table.session
        self._last = table.snapshot
        self._columns = [self._columns_of(member.table_id) for member in table.members]
        self._next_files: dict[int, int] = {}  # at each snapshot
        self._times = self._snapshots()
        since = min(self._times)
        self._contents = [Contents(self._session, member, since) for member in table.members]
        self._version = table.options.version or (3 if self._needs_version_3() else 2)
        self._names = names.of_files(self._session, set().union(*(each.mappings for each in self._contents)))

    def _columns_of(self, table_id: int) -> Columns:
        return Columns([ColumnRow(*row) for row in self._session.link.execute(tables.COLUMNS, (table_id,))])

    # --- snapshots ------------------------------------------------------------------------------------------------

    def _snapshots(self) -> dict[int, int]:
        """The last snapshots that changed the table, and the catalog's last one, with their times. Of those of one
        transaction, which others never see one by one, only the last; and of those of one moment, if there are more
        than are told: so a load is cheap while many commit. VACUUM forgets changes: with the catalog's last the current
        one never goes back."""
        most = _kept(self._table)
        every: set[int] = set()
        for member in self._table.members if most else ():
            every |= changes(self._session, member, _LOOKED_AT * most + 1)
        every = {each for each in every if each < self._last} | {self._last}
        rows = self._session.link.execute(tables.snapshots(len(every)), tuple(every))
        last_of = {_transaction(extra, at): (at, *told) for at, *told, extra in rows}
        found = [(at, schema.milliseconds(when), next_file) for at, when, next_file in sorted(last_of.values())]
        if len(found) > most + 1:
            of_moment = {when // _MOMENT: (at, when, next_file) for at, when, next_file in found}
            found = sorted(of_moment.values())
        chosen = found[-most - 1 :]
        self._next_files = {snapshot: next_file for snapshot, _, next_file in chosen}
        return {snapshot: when for snapshot, when, _ in chosen}

    def _can_be_told(self, snapshot: int) -> bool:
        """Do the files still tell what was there at a snapshot, with its definition?"""
        if any(each.hides(snapshot) for each in self._contents):
            return False
        if self._table.is_tree:
            then = inheritors(self._session.at(snapshot), self._table.relid)
            if then != inheritors(self._session, self._table.relid):
                return False
        return any(columns.at(snapshot) for columns in self._columns) and not (
            self._version < 3 and self._lacking(snapshot)
        )

    def _lacking(self, snapshot: int) -> set[int]:
        found: set[int] = set()
        for columns, contents in zip(self._columns, self._contents, strict=True):
            found |= schema.lacking(columns, snapshot, partial(contents.have, snapshot=snapshot))
        return found & {field.id for field in self._columns[0].at(snapshot)}

    def _needs_version_3(self) -> bool:
        return bool(self._lacking(self._last)) or any(each.has_vectors(self._last) for each in self._contents)

    def _shape(self, snapshot: int) -> Shape:
        return schema.shape(
            self._columns[0],
            snapshot,
            format_version=self._version,
            omits_time=self._table.options.omits_time,
            lacking=self._lacking(snapshot),
            unreadable=self._names.unreadable,
        )

    # --- all of it ------------------------------------------------------------------------------------------------

    def metadata(self) -> dict[str, Any]:
        planner = Planner(self._table, Writer(self._folder, self._version), self._next_files)
        shapes: dict[int, Shape] = {}
        by_version: dict[int, Shape] = {}
        for snapshot in sorted(self._times, reverse=True):
            if snapshot == self._last or self._can_be_told(snapshot):
                shape = self._shape(snapshot)
                same = by_version.setdefault(shape.version, shape)
                if same.ids == shape.ids:
                    same.defaults |= shape.defaults
                    shapes[snapshot] = same
        snapshots: list[dict[str, Any]] = []
        for snapshot in sorted(shapes):
            made = self._snapshot(planner, snapshot, shapes[snapshot])
            if snapshots:
                made["parent-snapshot-id"] = snapshots[-1]["snapshot-id"]
            snapshots.append(made)
        current = shapes[self._last]
        found = {
            "format-version": self._version, "table-uuid": self._table.uuid, "location": self._folder.location,
            "last-sequence-number": self._last, "last-updated-ms": snapshots[-1]["timestamp-ms"],
            "last-column-id": max(columns.highest_id for columns in self._columns),
            "current-schema-id": current.version, "schemas": [by_version[each].json for each in sorted(by_version)],
            "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
            "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": self._properties(current), "current-snapshot-id": self._last,
            "refs": {"main": {"snapshot-id": self._last, "type": "branch"}}, "snapshots": snapshots,
            "snapshot-log": [{key: each[key] for key in ("snapshot-id", "timestamp-ms")} for each in snapshots],
            "metadata-log": [], "statistics": [], "partition-statistics": [],
        }  # fmt: skip
        if self._version >= 3:
            found["next-row-id"] = self._next_row_id()
        return found

    def _snapshot(self, planner: Planner, snapshot: int, shape: Shape) -> dict[str, Any]:
        plans = [plan for each in self._contents for plan in planner.plans(each, shape, snapshot)]
        name = planner.writer.manifest_list(snapshot, plans)
        rows = sum(plan.rows for plan in plans if plan.kind == DATA)
        files = sum(len(plan.entries) for plan in plans if plan.kind == DATA)
        made = {
            "snapshot-id": snapshot, "sequence-number": snapshot, "timestamp-ms": self._times[snapshot],
            "manifest-list": self._folder.path(name), "schema-id": shape.version,
            "summary": {"operation": "overwrite", "total-records": str(rows), "total-data-files": str(files)},
        }  # fmt: skip
        if self._version >= 3:
            made |= {"first-row-id": 0, "added-rows": rows}
        return made

    def _next_row_id(self) -> int:
        found = [self._session.link.execute(tables.NEXT_ROW_ID, (each.table_id,)) for each in self._table.members]
        return max((int(rows[0][0]) for rows in found if rows), default=0)

    def _properties(self, shape: Shape) -> dict[str, str]:
        found = {"pgrepl.table": self._table.full_name}
        if shape.left_out:
            told = [f"{name}: {why}" for name, why in shape.left_out.items()]
            found["pgrepl.left-out"] = "; ".join(told)
        if self._names.mapping:
            found["schema.name-mapping.default"] = json.dumps(self._names.mapping)
        return found


def _transaction(extra: str | None, snapshot: int) -> object:
    """What a snapshot's commit_extra_info says of the transaction that it was made in; else the snapshot alone."""
    return json.loads(extra).get("transaction", snapshot) if extra and '"transaction"' in extra else snapshot
