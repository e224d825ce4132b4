"""Column ids in the leaves of a partitioned table. They agree where they can, so that other engines find one table in
the files of all leaves: a new column gets the id that it has in the first of the other leaves.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pgrepl.catalog import store, tables
from pgrepl.catalog.ducklake import ducklake_column
from pgrepl.catalog.inheritance import children, partition_ancestors
from pgrepl.lake import sql

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class Siblings:
    """The other leaves of the partitioned table that a table is a leaf of, if it is."""

    def __init__(self, session: Session, oid: int, table_id: int) -> None:
        self._session, self._oid, self._table_id = session, oid, table_id

    def new_id(self, name: str, kind: str, after: int) -> int:
        """The id of a new column of the table, greater than `after`: that of the same column in another leaf, or one
        that neither had."""
        highest = _highest_id(self._session, self._table_id)
        if self._other is None:
            return highest + 1
        theirs = self._theirs.get(name)
        if theirs is not None and theirs.column_type == kind and theirs.column_id > after:
            if _may_have(self._session, self._table_id, theirs):
                return theirs.column_id
        return max(highest, _highest_id(self._session, self._other)) + 1

    @cached_property
    def _other(self) -> int | None:
        return _other_leaf(self._session, self._oid)

    @cached_property
    def _theirs(self) -> dict[str, ducklake_column]:
        return {} if self._other is None else _columns(self._session, self._other)


def first_to_renumber(session: Session, oid: int) -> int | None:
    """The first column of a leaf with another id than in other leaves, by its number. None: they agree, or cannot,
    since the columns stand in another order or the ids were those of other columns."""
    row = store.one(session, tables.pg_class, oid=oid)
    other = _other_leaf(session, oid)
    if row is None or row.table_id is None or other is None:
        return None
    ours, theirs = _columns(session, row.table_id), _columns(session, other)
    names = {column.column_id: name for name, column in ours.items()}
    first, last = None, 0
    for attribute in sorted(store.rows(session, tables.pg_attribute, attrelid=oid), key=lambda a: a.attnum):
        if attribute.attnum <= 0 or attribute.attisdropped:
            continue
        column = theirs.get(names.get(attribute.column_id or 0, ""))
        if column is None or column.column_id <= last or column.column_type != ours[column.column_name].column_type:
            return None
        last = column.column_id
        if first is None and column.column_id != attribute.column_id:
            first = attribute.attnum
        if first is not None and not _may_have(session, row.table_id, column):
            return None
    return first


def _other_leaf(session: Session, oid: int) -> int | None:
    """The first other leaf of the partitioned table that a leaf is of, by its id as a table of the lake."""
    ancestors = partition_ancestors(session, oid)
    return _first_leaf(session, ancestors[-1], oid) if ancestors else None


def _first_leaf(session: Session, parent: int, but: int) -> int | None:
    for child in children(session, parent):
        row = None if child == but else store.one(session, tables.pg_class, oid=child)
        if row is None:
            continue
        found = _first_leaf(session, child, but) if row.relkind == "p" else row.table_id
        if found is not None:
            return found
    return None


def _columns(session: Session, table_id: int) -> dict[str, ducklake_column]:
    found = store.rows(session, ducklake_column, table_id=table_id, end_snapshot=None)
    return {row.column_name: row for row in found if row.parent_column is None}


def _may_have(session: Session, table_id: int, column: ducklake_column) -> bool:
    """Had the table never another column of this id? Old snapshots are read by ids, too."""
    if column.column_id > _highest_id(session, table_id):
        return True
    had = store.rows(session, ducklake_column, table_id=table_id, column_id=column.column_id)
    return bool(had) and all(
        (row.column_name, row.column_type, row.parent_column) == (column.column_name, column.column_type, None)
        and row.default_value_type
        for row in had
    )


def _highest_id(session: Session, table_id: int) -> int:
    return int(session.link.execute(sql.HIGHEST_COLUMN_ID, (table_id,))[0][0] or 0)
