"""`pgrepl verify` of a catalog and all files of its tables: bytes, pages, values and statistics. Nothing is changed.

Each table is checked as of one snapshot while others write. A file of another writer has no checksum in the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import store
from pgrepl.catalog.store.ddl import catalog_problems
from pgrepl.catalog.store.tables import pg_class, pg_database, pg_namespace
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake import sql, storage
from pgrepl.lake.define.definition import see_everything
from pgrepl.lake.define.types import default_text
from pgrepl.lake.expire import known_files, unused_files
from pgrepl.lake.read import footers, inlined
from pgrepl.lake.read.data_file import PUFFIN, DataFile, DeleteFile
from pgrepl.lake.read.file_scan import locate
from pgrepl.lake.read.files import check_entries, delete_files_until, files_between, last_snapshot
from pgrepl.lake.read.footers import forget_all
from pgrepl.lake.read.inlined import count_rows
from pgrepl.lake.table import lake_table
from pgrepl.lake.write import file_writer
from pgrepl.lake.write.delete_files import read_delete_file
from pgrepl.lake.write.statistics import ColumnStatistics, leaves, of_array, order, together
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
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
    by_file: dict[int, dict[int, ColumnStatistics]] = {}
    for file_id, column_id, values, nulls, low, high, has_nan in session.link.execute(
        sql.FILE_STATISTICS, (table.table_id,)
    ):
        nan = None if has_nan is None else bool(has_nan)
        by_file.setdefault(file_id, {})[column_id] = ColumnStatistics(values or 0, nulls or 0, low, high, nan)
    return by_file


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
    next_ids = session.link.execute(sql.NEXT_ROW_ID, (table.table_id,))
    if len(next_ids) != 1 and files:
        yield f"ducklake_table_stats has {len(next_ids)} rows of the table"
    next_row_id = next_ids[0][0] if next_ids else 0
    yield from _bounds(session, table)
    yield from _initial_defaults(table)
    behind = 0
    for file in sorted(files, key=lambda file: (file.row_id_start or 0, file.data_file_id)):
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
    rows = session.link.execute(sql.BOUNDS_OF_TABLE_AND_FILES, (table.table_id,))
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
        file_writer.compare(file)
        if isinstance(file, DeleteFile):
            yield from _of_deletes(file, known)
        else:
            yield from _of_rows(file, footer, known)
    except PgError as problem:
        if problem.sqlstate == UNSUPPORTED:  # of another writer
            return
        yield said(problem)


def _of_deletes(file: DeleteFile, known: Contents) -> Iterator[str]:
    positions, snapshots = read_delete_file(file)
    owner = next((data for data in known.files if data.data_file_id == file.data_file_id), None)
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
    columns = locate(file, footer)
    there = [
        (column, leaf, columns[column.column_id]) for column, leaf in leaves(known.table) if column.column_id in columns
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
            number, exact = leaf.column_id, file.checksum is not None
            wrong = _disagree(leaf.form, recorded[number], sums[number], exact=exact)
            if wrong is not None:
                yield f'the catalog\'s statistics of column "{column.name}" are wrong: {wrong}'


def said(problem: PgError) -> str:
    detail = problem.report.detail
    return problem.message if detail is None else f"{problem.message}: {detail}"


def _items(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    flat = [chunk.flatten() for chunk in chunks]
    return pa.chunked_array(flat, flat[0].type) if flat else array


def _disagree(form: Any, recorded: ColumnStatistics, computed: ColumnStatistics, *, exact: bool) -> str | None:
    if exact and form.element is None and recorded.nulls != computed.nulls:
        return f"{recorded.nulls} NULLs instead of {computed.nulls}"
    if exact and recorded.values != computed.values:
        return f"{recorded.values} values instead of {computed.values}"
    if recorded.has_nan is False and computed.has_nan:
        return "there is a NaN"
    if recorded.low is None or recorded.high is None or computed.low is None or computed.high is None:
        return None
    key = order(form)
    try:
        low, least, most, high = (key(text) for text in (recorded.low, computed.low, computed.high, recorded.high))
        if form.lake.startswith("float"):  # stored when the column was narrower
            low, high = low - abs(low) * 1e-6, high + abs(high) * 1e-6
        if low > least:
            return f"the lowest value is {computed.low}, not {recorded.low}"
        if high < most:
            return f"the highest value is {computed.high}, not {recorded.high}"
    except (ValueError, ArithmeticError, KeyError):
        return f"{recorded.low} and {recorded.high} are no bounds" if exact else None
    return None


def _name(path: str) -> str:
    return PurePosixPath(path).name


_BUSY_OR_READ_ONLY = ("55P03", "25006", "53100", "0A000", "55000")
_NO_DAMAGE = ("53", "55", "57")  # classes of errors: no memory or disk, locked, cancelled
_YOUNG = timedelta(hours=1)  # a younger unused file may be about to be committed


@frozen
class Damage:
    """One piece of damage; without a table it is of the catalog itself."""

    table: str | None  # database.schema.name
    file: str | None
    what: str


class Verification:
    """One verification: `run` finds damage, and the numbers count what was verified."""

    def __init__(self, session: Session, *, database: str | None = None, quick: bool = False) -> None:
        self._session = session
        self._database = database
        self._quick = quick
        self.tables = 0
        self.files = 0
        self.bytes = 0
        self.inlined_rows = 0
        self.unused_files = 0  # VACUUM removes them
        self.unknown: list[tuple[str, str]] = []  # tables that could not be verified, and why

    def run(self, progress: Callable[[int, int], None]) -> Iterator[Damage]:
        """Find damage; `progress` gets the verified bytes and all bytes."""
        forget_all()
        damage = list(self._of_catalog())
        yield from damage or self._of_definitions()
        known = []
        for name, oid in self._named_tables():
            table_contents = self._contents(name, oid)
            if isinstance(table_contents, Damage):
                yield table_contents
            elif table_contents is not None:
                known.append((name, table_contents))
        total = sum(file.file_size_bytes for _, table_contents in known for file in table_contents.every)
        progress(0, total)
        for name, table_contents in known:
            yield from (Damage(name, None, what) for what in table_contents.problems)
            for file in table_contents.every:
                yield from self._of_file(name, table_contents, file)
                self.files += 1
                self.bytes += file.file_size_bytes
                progress(self.bytes, total)
        self._look_for_unused()

    def _of_catalog(self) -> Iterator[Damage]:
        try:
            with reading(self._session):
                for what in catalog_problems(self._session):
                    yield Damage(None, None, what)
        except Exception as problem:
            yield Damage(None, None, _told(problem))

    def _of_definitions(self) -> Iterator[Damage]:
        """Definitions of DuckLake that do not agree with the system tables: bringing them in line must write nothing. A
        catalog that cannot be written now is not checked for this."""
        session = self._session
        transaction = session.transaction
        try:
            with reading(session):
                if session.link.execute(sql.IS_ADOPTED):
                    return  # other writers' definitions may have more
            transaction.begin_statement(writes=True)
            try:
                see_everything(session)
                session.define_in_lake()
                differences = transaction.numbering.changes
            finally:
                transaction.fail_statement()
        except Exception as problem:
            if not isinstance(problem, PgError) or problem.sqlstate not in _BUSY_OR_READ_ONLY:
                yield Damage(None, None, _told(problem))
            return
        for change in differences:
            yield Damage(None, None, f"DuckLake's tables do not say what the system tables say ({change})")

    def _named_tables(self) -> list[tuple[str, int]]:
        session = self._session
        with reading(session):
            databases = {row.oid: row.datname for row in store.rows(session, pg_database)}
            schemas = {(row.datid, row.oid): row.nspname for row in store.rows(session, pg_namespace)}
            return [
                (f"{databases.get(row.datid)}.{schemas.get((row.datid, row.relnamespace))}.{row.relname}", row.oid)
                for row in store.rows(session, pg_class, relkind=("r", "m"), table_id=store.NOT_NULL)
                if self._database is None or databases.get(row.datid) == self._database
            ]

    def _contents(self, name: str, oid: int) -> Contents | Damage | None:
        try:
            with reading(self._session):
                session = self._session_of(oid)
                table = lake_table(session, oid)
                files = contents(session, table)
                self.inlined_rows += count_rows(session, table, files.last_snapshot)
        except Exception as problem:
            if not isinstance(problem, PgError) or problem.sqlstate != UNSUPPORTED:
                return Damage(name, None, _told(problem))
            self.unknown.append((name, said(problem)))
            return None
        self.tables += 1
        return files

    def _session_of(self, oid: int) -> Session:
        """A session of the table's database, whose types its columns may have."""
        row = store.one(self._session, pg_class, oid=oid)
        return self._session if row is None else self._session.in_database(row.datid)

    def _of_file(self, name: str, known: Contents, file: DataFile | DeleteFile) -> Iterator[Damage]:
        for what in problems_of(file, known, quick=self._quick):
            if storage.size_of(file.path) is not None or self._is_known(file):
                yield Damage(name, file.path, what)

    def _is_known(self, file: DataFile | DeleteFile) -> bool:
        """Does the catalog refer to the file now?"""
        with reading(self._session):
            return file.path in known_files(self._session)

    def _look_for_unused(self) -> None:
        try:
            with reading(self._session):
                self.unused_files = sum(age >= _YOUNG for _, age in unused_files(self._session))
        except Exception as problem:
            _told(problem)  # a folder that cannot be listed, or a damaged catalog, which is reported already


def _told(problem: Exception) -> str:
    """The text of an error that damage has caused; errors of other causes are raised. A damaged catalog may lead to
    errors of any kind."""
    if not isinstance(problem, PgError):
        return f"internal error: {type(problem).__name__}: {problem}"
    if problem.sqlstate[:2] in _NO_DAMAGE:
        raise problem
    return said(problem)
