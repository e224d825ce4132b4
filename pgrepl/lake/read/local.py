"""Scans of a table and look-ups of keys in this process; the newest versions of rows that were found; and the pins by
which a reader keeps VACUUM from its snapshot's files.

A pin is a small file in the data folder, named by machine and process; one of a process that has ended does not
count. A promise is a pin until a time, for readers that nobody knows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pgrepl.catalog.locks.lock_file import is_alive, machine
from pgrepl.catalog.session.statistics import count_scan
from pgrepl.ground.errors import PgError
from pgrepl.lake import sql, storage
from pgrepl.lake.read import inlined
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.data_file import RowPlace, once
from pgrepl.lake.read.files import data_file, data_files, exact_ends, last_snapshot
from pgrepl.lake.table import inlined_tables
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.values import hash_form

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.files import DataFolder
    from pgrepl.lake.read.data_file import DataFile
    from pgrepl.lake.read.file_scan import Portion
    from pgrepl.lake.table import LakeColumn, LakeTable

FOLDER = ".readers/"
_LONGEST = timedelta(days=1)


_pins: WeakKeyDictionary[Session, dict[int, str]] = WeakKeyDictionary()


def pin(session: Session, snapshot: int) -> None:
    """Keep the files of the snapshot until the transaction ends."""
    held = _pins.setdefault(session, {})
    if snapshot in held:
        return
    folder = session.catalog.data_path + FOLDER
    path = f"{folder}{_machine()}-{os.getpid()}-{storage.uuid7()}"
    try:
        storage.make_folder(folder)
        storage.write(path, str(snapshot).encode())
    except PgError:  # the lake is read-only, so that its files cannot be removed either
        return
    held[snapshot] = path

    def let_go() -> None:
        held.pop(snapshot, None)
        storage.remove(path)

    session.transaction.callbacks.append(let_go)
    session.transaction.undo.append(let_go)


_PROMISE = "until-"
_STEPS = 8  # in the time of a promise, so that not every reader is promised something new
_promised: dict[DataFolder, int] = {}  # the end of the last promise


def promise(session: Session, snapshot: int, seconds: int) -> None:
    """Keep the files of the snapshot for so many seconds."""
    step = max(seconds // _STEPS, 1)
    until = (int(time.time()) // step + 1) * step + seconds
    folder = session.catalog.data_path + FOLDER
    if not seconds or _promised.get(session.catalog.folder, 0) >= until:
        return  # an older snapshot is promised for as long
    path = f"{folder}{_PROMISE}{until}-{_machine()}-{os.getpid()}"
    with suppress(PgError):  # see `pin`
        storage.make_folder(folder)
        storage.write(path, str(snapshot).encode())
        _promised[session.catalog.folder] = until


def pin_for_block(session: Session, snapshot: int) -> None:
    """Pin the snapshot in a transaction that keeps it: others may VACUUM between its statements."""
    if session.in_block and session.settings.get("transaction_isolation") in ("repeatable read", "serializable"):
        pin(session, snapshot)


def oldest_pin(session: Session) -> int | None:
    """The oldest pinned snapshot."""
    pins = []
    for path, age in storage.listed(session.catalog.data_path + FOLDER):
        if _is_gone(path.rpartition("/")[2], age):
            storage.remove(path)
            continue
        with suppress(PgError, ValueError), storage.reading(path), storage.open_input(path) as file:
            pins.append(int(file.read()))
    return min(pins, default=None)


def _is_gone(name: str, age: timedelta) -> bool:
    if name.startswith(_PROMISE):
        return int(name.split("-")[1]) < time.time()
    where, _, rest = name.partition("-")
    pid = rest.partition("-")[0]
    if where != _machine() or not pid.isdigit():
        return age > _LONGEST
    return not is_alive(int(pid))


def _machine() -> str:
    return machine().replace("-", "_").replace("/", "_")


_PORTION = 4096  # rows made into Python values at a time


def rows(
    session: Session,
    table: LakeTable,
    attnums: Sequence[int],
    bounds: Sequence[Bound] = (),
    places: bool = False,
    snapshot: int | None = None,
    counted: bool = True,
) -> Iterator[tuple[Any, ...]]:
    """The rows of the table at the snapshot (None: as the running transaction sees it, its own writes included), in
    stable order: a tuple of the wanted columns, in that order, and last the RowPlace if `places`.

    Rows outside the bounds may be among them: bounds only save work. Rows are read one by one, but the list of files is
    made at once, so that the statement's own writes meanwhile are not seen. A look-up is not `counted` as a scan.
    """
    at = last_snapshot(session) if snapshot is None else snapshot
    pin_for_block(session, at)
    columns = [table.column(attnum) for attnum in attnums]
    files = data_files(session, table, at, bounds)
    in_catalog = inlined.rows(session, table, columns, at, bounds)
    deletes = inlined.deletes(session, table, at) if files else {}
    return _merged(session if counted else None, table, columns, bounds, places, at, files, in_catalog, deletes)


def columns(
    session: Session, table: LakeTable, attnums: Sequence[int], bounds: Sequence[Bound] = (), *, ends: bool = False
) -> Iterator[tuple[int, list[Any]]]:
    """The rows as the running transaction sees them, in portions: their number, and their columns as Arrow arrays.
    `ends`: only the least and the greatest values are wanted. A file whose statistics have them gives two rows."""
    at = last_snapshot(session)
    pin_for_block(session, at)
    wanted = [table.column(attnum) for attnum in attnums]
    files = data_files(session, table, at, bounds)
    in_catalog = inlined.rows(session, table, wanted, at, bounds)
    deletes = inlined.deletes(session, table, at) if files else {}
    count_scan(session, table.oid, sum(file.record_count for file in files) + len(in_catalog))
    known = _known_ends(session, table, wanted, files, deletes) if ends else {}

    def portions() -> Iterator[tuple[int, list[Any]]]:
        for some, file in inlined.among_files(files, in_catalog):
            if some:
                values = [[row.values[n] for row in some] for n in range(len(wanted))]
                yield len(some), [plain_array(c.form.to_array(v)) for c, v in zip(wanted, values, strict=True)]
            if file is None:
                continue
            if file.data_file_id in known:
                pairs = known[file.data_file_id]
                yield 2, [plain_array(c.form.to_array(pair)) for c, pair in zip(wanted, pairs, strict=True)]
                continue
            from pgrepl.lake.read.file_scan import portions

            for portion in portions(table, file, wanted, bounds, deletes.get(file.data_file_id, []), at, False):
                yield portion.count, portion.whole(wanted)

    return portions()


def answered(session: Session, table: LakeTable, attnums: Sequence[int]) -> list[DataFile]:
    """The files whose rows need not be read for the ends of the columns, or for their number if there are none."""
    at = last_snapshot(session)
    files = data_files(session, table, at)
    deletes = inlined.deletes(session, table, at) if files else {}
    if not attnums:
        return [file for file in files if file.partial_max is None or file.partial_max <= at]
    known = _known_ends(session, table, [table.column(attnum) for attnum in attnums], files, deletes)
    return [file for file in files if file.data_file_id in known]


def _known_ends(
    session: Session,
    table: LakeTable,
    columns: Sequence[LakeColumn],
    files: Sequence[DataFile],
    deletes: dict[int, list[tuple[int, int]]],
) -> dict[int, list[tuple[Any, Any]]]:
    """The ends of the columns in files from which no row is missing, by their statistics."""
    whole = {
        file.data_file_id
        for file in files
        if not file.delete_files and file.partial_max is None and file.data_file_id not in deletes
    }
    ends = exact_ends(session, table, columns) if whole else {}
    return {file_id: pairs for file_id, pairs in ends.items() if file_id in whole}


def counts(session: Session, table: LakeTable, bounds: Sequence[Bound]) -> Iterator[int]:
    """The number of rows within the bounds that the running transaction sees, in portions; inlined rows, which are few,
    count whatever the bounds. It is no scan in the statistics."""
    at = last_snapshot(session)
    files = data_files(session, table, at, bounds)
    deletes = inlined.deletes(session, table, at) if files else {}
    yield inlined.count_rows(session, table, at)
    for file in files:
        from pgrepl.lake.read.file_scan import portions

        for portion in portions(table, file, (), bounds, deletes.get(file.data_file_id, []), at, False):
            yield portion.count


def count(session: Session, table: LakeTable) -> int:
    """The number of rows that the running transaction sees, from the catalog's rows about files; a file is read only if
    those do not suffice."""
    at = last_snapshot(session)
    files = data_files(session, table, at)
    deletes = inlined.deletes(session, table, at) if files else {}
    total = inlined.count_rows(session, table, at)
    for file in files:
        own = deletes.get(file.data_file_id, [])
        if file.partial_max is not None and file.partial_max > at:
            from pgrepl.lake.read.file_scan import portions

            total += sum(portion.count for portion in portions(table, file, (), (), own, at, False))
        elif file.delete_files and (own or any(deletion.partial_max is not None for deletion in file.delete_files)):
            from pgrepl.lake.write.delete_files import joined

            total += file.record_count - len(once(joined(file.delete_files, own, at)[0]))
        else:
            total += file.record_count - sum(deletion.delete_count for deletion in file.delete_files)
            total -= len({position for position, _ in own})
    count_scan(session, table.oid, total)
    return total


def _merged(
    session: Session | None,
    table: LakeTable,
    columns: Sequence[LakeColumn],
    bounds: Sequence[Bound],
    places: bool,
    snapshot: int,
    files: Sequence[DataFile],
    in_catalog: Sequence[inlined.InlinedRow],
    deletes: dict[int, list[tuple[int, int]]],
) -> Iterator[tuple[Any, ...]]:
    count = 0
    try:
        for some, file in inlined.among_files(files, in_catalog):
            count += len(some)
            for row in some:
                yield (*row.values, RowPlace(None, None, row.row_id)) if places else row.values
            if file is None:
                continue
            from pgrepl.lake.read.file_scan import portions

            own = deletes.get(file.data_file_id, [])
            for portion in portions(table, file, columns, bounds, own, snapshot, places):
                count += portion.count
                yield from _rows_of(portion, file, columns, places)
    finally:
        if session is not None:
            count_scan(session, table.oid, count)


def _rows_of(
    portion: Portion, file: DataFile, columns: Sequence[LakeColumn], places: bool
) -> Iterator[tuple[Any, ...]]:
    for start in range(0, portion.count, _PORTION):
        count = min(_PORTION, portion.count - start)
        values: list[Any] = []
        for column, array, constant in zip(columns, portion.arrays, portion.constants, strict=True):
            if array is None:
                values.append([constant] * count)
            else:
                values.append(column.form.from_array(array.slice(start, count)))
        if places:
            assert portion.row_ids is not None
            positions = portion.positions[start : start + count].tolist()
            row_ids = portion.row_ids[start : start + count].tolist()
            values.append(map(RowPlace._make, zip(repeat(file.data_file_id), positions, row_ids, strict=False)))
        yield from zip(*values, strict=False) if values else repeat((), count)


def lookup(
    session: Session,
    table: LakeTable,
    attnums: Sequence[int],
    keys: Sequence[tuple[Any, ...]],
    want: Sequence[int] = (),
    snapshot: int | None = None,
) -> list[tuple[int, tuple[Any, ...]]]:
    """The rows whose columns `attnums` equal one of `keys`: the key's number, the `want` columns and last the RowPlace.

    Keys are compared by the types' default equality (numeric 1.0 = 1, bpchar without trailing blanks). A key with NULL
    matches no row; a key that is given twice is found twice.
    """
    forms = [hash_form(table.column(attnum).typoid) for attnum in attnums]
    wanted: dict[tuple[Any, ...], list[int]] = {}
    for number, key in enumerate(keys):
        if None not in key:
            same = tuple([form(value) for form, value in zip(forms, key, strict=True)])
            wanted.setdefault(same, []).append(number)
    if not wanted:
        return []
    full = [keys[numbers[0]] for numbers in wanted.values()]
    bounds = [Bound(attnum, values=tuple([key[i] for key in full])) for i, attnum in enumerate(attnums)]
    width = len(attnums)
    matches: list[tuple[int, tuple[Any, ...]]] = []
    for row in rows(session, table, [*attnums, *want], bounds, places=True, snapshot=snapshot, counted=False):
        if None in row[:width]:
            continue
        same = tuple([form(value) for form, value in zip(forms, row, strict=False)])
        for number in wanted.get(same, ()):
            matches.append((number, row[width:]))
    return matches


# --- versions ---------------------------------------------------------------------------------------------------------


_AT_ONCE = 500


def standing(session: Session, table: LakeTable, places: Iterable[RowPlace]) -> set[RowPlace]:
    """The places whose rows are still there, as the session sees the catalog."""
    by_file: dict[int | None, list[RowPlace]] = {}
    for place in places:
        by_file.setdefault(place.file, []).append(place)
    from pgrepl.lake.write.delete_files import deleted_positions

    there: set[RowPlace] = set()
    for file_id, here in by_file.items():
        if file_id is None:
            alive = _living(session, table, [place.row for place in here])
            there.update(place for place in here if place.row in alive)
            continue
        file = data_file(session, table, file_id)
        if file is not None:
            gone = set(deleted_positions(session, table, file).tolist())
            there.update(place for place in here if place.pos not in gone)
    return there


def _living(session: Session, table: LakeTable, row_ids: Sequence[int]) -> set[int]:
    """The ids of these rows that are inlined and not deleted."""
    living: set[int] = set()
    for version in inlined_tables(session, table.table_id):
        for start in range(0, len(row_ids), _AT_ONCE):
            some = row_ids[start : start + _AT_ONCE]
            rows = session.link.execute(sql.living_inlined_rows(version.name, len(some), version.prefix), tuple(some))
            living.update(row[0] for row in rows)
    return living


def begun_after(session: Session, table: LakeTable, places: Sequence[RowPlace], snapshot: int) -> set[RowPlace]:
    """The places of inlined rows that have a newer version than the snapshot's."""
    wanted = {place.row: place for place in places if place.file is None}
    begun: set[RowPlace] = set()
    for version in inlined_tables(session, table.table_id) if wanted else ():
        rows = session.link.execute(sql.inlined_rows_begun_after(version.name, version.prefix), (snapshot,))
        begun.update(wanted[row[0]] for row in rows if row[0] in wanted)
    return begun


def updated_after(session: Session, table: LakeTable, row_id: int, snapshot: int) -> bool:
    """Did a deleted row have a newer version than the snapshot's?"""
    return any(
        session.link.execute(sql.is_inlined_row_begun_after(version.name, version.prefix), (row_id, snapshot))
        for version in inlined_tables(session, table.table_id)
    )


def is_begun_between(session: Session, table: LakeTable, place: RowPlace, first: int, last: int) -> bool:
    """Was the version of a row at this place written by one of these snapshots?"""
    link = session.link
    if place.file is not None:
        begins = link.execute(sql.BEGIN_OF_FILE, (place.file,))
    else:
        versions = inlined_tables(session, table.table_id)
        asked = [sql.begins_of_inlined_row(version.name, version.prefix) for version in versions]
        begins = [row for query in asked for row in link.execute(query, (place.row,))]
    return any(first <= begin <= last for (begin,) in begins)


def newest(
    session: Session, table: LakeTable, attnums: Sequence[int], row_ids: Collection[int]
) -> dict[int, tuple[Any, ...]]:
    """The rows with these ids as they are now, by id: the columns, and last the RowPlace. Deleted rows are left out."""
    wanted = set(row_ids)
    return {
        row[-1].row: row
        for row in rows(session, table, attnums, places=True, snapshot=last_snapshot(session))
        if row[-1].row in wanted
    }
