"""DuckLake's columns of a table, which follow pg_attribute.

A column keeps its id for life, so that files are not rewritten when it is renamed or gets wider. A type that files
cannot be read as makes it a new column; the columns behind it get new ids, too, as DuckDB takes the order of ids for
that of columns. In the leaves of a partitioned table ids agree where they can, so that other engines find one table
in their files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation_parts import children, partition_ancestors, unproven
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.ducklake import ducklake_column, ducklake_column_tag
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.define import schemas as versions
from pgrepl.lake.define.inlined import keep_inlining
from pgrepl.lake.define.types import (
    RESERVED_COLUMNS,
    ColumnType,
    column_type,
    default_text,
    fits,
    free,
    holds_places,
    lower,
)
from pgrepl.lake.table import missing_value
from pgrepl.types.lake.structs import NO_COLUMNS

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


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
    types = {column.column_id: name for name, column in ours.items()}
    first, last = None, 0
    for attribute in sorted(store.rows(session, tables.pg_attribute, attrelid=oid), key=lambda a: a.attnum):
        if attribute.attnum <= 0 or attribute.attisdropped:
            continue
        column = theirs.get(types.get(attribute.column_id or 0, ""))
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
        leaf = _first_leaf(session, child, but) if row.relkind == "p" else row.table_id
        if leaf is not None:
            return leaf
    return None


def _columns(session: Session, table_id: int) -> dict[str, ducklake_column]:
    columns = store.rows(session, ducklake_column, table_id=table_id, end_snapshot=None)
    return {row.column_name: row for row in columns if row.parent_column is None}


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


Constant = Callable[["Session", Any], Any]  # a stored default expression → its value if it is constant, else None

NO_DEFAULT = "NULL"


@frozen
class _Column:
    """A column as DuckLake should have it."""

    attnum: int  # 0: NO_COLUMNS
    column_id: int | None
    name: str
    type: ColumnType
    type_changes: bool
    before: ColumnType | None  # with the attributes that composite types in it had before the running statement
    nulls_allowed: bool
    default: str
    initial_default: str | None = None


def define_columns(session: Session, oid: int, table_id: int, constant: Constant, before: Session | None) -> bool:
    """Bring the columns in line with pg_attribute; whether anything changed. `before`: the definitions before the
    running statement, if it has changed attributes of composite types."""
    rows = store.rows(session, ducklake_column, table_id=table_id, end_snapshot=None)
    now = {row.column_id: row for row in rows if row.parent_column is None}
    wanted = _wanted(session, oid, now, constant, before)
    kept = {column.column_id for column in wanted}
    doomed = [column_id for column_id in now if column_id not in kept]
    for column_id in doomed:
        _end(session, table_id, column_id, rows)
    changed = laid_out = bool(doomed)
    last = 0
    siblings = Siblings(session, oid, table_id)
    for column in wanted:
        row = now.get(column.column_id) if column.column_id is not None else None
        if row is None:
            last = _add(session, oid, table_id, column, siblings, last)
            changed = laid_out = True
            continue
        last = max(last, row.column_id)
        difference = _difference(row, column)
        if difference:
            eq = {"table_id": table_id, "column_id": row.column_id}
            versions.change(session, ducklake_column, row, eq, **difference)
            changed = True
            laid_out |= "column_name" in difference or "column_type" in difference
        if column.before is not None and _define_fields(session, table_id, rows, row, column.type, column.before):
            changed = laid_out = True
    if laid_out:
        keep_inlining(session, table_id)
    return changed


def replace_column(session: Session, oid: int, attnum: int) -> None:
    """Give the column a new id at the statement's end: its values are about to be converted."""
    row = store.one(session, tables.pg_attribute, attrelid=oid, attnum=attnum)
    if row is not None and row.column_id is not None and row.column_id > 0:
        where = {"attrelid": oid, "attnum": attnum}
        store.amend(session, tables.pg_attribute, where, column_id=-row.column_id)


def _wanted(
    session: Session, oid: int, now: dict[int, ducklake_column], constant: Constant, before: Session | None
) -> list[_Column]:
    attributes = [
        a
        for a in store.rows(session, tables.pg_attribute, attrelid=oid)
        if a.attnum > 0 and not a.attisdropped and a.attgenerated != "v"
    ]
    attributes.sort(key=lambda a: a.attnum)
    if not attributes:
        there = next((id_ for id_, row in now.items() if row.column_name == NO_COLUMNS), None)
        return [_Column(0, there, NO_COLUMNS, ColumnType("boolean"), False, None, True, NO_DEFAULT)]
    given = column_names(attributes, {id_: row.column_name for id_, row in now.items()})
    columns = []
    replaced = False
    for attribute in attributes:
        replaced |= (attribute.column_id or 0) < 0
        column_id = None if replaced else attribute.column_id
        row = now.get(column_id) if column_id is not None else None
        columns.append(_column(session, attribute, column_id, given[attribute.attnum], row, constant, before))
    return columns


def column_names(attributes: Sequence[tables.pg_attribute], now: Mapping[int, str]) -> dict[int, str]:
    """Each column's name in DuckLake, by its number."""
    taken: set[str] = set()
    names: dict[int, str] = {}
    for attribute in sorted(attributes, key=lambda a: a.attnum):
        name = attribute.attname
        # another writer's column keeps a reserved name
        if attribute.column_id is None or now.get(attribute.column_id) != name:
            name = free(name, taken | RESERVED_COLUMNS)
        name = free(name, taken)
        taken.add(lower(name))
        names[attribute.attnum] = name
    return names


def _column(
    session: Session,
    attribute: tables.pg_attribute,
    column_id: int | None,
    name: str,
    row: ducklake_column | None,
    constant: Constant,
    before: Session | None,
) -> _Column:
    typmod = -1 if attribute.atttypmod is None else attribute.atttypmod
    typoid = session.type_of(attribute.atttypid)
    kind = column_type(typoid, typmod, attribute.attndims or 0)
    changes = row is not None and row.column_type != kind.name and not fits(row.column_type, typoid, typmod)
    default = default_of(session, attribute, typmod, constant)
    if row is not None and row.default_value_type == "expression" and _is_theirs(session, attribute, row):
        assert row.default_value is not None
        default = row.default_value
    missing = missing_value(session, attribute) if attribute.atthasmissing else None
    initial = None if missing is None else default_text(missing, typoid, typmod)
    then = None if before is None else column_type(before.type_of(attribute.atttypid), typmod)
    nulls = may_be_null(session, attribute)
    return _Column(attribute.attnum, column_id, name, kind, changes, then, nulls, default, initial)


def may_be_null(session: Session, attribute: tables.pg_attribute) -> bool:
    """Can rows have NULL there? Those of before a NOT NULL that is NOT VALID can."""
    return not attribute.attnotnull or attribute.attnum in unproven(session, attribute.attrelid)


def default_of(session: Session, attribute: tables.pg_attribute, typmod: int, constant: Constant) -> str:
    """The column's default as DuckLake has it: a constant, or NO_DEFAULT."""
    if not attribute.atthasdef or attribute.attgenerated:
        return NO_DEFAULT
    row = store.one(session, tables.pg_attrdef, adrelid=attribute.attrelid, adnum=attribute.attnum)
    value = None if row is None else constant(session, row.adbin)
    text = None if value is None else default_text(value, session.type_of(attribute.atttypid), typmod)
    return NO_DEFAULT if text is None else text


def _is_theirs(session: Session, attribute: tables.pg_attribute, row: ducklake_column) -> bool:
    """Is the default that another writer has set as SQL still the column's?"""
    ours = store.one(session, tables.pg_attrdef, adrelid=attribute.attrelid, adnum=attribute.attnum)
    return bool((attribute if ours is None else ours).begin_snapshot <= row.begin_snapshot)


def _difference(row: ducklake_column, column: _Column) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if row.column_name != column.name:
        changes["column_name"] = column.name
    if column.type_changes:
        changes["column_type"] = column.type.name
    if bool(row.nulls_allowed) != column.nulls_allowed:
        changes["nulls_allowed"] = column.nulls_allowed
    if (row.default_value or (NO_DEFAULT if row.default_value is None else "")) != column.default:
        changes |= {"default_value": column.default, "default_value_type": "literal", "default_value_dialect": "duckdb"}
    return changes


def _define_fields(
    session: Session,
    table_id: int,
    rows: Sequence[ducklake_column],
    row: ducklake_column,
    kind: ColumnType,
    before: ColumnType,
) -> bool:
    """Bring the fields of composite types inside a column in line with their attributes; whether anything changed.
    Fields keep their ids as columns do: an attribute's field has the name that it had before the statement."""
    if row.column_type != kind.name or not holds_places(kind) or kind.name != before.name:
        return False
    inside = [child for child in rows if child.parent_column == row.column_id]
    if kind.name == "list":
        (_, element), (_, element_before) = kind.fields[0], before.fields[0]
        return bool(inside) and _define_fields(session, table_id, rows, inside[0], element, element_before)
    old = {name: (place, known) for (name, known), place in zip(before.fields, before.places, strict=True)}
    kept: dict[int, tuple[ducklake_column, ColumnType]] = {}
    changed = False
    for child_row in inside:
        place, known = old.get(child_row.column_name, (None, kind))
        if place is not None and place in kind.places:
            kept[place] = child_row, known
        else:
            _end(session, table_id, child_row.column_id, rows)
            changed = True
    for (name, wanted), place in zip(kind.fields, kind.places, strict=True):
        if place not in kept:
            new_rows: list[dict[str, Any]] = []
            _collect(new_rows, table_id, _highest_id(session, table_id) + 1, row.column_id, name, wanted)
            versions.begin_many(session, ducklake_column, new_rows)
            changed = True
            continue
        field, known = kept[place]
        if field.column_name != name:
            eq = {"table_id": table_id, "column_id": field.column_id}
            versions.change(session, ducklake_column, field, eq, column_name=name)
            changed = True
        changed |= _define_fields(session, table_id, rows, field, wanted, known)
    return changed


def _end(session: Session, table_id: int, column_id: int, rows: Sequence[ducklake_column]) -> None:
    """End a column and the fields nested in it."""
    versions.end(session, ducklake_column, table_id=table_id, column_id=column_id)
    versions.end(session, ducklake_column_tag, table_id=table_id, column_id=column_id)
    for row in rows:
        if row.parent_column == column_id:
            _end(session, table_id, row.column_id, rows)


def _add(session: Session, oid: int, table_id: int, column: _Column, siblings: Siblings, last: int) -> int:
    """Add a column; its id, which is greater than `last`."""
    column_id = siblings.new_id(column.name, column.type.name, last)
    new_rows: list[dict[str, Any]] = []
    _collect(new_rows, table_id, column_id, None, column.name, column.type)
    new_rows[0] |= {
        "nulls_allowed": column.nulls_allowed,
        "default_value": column.default,
        "initial_default": column.initial_default,
    }
    versions.begin_many(session, ducklake_column, new_rows)
    if column.attnum:
        _number(session, oid, column.attnum, column_id)
    return column_id


def _number(session: Session, oid: int, attnum: int, column_id: int) -> None:
    """Note a column's id. The version of the column that had another one keeps it: older snapshots are read by it."""
    where = {"attrelid": oid, "attnum": attnum}
    row = store.one(session, tables.pg_attribute, **where)
    if row is None or row.column_id is None or row.begin_snapshot == session.snapshot():
        store.amend(session, tables.pg_attribute, where, column_id=column_id)
    else:
        store.update(session, tables.pg_attribute, where, column_id=column_id)


def _collect(
    collected: list[dict[str, Any]], table_id: int, column_id: int, parent: int | None, name: str, kind: ColumnType
) -> int:
    """Collect the rows of a column and of its nested fields, with ids in depth; returns the next free id."""
    collected.append(
        {
            "column_id": column_id,
            "table_id": table_id,
            "column_order": column_id,
            "column_name": name,
            "column_type": kind.name,
            "initial_default": None,
            "default_value": NO_DEFAULT,
            "nulls_allowed": True,
            "parent_column": parent,
            "default_value_type": "" if kind.fields else "literal",
            "default_value_dialect": "duckdb",
        }
    )
    following = column_id + 1
    for field, inner in kind.fields:
        following = _collect(collected, table_id, following, column_id, field, inner)
    return following
