"""Rows and deletes that are inlined in the catalog instead of in files.

DuckLake makes a table of inlined rows for each version of a table's definition (`ducklake_inlined_data_<table>_<schema
version>`: row_id, begin_snapshot, end_snapshot, with a prefix in DuckLake 1.1, and the columns of that version) and one
of deleted positions in data files (`ducklake_inlined_delete_<table>`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pgrepl.ground.errors import PgError
from pgrepl.lake import sql
from pgrepl.lake.define import inlined as inlined_checksums
from pgrepl.lake.define.types import quoted
from pgrepl.lake.read.bounds import limits
from pgrepl.lake.read.data_file import overlay
from pgrepl.lake.table import InlinedTable, inlined_tables
from pgrepl.types import oids
from pgrepl.types.numbers import to_float4

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.connection import CatalogConnection
    from pgrepl.lake.read.bounds import Bound, Limit
    from pgrepl.lake.read.data_file import DataFile, TableOverlay
    from pgrepl.lake.table import LakeColumn, LakeField, LakeTable


Found = TypeVar("Found")


class InlinedRow(NamedTuple):
    row_id: int
    begin_snapshot: int
    values: tuple[Any, ...]
    end_snapshot: int | None = None


def rows(
    session: Session, table: LakeTable, columns: Sequence[LakeColumn], snapshot: int, bounds: Sequence[Bound] = ()
) -> list[InlinedRow]:
    """The inlined rows at the snapshot, in the order in which they were written, with Python values. Rows outside the
    bounds may be among them."""
    alive = "begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?)"
    living = _read(session, table, columns, alive, (snapshot, snapshot), limits(table, bounds))
    own = overlay(session, table, snapshot)
    return living if own is None else _laid_over(living, own, table, columns, bounds)


def rows_between(session: Session, table: LakeTable, snapshot: int, first: int, last: int) -> list[InlinedRow]:
    """The catalog's inlined rows at the snapshot with row ids in this range."""
    alive = "begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?) AND row_id BETWEEN ? AND ?"
    return _read(session, table, table.columns, alive, (snapshot, snapshot, first, last))


def _laid_over(
    kept: list[InlinedRow], own: TableOverlay, table: LakeTable, columns: Sequence[LakeColumn], bounds: Sequence[Bound]
) -> list[InlinedRow]:
    """The catalog's rows with the transaction's pending changes."""
    if own.dead_rows:
        kept = [row for row in kept if row.row_id not in own.dead_rows]
    places = {column.column_id: place for place, column in enumerate(table.columns)}
    picked = [places[column.column_id] for column in columns]
    tests = [
        (places[table.column(bound.attnum).column_id], dict.fromkeys(values))
        for bound in bounds
        if (values := bound.counted) is not None and table.column(bound.attnum).type in _WHOLE
    ]
    mine = own.with_values(*tests[0]) if tests else own.rows.items()
    for row_id, row in mine:
        if all(row[place] in values for place, values in tests[1:]):
            kept.append(InlinedRow(row_id, own.snapshots[row_id], tuple([row[place] for place in picked])))
    kept.sort(key=lambda row: row.begin_snapshot)
    return kept


def _read(
    session: Session,
    table: LakeTable,
    columns: Sequence[LakeColumn],
    condition: str,
    values: tuple[Any, ...],
    limited: Sequence[Limit] = (),
) -> list[InlinedRow]:
    link = session.link
    rows_read: list[InlinedRow] = []
    for inlined in inlined_tables(session, table.table_id):
        picked, readers = _layout(inlined, columns, link.is_sqlite)
        conditions, given = [sql.of_inlined(condition, inlined.prefix)], list(values)
        order = "rowid" if link.is_sqlite else f"{inlined.prefix}row_id"
        for limit in limited if link.is_sqlite else ():
            _add(conditions, given, inlined, limit)
        stored = link.execute(sql.inlined_rows(inlined.name, picked, conditions, order, inlined.prefix), tuple(given))
        for row in stored:
            rows_read.append(InlinedRow(row[0], row[1], tuple([read(row) for read in readers]), row[-1]))
    rows_read.sort(key=lambda row: row.begin_snapshot)
    return rows_read


_MOST_VALUES = 500
_ORDERED_AS_STORED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "varchar")
_WHOLE = ("int8", "int16", "int32", "int64")
_EQUAL_AS_STORED = (*_ORDERED_AS_STORED, "uuid", "date", "timestamp", "timestamptz")


def _add(conditions: list[str], values: list[Any], inlined: InlinedTable, limit: Limit) -> None:
    """Add a bound as a condition on stored values, if their order or equality is the type's."""
    column = limit.column
    stored = next((field.name for field in inlined.columns if field.column_id == column.column_id), None)
    if stored is None:
        return
    name = quoted(stored)
    if limit.is_null:
        conditions.append(f"{name} IS NULL")
    write = limit.form.to_inlined
    if limit.values is not None and column.type in _EQUAL_AS_STORED and len(limit.values) <= _MOST_VALUES:
        conditions.append(f"{name} IN ({', '.join('?' * len(limit.values))})")
        values += [write(value) for value in limit.values]
    if column.type in _ORDERED_AS_STORED:
        if limit.low is not None:
            conditions.append(f"{name} {'>=' if limit.low_inclusive else '>'} ?")
            values.append(write(limit.low))
        if limit.high is not None:
            conditions.append(f"{name} {'<=' if limit.high_inclusive else '<'} ?")
            values.append(write(limit.high))


def _layout(
    inlined: InlinedTable, columns: Sequence[LakeColumn], is_sqlite: bool
) -> tuple[list[str], list[Callable[[tuple[Any, ...]], Any]]]:
    """The names to select, and for each wanted column the function that reads it from a row (after row_id and
    begin_snapshot)."""
    there = {column.column_id: column for column in inlined.columns}
    picked: list[str] = []
    readers: list[Callable[[tuple[Any, ...]], Any]] = []
    for column in columns:
        if column.column_id not in there:
            readers.append(_constant(column.missing))
            continue
        stored = there[column.column_id]
        readers.append(_reader(2 + len(picked), as_stored(column, stored), stored.type))
        as_text = "" if is_sqlite or stored.type in ("varchar", "blob") else "::text"
        picked.append(quoted(stored.name) + as_text)
    return picked, readers


def as_stored(column: LakeColumn, stored: LakeField | LakeColumn) -> LakeColumn:
    """The column with the fields that composite types in it had when values were written as text."""
    if column.row is None or not stored.fields:
        return column
    return replace(column, fields=_with_places(stored.fields, column.fields))


def _with_places(fields: Sequence[LakeField], now: Sequence[LakeField]) -> tuple[LakeField, ...]:
    known = {field.column_id: field for field in now}
    return tuple(
        [
            replace(field, place=same.place, fields=_with_places(field.fields, same.fields))
            if (same := known.get(field.column_id)) is not None
            else field
            for field in fields
        ]
    )


def _constant(value: Any) -> Callable[[tuple[Any, ...]], Any]:
    return lambda row: value


def _reader(at: int, column: LakeColumn, kind: str) -> Callable[[tuple[Any, ...]], Any]:
    read = column.form.from_inlined
    single = kind == "float32" and column.typoid == oids.FLOAT8  # stored when the column was narrower

    def get(row: tuple[Any, ...]) -> Any:
        value = row[at]
        if value is None:
            return None
        if isinstance(value, memoryview):
            value = bytes(value)
        if isinstance(value, bytes) and kind != "blob":  # text in a catalog that cannot hold all text
            value = value.decode()
        converted = read(value)
        if single:
            converted = to_float4(converted)
        return converted

    return get


def rows_changed(
    session: Session, table: LakeTable, columns: Sequence[LakeColumn], after: int, upto: int
) -> tuple[list[InlinedRow], list[tuple[InlinedRow, int]]]:
    """The inlined rows that were inserted behind snapshot `after` up to `upto`, in order; and those that were deleted,
    with the snapshot, in its order."""
    within = "({0} > ? AND {0} <= ?)"
    condition = f"({within.format('begin_snapshot')} OR {within.format('end_snapshot')})"
    changed = _read(session, table, columns, condition, (after, upto, after, upto))
    gone = [
        (row, row.end_snapshot) for row in changed if row.end_snapshot is not None and after < row.end_snapshot <= upto
    ]
    return [row for row in changed if after < row.begin_snapshot <= upto], sorted(gone, key=lambda gone: gone[1])


def among_files(
    files: Sequence[DataFile], rows: Sequence[InlinedRow]
) -> Iterator[tuple[Sequence[InlinedRow], DataFile | None]]:
    """Inlined rows and files in the order of their snapshots: some rows, and the file that follows them."""
    done = 0
    for file in files:
        upto = done
        while upto < len(rows) and rows[upto].begin_snapshot < file.begin_snapshot:
            upto += 1
        yield rows[done:upto], file
        done = upto
    yield rows[done:], None


def count_rows(session: Session, table: LakeTable, snapshot: int) -> int:
    """The number of inlined rows at the snapshot."""
    return remembered(session, "counted", table, snapshot, lambda: _count_rows(session, table, snapshot))


def remembered(
    session: Session, what: str, table: LakeTable, snapshot: int, make: Callable[[], Found], more: object = None
) -> Found:
    """What is made of a table's rows in the catalog at a snapshot, and of `more`: kept until the catalog changes."""
    if not session.transaction.numbering.is_settled(snapshot):
        return make()
    key, now = (what, table.table_id), (session.transaction.catalog_state, snapshot, more)
    known: tuple[object, Found] | None = session.derived.get(key)
    if known is None or known[0] != now:
        known = session.derived[key] = (now, make())
    return known[1]


def _count_rows(session: Session, table: LakeTable, snapshot: int) -> int:
    own = overlay(session, table, snapshot)
    more = 0 if own is None else len(own.rows) - len(own.dead_rows)
    return more + sum(
        int(session.link.execute(sql.count_inlined_rows(inlined.name, inlined.prefix), (snapshot, snapshot))[0][0])
        for inlined in inlined_tables(session, table.table_id)
    )


# --- deletes ------------------------------------------------------------------------------------------------------


def deletes_table(table_id: int) -> str:
    return f"ducklake_inlined_delete_{table_id}"


def exists(link: CatalogConnection, name: str) -> bool:
    if link.is_sqlite:
        return bool(link.execute(sql.IS_TABLE_IN_SQLITE, (name,)))
    return link.execute(sql.IS_TABLE_ON_SERVER, (name,))[0][0] is not None


def deletes(
    session: Session, table: LakeTable, snapshot: int, file_id: int | None = None
) -> dict[int, list[tuple[int, int]]]:
    """The inlined deletes up to the snapshot, of all files or of one: positions and snapshots by file."""
    own = overlay(session, table, snapshot)
    by_file: dict[int, list[tuple[int, int]]] = {}
    link = session.link
    name = deletes_table(table.table_id)
    if exists(link, name):
        of_one = file_id is not None
        query = sql.inlined_deletes(name, of_one_file=of_one)
        for of, position, when in link.execute(query, (snapshot, file_id) if of_one else (snapshot,)):
            by_file.setdefault(of, []).append((position, when))
    for of, positions in () if own is None else own.dead_positions.items():
        if file_id in (None, of):
            by_file.setdefault(of, []).extend(positions.items())
    return by_file


# --- damage -------------------------------------------------------------------------------------------------------


def check(session: Session, table_id: int) -> None:
    """Raise XX001 if inlined rows or deletes do not agree with their checksums, before they are rewritten. Scans do not
    check."""
    for what in damage(session, table_id):
        raise PgError("XX001", f'catalog "{session.catalog.name}" is damaged: {what}')


def damage(session: Session, table_id: int) -> Iterator[str]:
    link = session.link
    if not link.is_sqlite:
        return
    names = [inlined.name for inlined in inlined_tables(session, table_id)]
    of_deletes = deletes_table(table_id)
    for name in [*names, of_deletes] if exists(link, of_deletes) else names:
        for begin in inlined_checksums.damaged(link, name, table_id):
            yield f"the rows of snapshot {begin} in {name} are not as they were written"


def settle(link: CatalogConnection, table_id: int) -> None:
    """Forget checksums of inlined rows that another program has moved (inlined_checksums.settle), under the write
    lock."""
    if not link.is_sqlite:
        return
    names = link.execute(sql.NAMES_OF_INLINED_TABLES, (table_id,))
    for name in [*(name for (name,) in names), deletes_table(table_id)]:
        if exists(link, name):
            inlined_checksums.settle(link, name, table_id)


# --- writing ------------------------------------------------------------------------------------------------------


def insert(
    session: Session, inlined: InlinedTable, table: LakeTable, rows: Sequence[tuple[int, Sequence[Any]]]
) -> None:
    """Insert rows with their row ids at the running statement's snapshot. Values are in the order of the table's
    columns."""
    link = session.link
    snapshot = session.snapshot()
    writers = [column.form.to_inlined for column in table.columns]
    stand_in = (None,) * (len(inlined.columns) - len(writers))  # DuckLake's column of a table that has none
    stored = []
    for row_id, row in rows:
        values = [None if v is None else write(v) for write, v in zip(writers, row, strict=True)]
        stored.append((row_id, snapshot, None, *values, *stand_in))
    link.execute_many(sql.insert_inlined_row(inlined.name, len(inlined.columns)), stored)
    inlined_checksums.add(link, inlined.name, len(rows))


def end_rows(session: Session, table: LakeTable, row_ids: Sequence[int]) -> None:
    """End inlined rows at the running statement's snapshot; those that began at it are deleted."""
    link = session.link
    snapshot = session.snapshot()
    for inlined in inlined_tables(session, table.table_id):
        _remove_new(session, table, inlined, snapshot, row_ids)
        link.execute_many(sql.end_inlined_row(inlined.name, inlined.prefix), [(snapshot, row_id) for row_id in row_ids])


def _remove_new(
    session: Session, table: LakeTable, inlined: InlinedTable, snapshot: int, row_ids: Sequence[int] | None
) -> int:
    """Delete inlined rows that began at this snapshot, all or those with these ids; returns their number."""
    link = session.link
    if not link.is_sqlite or f"inlined_insert:{table.table_id}" not in session.transaction.numbering.changes:
        return 0
    if not link.execute(sql.HAS_INLINED_SUM, (inlined.name, snapshot)):
        return 0
    new = sql.of_inlined(f"begin_snapshot = {snapshot} AND {sql.NOW}", inlined.prefix)
    if row_ids is None:
        return inlined_checksums.delete(link, inlined.name, new, ())
    one = f"{inlined.prefix}row_id = ? AND {new}"
    return sum(inlined_checksums.delete(link, inlined.name, one, (row_id,)) for row_id in row_ids)


def end_all_rows(session: Session, table: LakeTable) -> bool:
    """End all inlined rows (TRUNCATE); whether there were any."""
    link = session.link
    snapshot = session.snapshot()
    ended = 0
    for inlined in inlined_tables(session, table.table_id):
        ended += _remove_new(session, table, inlined, snapshot, None)
        link.execute(sql.end_inlined_rows(inlined.name, inlined.prefix), (snapshot,))
        ended += link.changed_rows
    return ended > 0


def insert_deletes(session: Session, table: LakeTable, positions: Sequence[tuple[int, int]]) -> None:
    """Delete positions (file, position) of data files at the running statement's snapshot."""
    link = session.link
    name = deletes_table(table.table_id)
    if not exists(link, name):
        link.execute(sql.create_inlined_deletes(name))
    snapshot = session.snapshot()
    link.execute_many(
        sql.insert_inlined_delete(name), [(file_id, position, snapshot) for file_id, position in positions]
    )
    if link.is_sqlite:
        inlined_checksums.add(link, name, len(positions))


def remove_deletes(session: Session, table: LakeTable, file_id: int, upto: int) -> None:
    """Remove the inlined deletes of a data file up to a snapshot, which are in a delete file now."""
    name = deletes_table(table.table_id)
    condition, values = "file_id = ? AND begin_snapshot <= ?", (file_id, upto)
    if session.link.is_sqlite:
        inlined_checksums.delete(session.link, name, condition, values)
    else:
        session.link.execute(sql.delete_inlined_rows(name, condition), values)
