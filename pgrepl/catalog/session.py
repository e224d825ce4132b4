"""A session: one role in one database, with its settings, its transaction and what it remembers of the catalog."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog import statistics, tables
from pgrepl.catalog.context import Block, DatabaseName, Origin
from pgrepl.catalog.settings import Settings
from pgrepl.catalog.store import Row, one
from pgrepl.catalog.transaction import Transaction
from pgrepl.errors import PgError, Report

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from pgrepl.catalog.client import CopyClient
    from pgrepl.catalog.connection import Catalog, CatalogConnection
    from pgrepl.catalog.declarative import SystemRow
    from pgrepl.types.text import TextStyle

_SEVERITY_SQLSTATE = {"WARNING": "01000"}
# client_min_messages from the chattiest; INFO is always sent
_LOUDNESS = {
    "DEBUG5": 0, "DEBUG4": 1, "DEBUG3": 2, "DEBUG2": 3, "DEBUG1": 4, "DEBUG": 4, "LOG": 5, "INFO": 6, "NOTICE": 7,
    "WARNING": 8, "ERROR": 9,
}  # fmt: skip


_SLICE = 0.05  # seconds between two looks at who has the catalog's lock

# what relations, search paths and the reach of roles are derived from
_SOURCES = frozenset(
    {
        "pg_attribute", "pg_auth_members", "pg_authid", "pg_class", "pg_database", "pg_namespace", "ducklake_column",
        "ducklake_schema", "ducklake_table", "ducklake_inlined_data_tables",
    }
)  # fmt: skip


class SessionOrigin(Origin, Protocol):
    """An origin that moves with the session's commits."""

    def advance(self, session: Session) -> None:
        """Before a commit: its position moves with what is written."""


class LakeKeeper(Protocol):
    def define(self, session: Session) -> None:
        """Bring DuckLake's rows in line with what the running statement has touched; it is done with it then."""

    def adopt(self, session: Session) -> None:
        """Bring the system tables in line with what others have defined in the lake."""


_KEEPER = "pgrepl.statements.lake"


def _keeper() -> LakeKeeper:
    """The keeper lives on a higher floor, which is imported when there is something to do."""
    made: LakeKeeper = import_module(_KEEPER).KEEPER
    return made


class Session:
    """What PostgreSQL calls a backend."""

    origin: SessionOrigin | None = None

    def __init__(
        self,
        catalog: Catalog,
        database: str = "postgres",
        user: str = "postgres",
        *,
        on_report: Callable[[Report], None] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Connect, as a client does: FATAL errors as PostgreSQL's. `settings` are the start-up packet's."""
        self.catalog = catalog
        self.link: CatalogConnection = catalog.connect()
        self.on_report: Callable[[Report], None] = on_report or (lambda report: None)
        self.memory: dict[str, dict[Any, list[Row]]] = {}  # store.py: what was read of each table
        self._derived: dict[Any, Any] = {}
        self.pid = os.getpid()
        self.settings = Settings(self)
        self.beside = Beside(self)
        self.transaction = Transaction(self)
        self.query = ""  # the text that is running
        self.at_close: list[Callable[[], None]] = []
        self.at_error: list[Callable[[], None]] = []
        self.emptied_at_commit: list[int] = []  # temporary tables made ON COMMIT DELETE ROWS
        self._database_oid = 0  # until the role has been let in
        try:
            self._connect(database, user, settings or {})
            if catalog.obstacle is not None:
                self.notice("WARNING", f'catalog "{catalog.name}" can only be read: {catalog.obstacle.reason}')
        except BaseException:
            self.close()
            raise

    def _connect(self, database: str, user: str, settings: Mapping[str, str]) -> None:
        from pgrepl.catalog import login

        self.transaction.begin_statement()
        role, row = login.admit(self, user, database)
        self.authenticated_user: int = role.oid
        self._database_oid = row.oid
        self._derived.clear()  # who is in pg_database_owner depends on the database
        login.apply_settings(self, role, row, settings)
        self.transaction.locks.restore()
        self.transaction.end_statement()
        statistics.count(self, statistics.DATABASE, row.oid, sessions=1)

    def elsewhere(self, database: int, role: int, *, apart: bool = False, catalog: Catalog | None = None) -> Session:
        """What another database or role sees, without connecting there: in the running transaction, or `apart` from it
        on a connection of its own, which the caller closes; with `catalog` in another instance."""
        apart = apart or catalog is not None
        other = Session.__new__(Session)
        other.catalog = catalog or self.catalog
        other.link = other.catalog.connect() if apart else self.link
        other.on_report = self.on_report
        other.memory = {} if apart else self.memory
        other._derived = {}
        other.pid = self.pid
        other.settings = Settings(other)
        if catalog is None:
            other.settings.take_system(self.settings)
        other.beside = Beside(other) if apart else self.beside
        other.transaction = Transaction(other) if apart else self.transaction
        other.query = ""
        other.at_close = []
        other.at_error = []
        other.emptied_at_commit = []
        other.authenticated_user = role
        other._database_oid = database
        return other

    def at(self, snapshot: int, database: int | None = None) -> Session:
        """The same transaction's view of the catalog as it was at a past snapshot; only to look."""
        past = self.elsewhere(database or self._database_oid, self.role)
        past.memory = {}
        past.as_of = snapshot
        return past

    @property
    def derived(self) -> dict[Any, Any]:
        """Relations and the like, made from several tables. What others have changed before the running statement is
        not in it."""
        if self.transaction.in_statement:
            self.transaction.require_read()
        return self._derived

    # --- who and where --------------------------------------------------------------------------------------------

    @property
    def database(self) -> DatabaseName:
        """The database by its present name; another session may have renamed it."""
        row = one(self, tables.pg_database, oid=self._database_oid)
        return DatabaseName(self._database_oid, row.datname if row is not None else "")

    @property
    def is_admitted(self) -> bool:
        """Has the role been let into the database?"""
        return self._database_oid != 0

    @property
    def database_oid(self) -> int:
        return self._database_oid

    @property
    def user(self) -> int:
        """The session user: SET SESSION AUTHORIZATION changes it."""
        return int(self.settings.extra("session_authorization") or self.authenticated_user)

    @property
    def role(self) -> int:
        """The current user, whose privileges count: SET ROLE changes it."""
        return self._acting or int(self.settings.extra("role") or 0) or self.user

    client: CopyClient | None = None  # whom COPY FROM STDIN and COPY TO STDOUT speak with
    streams = False  # whether the client takes results in portions, and so need not wait for all rows
    rows_written: Callable[[int, int], None] | None = None  # told of rows and bytes that Spark has written
    replays = False  # it does on a standby what the primary has done, and so may write there
    _acting = 0
    as_of: int | None = None  # the snapshot whose catalog this session sees; None: as it is now
    temporary_schema = 0  # once the session has had temporary relations; statements/temporary.py makes it
    temporary_name = ""

    def act_as(self, role: int) -> int:
        """Work with another role's privileges, as SetUserIdAndSecContext; returns what to give back."""
        before, self._acting = self._acting, role
        return before

    @property
    def lock_timeout(self) -> float:
        """How long a writer waits for another: lock_timeout where the user has set it."""
        from pgrepl.catalog.connection import LOCK_TIMEOUT

        wanted = int(self.settings.value("lock_timeout"))
        return min(wanted / 1000, LOCK_TIMEOUT) if wanted > 0 else LOCK_TIMEOUT

    @property
    def connection(self) -> Connection:
        """The connection of the running transaction, for SQLAlchemy statements that only read."""
        self.transaction.require_read()
        return self.link.sqlalchemy

    # --- what the statement is told and tells ---------------------------------------------------------------------

    def notice(
        self,
        severity: str,
        message: str,
        *,
        sqlstate: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
        context: str | None = None,
        location: int = -1,
    ) -> None:
        """Say something to the client; the SQLSTATE goes by the severity unless it is given."""
        sqlstate = sqlstate or _SEVERITY_SQLSTATE.get(severity, "00000")
        position = location + 1 if location >= 0 else None
        self.report(Report(severity, sqlstate, message, detail, hint, context, position))

    def report(self, report: Report) -> None:
        """Send a report, unless client_min_messages keeps it quiet."""
        severity = report.severity
        if severity == "INFO" or _LOUDNESS[severity] >= _LOUDNESS[self.settings.get("client_min_messages").upper()]:
            # clients are not told which of the five DEBUGs it is
            self.on_report(replace(report, severity="DEBUG") if severity.startswith("DEBUG") else report)

    def on_commit(self, action: Callable[[], None]) -> None:
        """Do this when the transaction has committed."""
        self.transaction.callbacks.append(action)

    def advance_origin(self) -> None:
        """Before a commit: where what is written comes from knows that it is here."""
        if self.origin is not None:
            self.origin.advance(self)

    def snapshot(self) -> int:
        """The snapshot id (the LSN) that the running statement makes."""
        return self.transaction.numbering.snapshot()

    @property
    def in_block(self) -> bool:
        return self.transaction.block is not Block.NONE

    @property
    def text_style(self) -> TextStyle:
        from pgrepl.catalog.object_names import ObjectNames
        from pgrepl.types.text import TextStyle

        settings = self.settings
        return TextStyle(
            datestyle=settings.get("datestyle"),
            timezone=settings.get("timezone"),
            intervalstyle=settings.get("intervalstyle"),
            extra_float_digits=int(settings.get("extra_float_digits")),
            bytea_output=settings.get("bytea_output"),
            now=self.transaction.now,
            lookup=ObjectNames(self),
        )

    # --- the lake -------------------------------------------------------------------------------------------------

    def define_in_lake(self) -> None:
        """DuckLake's rows follow what the running statement has defined so far (lake.py)."""
        _keeper().define(self)

    def adopt_from_lake(self) -> None:
        """The system tables follow what others have defined in the lake."""
        _keeper().adopt(self)

    # --- memory ---------------------------------------------------------------------------------------------------

    def forget(self, table: type[SystemRow]) -> None:
        """A table was written: what is remembered of it is stale."""
        self.memory.pop(table.__name__, None)
        if table.__name__ in _SOURCES:
            self._derived.clear()

    def forget_all(self) -> None:
        self.memory.clear()
        self._derived.clear()

    def close(self) -> None:
        """End the session; an open transaction is rolled back."""
        with suppress(PgError):  # the catalog is gone: there is nothing to roll back
            self.transaction.end()
            for action in self.at_close:
                action()
        self.transaction.locks.close()
        self.beside.close()
        statistics.counters(self.catalog).end_session()
        self.link.close()


class Beside:
    """A session's second connection, for what does not belong to its transaction: the newest version of a row that
    somebody else has changed, the next number of a sequence."""

    def __init__(self, session: Session) -> None:
        self._owner = session
        self._session: Session | None = None
        self._writes = False

    def _opened(self) -> Session:
        owner = self._owner
        if self._session is None:
            self._session = owner.elsewhere(owner.database_oid, owner.role, apart=True)
        self._session.act_as(owner.role)
        return self._session

    @contextmanager
    def newest(self) -> Iterator[Session]:
        """The catalog as it is now, to look at."""
        beside = self._opened()
        beside.transaction.begin_statement()
        try:
            beside.transaction.require_read()
            yield beside
        finally:
            beside.transaction.end_statement()

    def write(self) -> Session:
        """To write at once; it is committed when the owner's statement ends or has to wait for somebody."""
        beside = self._opened()
        if not self._writes:
            beside.transaction.begin_statement(writes=True)
            self._writes = True
        return beside

    def end(self) -> None:
        if self._writes:
            self._writes = False
            assert self._session is not None
            self._session.transaction.end_statement()
            self._owner.forget_all()

    def wait_for_writers(self) -> None:
        """Wait for the statements that hold the catalog's lock for their own length: they have not seen the locks that
        the owner has just taken. A transaction that holds it for longer has its locks in the lock table."""
        if self._owner.transaction.is_writing:
            return
        self.end()
        link = self._opened().link
        while True:
            try:
                link.begin(write=True, lock_timeout=_SLICE)
            except PgError as problem:
                if problem.sqlstate != "55P03":
                    raise
                if self._owner.transaction.locks.is_catalog_held():
                    return
            else:
                link.rollback()
                return

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


__all__ = ["DatabaseName", "Session"]
