"""The checks of a table's files, and of the catalog's rows about them, by `pgrepl verify`.

Each file is read as a whole: its bytes are compared with the checksum, its pages with theirs, its values with the
statistics by which readers skip files. A file of another writer has no checksum in the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake import checksums, footers, inlined, sql
from pgrepl.lake.data_file import PUFFIN, DataFile, DeleteFile
from pgrepl.lake.definition_types import default_text
from pgrepl.lake.delete_file import read_delete_file
from pgrepl.lake.file_scan import locate
from pgrepl.lake.files import check_entries, delete_files_until, files_between, last_snapshot
from pgrepl.lake.statistics import ColumnStatistics, leaves, of_array, order, together
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeTable


UNSUPPORTED = "0A000"


@frozen
class Contents:
    """A table's files and statistics in the catalog at a snapshot."""

    table: LakeTable
    files: tuple[DataFile, ...]  # of all snapshots
    deletes: tuple[DeleteFile, ...]
    statistics: Mapping[int, Mapping[int, ColumnStatistics]]  # by file and column
    last_snapshot: int
    problems: tuple[str, ...]  # of the catalog's rows

    @property
    def every(self) -> list[DataFile | DeleteFile]:
        return [*self.files, *self.deletes]


def contents(session: Session, table: LakeTable) -> Contents:
    last = last_snapshot(session)
    problems = list(inlined.damage(session, table.table_id))
    files: list[DataFile] = []
    deletes: list[DeleteFile] = []
    try:
        check_entries(session, table.table_id)
        files = files_between(session, table, -1, last)
        deletes = delete_files_until(session, table, last)
    except PgError as problem:
        problems.append(problem.message)
    problems += _rows(session, table, files, deletes, inlined.deletes(session, table, last))
    return Contents(table, tuple(files), tuple(deletes), _statistics(session, table), last, tuple(problems))


def _statistics(session: Session, table: LakeTable) -> dict[int, dict[int, ColumnStatistics]]:
    found: dict[int, dict[int, ColumnStatistics]] = {}
    for file_id, column_id, values, nulls, low, high, has_nan in session.link.execute(
        sql.FILE_STATISTICS,
        (table.table_id,),
    ):
        nan = None if has_nan is None else bool(has_nan)
        found.setdefault(file_id, {})[column_id] = ColumnStatistics(values or 0, nulls or 0, low, high, nan)
    return found


# --- rows of the catalog ----------------------------------------------------------------------------------------------


def _rows(
    session: Session,
    table: LakeTable,
    files: list[DataFile],
    deletes: list[DeleteFile],
    gone: Mapping[int, Sequence[tuple[int, int]]],
) -> Iterator[str]:
    """Rows of the catalog about the table that contradict each other."""
    by_id = {file.data_file_id: file for file in files}
    found = session.link.execute(sql.NEXT_ROW_ID, (table.table_id,))
    if len(found) != 1 and files:
        yield f"ducklake_table_stats has {len(found)} rows of the table"
    next_row_id = found[0][0] if found else 0
    yield from _bounds(session, table)
    yield from _initial_defaults(table)
    behind = 0
    for file in sorted(files, key=lambda each: (each.row_id_start or 0, each.data_file_id)):
        if file.row_id_start is None or file.checksum is None:
            continue
        if file.row_id_start < behind:
            yield f'row ids of file "{_name(file.path)}" begin within another file\'s'
        behind = file.row_id_start + file.record_count
        if behind > next_row_id:
            yield f'row ids of file "{_name(file.path)}" go up to {behind - 1}, but the next one is {next_row_id}'
    for delete_file in deletes:
        owner = by_id.get(delete_file.data_file_id)
        if owner is None:
            yield f'delete file "{_name(delete_file.path)}" belongs to no file of the table'
    for file_id, positions in gone.items():
        owner = by_id.get(file_id)
        for position, _ in positions:
            if owner is None or not 0 <= position < owner.record_count:
                what = f"row {position} of file {file_id}"
                yield f"ducklake_inlined_delete_{table.table_id} names {what}, which is not there"


def _bounds(session: Session, table: LakeTable) -> Iterator[str]:
    """Columns whose bounds in the table do not include those in a file."""
    forms = {leaf.column_id: leaf.form for _, leaf in leaves(table)}
    rows = session.link.execute(
        sql.BOUNDS_OF_TABLE_AND_FILES,
        (table.table_id,),
    )
    wrong = set()
    for column_id, low, high, least, most in rows:
        form = forms.get(column_id)
        if form is None or None in (low, high, least, most):
            continue
        try:
            key = order(form)
            if key(low) > key(least) or key(high) < key(most):
                wrong.add(column_id)
        except (ValueError, ArithmeticError, KeyError):
            continue  # a text of another writer
    for column_id in sorted(wrong):
        yield f"ducklake_table_column_stats has narrower bounds of column {column_id} than a file has"


def _initial_defaults(table: LakeTable) -> Iterator[str]:
    """Columns whose initial_default, by which other readers fill older rows, is not PostgreSQL's attmissingval."""
    for column in table.columns:
        wanted = None if column.missing is None else default_text(column.missing, column.typoid, column.typmod)
        if wanted is None or wanted == column.initial_default:
            continue
        try:
            same = read_text(column.initial_default or "", column.typoid, column.typmod) == column.missing
        except PgError:
            same = False
        if not same or column.initial_default is None:
            what = "none" if column.initial_default is None else f'"{column.initial_default}"'
            yield f'ducklake_column has {what} as the initial default of column "{column.name}" instead of "{wanted}"'


# --- files ------------------------------------------------------------------------------------------------------------


def problems_of(file: DataFile | DeleteFile, known: Contents, *, quick: bool) -> Iterator[str]:
    """The problems of a file; `quick`: only its footer is read."""
    try:
        if isinstance(file, DeleteFile) and file.format == PUFFIN:
            yield from _of_deletes(file, known)
            return
        footer = footers.of(file)
        if quick:
            return
        checksums.compare(file)
        if isinstance(file, DeleteFile):
            yield from _of_deletes(file, known)
        else:
            yield from _of_rows(file, footer, known)
    except PgError as problem:
        if problem.sqlstate == UNSUPPORTED:  # of another writer
            return
        yield said(problem)


def _of_deletes(file: DeleteFile, known: Contents) -> Iterator[str]:
    import numpy as np

    positions, snapshots = read_delete_file(file)
    owner = next((each for each in known.files if each.data_file_id == file.data_file_id), None)
    if len(positions) and not bool((np.diff(positions) > 0).all()):
        yield "its positions do not ascend"
    if owner is not None and len(positions) and not 0 <= positions.min() <= positions.max() < owner.record_count:
        yield f"its positions go up to {positions.max()} in a file of {owner.record_count} rows"
    if len(snapshots) and snapshots.max() > known.last_snapshot:
        yield f"it names snapshot {snapshots.max()}, the last one is {known.last_snapshot}"
    if owner is not None and file.format != PUFFIN:
        footer = footers.of(file)
        paths = footer.by_id.get(footers.FILE_PATH) or footer.by_name["file_path"]
        with footers.DataFileReader(footer) as reader:
            named = reader.read(footer.row_groups, [paths])[0].unique().to_pylist()
        if any(_name(path) != _name(owner.path) for path in named):
            yield f'it names file "{_name(named[0])}" instead of "{_name(owner.path)}"'


def _of_rows(file: DataFile, footer: footers.Footer, known: Contents) -> Iterator[str]:
    """Read all row groups, and compare the values of each column with its bounds."""
    found = locate(file, footer)
    there = [
        (column, leaf, found[column.column_id]) for column, leaf in leaves(known.table) if column.column_id in found
    ]
    looked_at = {in_file.position for _, _, in_file in there}
    others = [column for column in footer.by_name.values() if column.position not in looked_at]
    sums: dict[int, ColumnStatistics] = {}
    with footers.DataFileReader(footer) as reader:
        for group in footer.row_groups:
            arrays = reader.read([group], [*(in_file for _, _, in_file in there), *others])
            for (column, leaf, _), array in zip(there, arrays, strict=False):
                try:
                    new = of_array(leaf.form, array if column.form.element is None else _items(array))
                except (ValueError, OverflowError):  # stored in another way than the type's
                    continue
                before = sums.get(leaf.column_id)
                sums[leaf.column_id] = new if before is None else together(leaf.form, before, new)
    recorded = known.statistics.get(file.data_file_id, {})
    for column, leaf, _ in there:
        if leaf.column_id in recorded and leaf.column_id in sums:
            wrong = _disagree(
                leaf.form, recorded[leaf.column_id], sums[leaf.column_id], exact=file.checksum is not None
            )
            if wrong is not None:
                yield f'the catalog\'s statistics of column "{column.name}" are wrong: {wrong}'


def said(problem: PgError) -> str:
    detail = problem.report.detail
    return problem.message if detail is None else f"{problem.message}: {detail}"


def _items(array: Any) -> Any:
    import pyarrow as pa

    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    flat = [chunk.flatten() for chunk in chunks]
    return pa.chunked_array(flat, flat[0].type) if flat else array


def _disagree(form: Any, recorded: ColumnStatistics, found: ColumnStatistics, *, exact: bool) -> str | None:
    if exact and form.element is None and recorded.nulls != found.nulls:
        return f"{recorded.nulls} NULLs instead of {found.nulls}"
    if exact and recorded.values != found.values:
        return f"{recorded.values} values instead of {found.values}"
    if recorded.has_nan is False and found.has_nan:
        return "there is a NaN"
    if recorded.low is None or recorded.high is None or found.low is None or found.high is None:
        return None
    key = order(form)
    try:
        low, least, most, high = (key(text) for text in (recorded.low, found.low, found.high, recorded.high))
        if form.lake.startswith("float"):  # stored when the column was narrower
            low, high = low - abs(low) * 1e-6, high + abs(high) * 1e-6
        if low > least:
            return f"the lowest value is {found.low}, not {recorded.low}"
        if high < most:
            return f"the highest value is {found.high}, not {recorded.high}"
    except (ValueError, ArithmeticError, KeyError):
        return f"{recorded.low} and {recorded.high} are no bounds" if exact else None
    return None


def _name(path: str) -> str:
    return PurePosixPath(path).name
