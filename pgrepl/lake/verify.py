"""`pgrepl verify` of an instance's catalog and all files of its tables (PostgreSQL's amcheck and pg_checksums).

Nothing is changed. Each table is checked as of one snapshot; others may write meanwhile, and a file that was removed
since then together with its row in the catalog is not missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.tables import pg_class, pg_database, pg_namespace
from pgrepl.catalog.transaction import reading
from pgrepl.catalog.verify import catalog_problems
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake import sql, storage
from pgrepl.lake.definition import see_everything
from pgrepl.lake.expire import known_files, unused_files
from pgrepl.lake.inlined import count_rows
from pgrepl.lake.recent import forget_all
from pgrepl.lake.table import lake_table
from pgrepl.lake.verify_files import UNSUPPORTED, Contents, contents, problems_of, said

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import DataFile, DeleteFile

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
            found = self._contents(name, oid)
            if isinstance(found, Damage):
                yield found
            elif found is not None:
                known.append((name, oid, found))
        total = sum(file.file_size_bytes for _, _, found in known for file in found.every)
        progress(0, total)
        for name, oid, found in known:
            yield from (Damage(name, None, what) for what in found.problems)
            for file in found.every:
                yield from self._of_file(name, oid, found, file)
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
                found = contents(session, table)
                self.inlined_rows += count_rows(session, table, found.last_snapshot)
        except Exception as problem:
            if not isinstance(problem, PgError) or problem.sqlstate != UNSUPPORTED:
                return Damage(name, None, _told(problem))
            self.unknown.append((name, said(problem)))
            return None
        self.tables += 1
        return found

    def _session_of(self, oid: int) -> Session:
        """A session of the table's database, whose types its columns may have."""
        row = store.one(self._session, pg_class, oid=oid)
        return self._session if row is None else self._session.in_database(row.datid)

    def _of_file(self, name: str, oid: int, known: Contents, file: DataFile | DeleteFile) -> Iterator[Damage]:
        for what in problems_of(file, known, quick=self._quick):
            if storage.size_of(file.path) is not None or self._is_known(oid, file):
                yield Damage(name, file.path, what)

    def _is_known(self, oid: int, file: DataFile | DeleteFile) -> bool:
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
