"""A session: one role in one database, with its settings, its transaction and what it remembers of the catalog.

It is made of three parts. The *connection* to the catalog has the transaction, which several sessions may share. The
*identity* is the database and the role. The *view* is the catalog now or at a past snapshot, and what the session
remembers of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from pgrepl.catalog.facts.namespace import described
from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session import login, statistics
from pgrepl.catalog.session.context import Block, DatabaseName, Origin
from pgrepl.catalog.session.settings import Settings
from pgrepl.catalog.session.transaction import Transaction
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.connection import LOCK_TIMEOUT
from pgrepl.catalog.store.store import one
from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.frozen import frozen
from pgrepl.types.input_checks import of_client
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation, TransitionTable
    from pgrepl.catalog.session.context import CopyClient
    from pgrepl.catalog.store.connection import Catalog, CatalogConnection
    from pgrepl.catalog.store.declarative import SystemRow
    from pgrepl.catalog.store.system import SystemRelation, SystemRelations
    from pgrepl.ground.memory import Instruments

_Row = TypeVar("_Row")
Parameter: TypeAlias = "tuple[int, str | None]"  # the OID of its type, or of unknown, and its text; None: NULL

_SEVERITY_SQLSTATE = {"WARNING": "01000"}
# client_min_messages, the level with most messages first; INFO is always sent
_LOUDNESS = {
    "DEBUG5": 0, "DEBUG4": 1, "DEBUG3": 2, "DEBUG2": 3, "DEBUG1": 4, "DEBUG": 4, "LOG": 5, "INFO": 6, "NOTICE": 7,
    "WARNING": 8, "ERROR": 9,
}  # fmt: skip


# keys of `derived` that are made from files and tables of the lake
_OF_WORK = frozenset({"counted", "files", "files_checked", "source_names"})
_SLICE = 0.05  # seconds between two attempts at the catalog's lock

# the tables from which relations, rows of catalogs, search paths and memberships of roles are derived
_SOURCES = frozenset(
    {
        "pg_attrdef", "pg_attribute", "pg_auth_members", "pg_authid", "pg_class", "pg_collation", "pg_constraint",
        "pg_database", "pg_depend", "pg_description", "pg_enum", "pg_index", "pg_inherits", "pg_namespace",
        "pg_operator", "pg_proc", "pg_range", "pg_trigger", "pg_type", "ducklake_column", "ducklake_schema",
        "ducklake_table", "ducklake_inlined_data_tables",
    }
)  # fmt: skip


class SessionOrigin(Origin, Protocol):
    """A replication origin whose position the session's commits move."""

    def advance(self, session: Session) -> None:
        """Write the origin's position into the transaction, before its commit."""


class Unsettled(Protocol):
    """A running statement, or batch of replicated changes, whose triggers may run statements."""

    def settle(self, tables: Collection[int] | None, *, writes: bool) -> None:
        """Write the rows of these tables (None: of all) that are not written yet, before another statement reads them,
        or `writes` any table."""


@frozen
class Hooks:
    """Functions of the rooms above the catalog that a session calls. pgrepl/backend.py fills them in; each imports what
    it needs when it is first called."""

    define_in_lake: Callable[[Session], None]
    adopt_from_lake: Callable[[Session], None]
    system_relations: Callable[[int], SystemRelations]
    system_rows: Callable[[Session, SystemRelation, frozenset[int] | None], Iterable[tuple[Any, ...]]]  # of these keys
    catalog_function: Callable[[str], Any]  # by pg_proc.prosrc: an Implementation, or None
    routine: Callable[[Session, Any, Any], Callable[..., Any]]  # a user's routine for a call: (Proc, expr.context.Call)
    execute: Callable[[Session, Any], Any]  # carries out a statement of a routine's body: a raw tree to a Result
    procedure: Callable[[Session, Any], Any]  # prepares CALL in a routine's body (statements/routine/call.py)
    define: Callable[[Session, Sequence[str]], None]  # carries out statements that define, as one step of a statement
    object_oid: Callable[[Session, int, str], int]  # the OID that a text means for a reg* type
    object_name: Callable[[Session, int, int], str]
    call_trigger: Callable[[Session, int, Any], tuple[Any, ...] | None]  # a function's OID, rows.trigger_data
    check_domain: Callable[[Session, int, Any], None]  # raises the error for a value that is none of the domain's
    check_domains: Callable[[Session, int, Any], None]  # the same for the values of an Arrow array
    rows_at: Callable[[Session, Relation, Any, bool], Iterable[tuple[Any, ...]]]  # as of a time, or of an LSN


class SessionConnection:
    """A connection to the catalog, with its transaction."""

    def __init__(self, catalog: Catalog, owner: Session) -> None:
        self.catalog = catalog
        self.link: CatalogConnection = catalog.connect()
        self.views: WeakSet[SessionView] = WeakSet()  # of the sessions on it
        self._owner = owner

    @cached_property
    def beside(self) -> Beside:
        return Beside(self._owner)

    @cached_property
    def transaction(self) -> Transaction:
        return Transaction(self._owner)


@dataclass(slots=True)
class SessionIdentity:
    """The database and the role of a session."""

    database: int = 0  # OID; 0 until the role has been let in
    authenticated_user: int = 0
    acting: int = 0  # the role whose privileges count instead (SetUserIdAndSecContext); 0: none
    within: str = ""  # what keeps the role as it is: security-definer function, security-restricted operation


@dataclass(eq=False)
class SessionView:
    """The state of the catalog that a session sees, and what it remembers of it."""

    as_of: int | None = None  # the snapshot; None: as it is now
    memory: dict[str, dict[Any, list[SystemRow]]] = field(default_factory=dict)  # rows of each table, for store.py
    derived: dict[Any, Any] = field(default_factory=dict)  # relations and the like, made from several tables


class Session:
    """A session, as one of PostgreSQL's backends has it."""

    origin: SessionOrigin | None = None
    client: CopyClient | None = None  # for COPY FROM STDIN and COPY TO STDOUT
    streams = False  # does the client take results in portions?
    rows_written: Callable[[int, int], None] | None = None  # told of rows and bytes that Spark has written
    replays = False  # it does on a standby what the primary has done, and so may write there
    is_woken_by_signal = False  # SIGUSR1 tells its process of new notifications
    providers: Mapping[
        str, Callable[[Session], Iterable[Mapping[str, Any]]]
    ] = {}  # of rows of system views that a server has
    reload_others: Callable[[], None] | None = None  # has the server's other sessions read the settings again
    temporary_schema = 0  # once the session has had temporary relations; statements/deletion.py makes it
    temporary_name = ""
    portal_count = 0  # of cursors without a name of their own, so far
    query = ""  # the text that is running
    parameters: Sequence[Parameter] | None = None  # the values of $1, $2, … of the running statement, if it has any
    variables: Any = None  # of the routine whose statement is running (expr/analyse/kinds.py: Variables)
    result_formats: Sequence[int] = ()  # in which the client takes columns: 0 text, 1 binary; none: text
    reads_binary = False  # does the client take the rows of a binary cursor in binary format?
    keeps_values = False  # does the client take the values of rows, not their text?
    instruments: Instruments | None = None  # of EXPLAIN ANALYZE
    trigger_depth = 0  # of triggers that are running, those of foreign keys included (MyTriggerDepth)
    transition_tables: Mapping[str, TransitionTable] = {}  # of the trigger function that is running

    def __init__(
        self,
        hooks: Hooks,
        connection: SessionConnection | Catalog,
        identity: SessionIdentity,
        view: SessionView | None = None,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        """A session on another session's connection, or on a new one to the catalog."""
        self.hooks = hooks
        self._connection = (
            connection if isinstance(connection, SessionConnection) else SessionConnection(connection, self)
        )
        self._identity = identity
        self.catalog = self._connection.catalog
        self.link = self._connection.link
        self._view = view or SessionView()
        self.memory = self._view.memory
        self._connection.views.add(self._view)
        self.on_report: Callable[[Report], None] = on_report or (lambda report: None)
        self.on_log: Callable[[Report], None] | None = None  # a server's log hears all reports
        self.on_command: Callable[[str], None] | None = None  # is told the tag of each command
        self.on_wait: Callable[[str | None], None] | None = None  # is told the wait event of a wait for others
        self.pid = lock_file.session_pid()
        self.settings = Settings(self)
        self._text_style: tuple[TextStyle, TextStyle] | None = None  # by the settings alone, and of the transaction
        self.at_close: list[Callable[[], None]] = []
        self.at_error: list[Callable[[], None]] = []
        self.is_nested = False  # a routine's statement is running
        self.compiled: dict[Any, Any] = {}  # what first compilations of routines have found (plpgsql/function.py)
        self.contexts: list[Callable[[], str]] = []  # the lines of CONTEXT of running routines, the innermost last
        self.prepared: dict[str, Any] = {}  # prepared statements (statements/prepared.py)
        self.emptied_at_commit: list[int] = []  # temporary tables made ON COMMIT DELETE ROWS
        self.triggered: list[int] = []  # relations whose triggers are running
        self.unsettled: list[Unsettled] = []  # whose triggers are running
        self.reads_at: int | None = None  # the snapshot at which tables are read; None: as they are now
        self.touched: dict[tuple[int, int], int] = {}  # table and row id of rows that were changed meanwhile: when
        self.touches = 0  # how many rows were
        self.transaction: Transaction = self._connection.transaction

    def admit(self, database: str, user: str, settings: Mapping[str, str]) -> None:
        """Admit a client, whose start-up packet has the settings, or raise PostgreSQL's FATAL error."""
        try:
            self.transaction.begin_statement()
            role, row = login.admit(self, user, database)
            self._identity = SessionIdentity(row.oid, role.oid)
            self._view.derived.clear()  # who is in pg_database_owner depends on the database
            login.apply_settings(self, role, row, settings)
            self.transaction.locks.restore()
            self.transaction.end_statement()
            statistics.count(self, statistics.DATABASE, row.oid, sessions=1)
            obstacle = self.catalog.obstacle
            if obstacle is not None:
                self.notice("WARNING", f'catalog "{self.catalog.name}" can only be read: {obstacle.reason}')
        except BaseException:
            self.close()
            raise

    def elsewhere(self, database: int, role: int, *, apart: bool = False, catalog: Catalog | None = None) -> Session:
        """A session of another database or role, without a login: in the running transaction, or `apart` from it on a
        connection of its own, which the caller closes; with `catalog` in another instance."""
        apart = apart or catalog is not None
        connection = (catalog or self.catalog) if apart else self._connection
        view = SessionView() if apart else SessionView(memory=self.memory)
        other = Session(self.hooks, connection, SessionIdentity(database, role), view, self.on_report)
        other.on_log = self.on_log
        if catalog is None:
            other.settings.take_system(self.settings)
        return other

    def in_database(self, database: int) -> Session:
        """A session of a database, whose types it knows, in the running transaction: this one if it is its own."""
        return self if database == self.database_oid else self.elsewhere(database, self.role)

    def at(self, snapshot: int, database: int | None = None) -> Session:
        """A read-only session in the same transaction that sees the catalog as of a past snapshot."""
        database = database or self.database_oid
        if self.as_of is None and self.transaction.has_definitions_of(snapshot):
            return self.elsewhere(database, self.role)
        there = SessionIdentity(database, self.role)
        past = Session(self.hooks, self._connection, there, SessionView(as_of=snapshot), self.on_report)
        past.settings.take_system(self.settings)
        return past

    # --- the connection -------------------------------------------------------------------------------------------

    @property
    def beside(self) -> Beside:
        return self._connection.beside

    # --- the view -------------------------------------------------------------------------------------------------

    @property
    def as_of(self) -> int | None:
        return self._view.as_of

    def look_at(self, snapshot: int | None) -> None:
        """See the definitions as of a snapshot from now on, or as they are."""
        self._view.as_of = snapshot
        self.forget_all()

    @property
    def derived(self) -> dict[Any, Any]:
        """The cache of what is made from several tables, as of the running statement."""
        transaction = self.transaction
        if transaction.in_statement:
            transaction.require_read()
        return self._view.derived

    def type_of(self, oid: int) -> int:
        """The OID of a type, with its description if it is a user's type."""
        if oid < FIRST_USER_OID:
            return oid
        from pgrepl.catalog.facts.user_types import described

        return described(self, oid)

    def collation_of(self, oid: int) -> int:
        """The OID of a collation, with its name if it is a user's."""
        if oid < FIRST_USER_OID:
            return oid
        return described(self, oid)

    # --- who and where --------------------------------------------------------------------------------------------

    @property
    def database(self) -> DatabaseName:
        """The database by its present name; another session may have renamed it."""
        row = one(self, tables.pg_database, oid=self._identity.database)
        return DatabaseName(self._identity.database, row.datname if row is not None else "")

    @property
    def is_admitted(self) -> bool:
        """Has the role been let into the database?"""
        return self._identity.database != 0

    @property
    def database_oid(self) -> int:
        return self._identity.database

    @property
    def user(self) -> int:
        """The session user: SET SESSION AUTHORIZATION changes it."""
        return int(self.settings.extra("session_authorization") or self.authenticated_user)

    @property
    def role(self) -> int:
        """The current user, whose privileges count: SET ROLE changes it."""
        return self._identity.acting or int(self.settings.extra("role") or 0) or self.user

    @property
    def authenticated_user(self) -> int:
        return self._identity.authenticated_user

    @authenticated_user.setter
    def authenticated_user(self, role: int) -> None:
        self._identity.authenticated_user = role

    def act_as(self, role: int) -> None:
        """Work with another role's privileges from now on; `acting_as` returns to the role before."""
        self._identity.acting = role

    @property
    def within(self) -> str:
        """The operation that SET ROLE must not break out of; empty: there is none (GUC_NOT_WHILE_SEC_REST)."""
        return self._identity.within

    @contextmanager
    def acting_as(self, role: int, within: str = "") -> Iterator[None]:
        """Work with another role's privileges, which SET ROLE cannot leave within what is named."""
        identity = self._identity
        before = identity.acting, identity.within
        identity.acting, identity.within = role, within or identity.within
        try:
            yield
        finally:
            identity.acting, identity.within = before

    @property
    def lock_timeout(self) -> float:
        """The seconds to wait for the catalog's write lock: lock_timeout, but not longer than LOCK_TIMEOUT."""
        wanted = int(self.settings.value("lock_timeout"))
        return min(wanted / 1000, LOCK_TIMEOUT) if wanted > 0 else LOCK_TIMEOUT

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
        """Send a message to the client. The SQLSTATE follows from the severity unless it is given."""
        sqlstate = sqlstate or _SEVERITY_SQLSTATE.get(severity, "00000")
        position = location + 1 if location >= 0 else None
        self.report(Report(severity, sqlstate, message, detail, hint, context, position))

    def report(self, report: Report) -> None:
        """Send a report, unless client_min_messages suppresses it; a server's log has a threshold of its own. It says
        in which routines it was made."""
        if self.contexts and report.context is None:
            report = replace(report, context="\n".join([line() for line in reversed(self.contexts)]))
        if self.on_log is not None:
            self.on_log(report)
        severity = report.severity
        if severity == "INFO" or _LOUDNESS[severity] >= _LOUDNESS[self.settings.get("client_min_messages").upper()]:
            # clients are not told which of the five DEBUGs it is
            self.on_report(replace(report, severity="DEBUG") if severity.startswith("DEBUG") else report)

    def on_commit(self, action: Callable[[], None]) -> None:
        """Call `action` when the transaction has committed."""
        self.transaction.callbacks.append(action)

    def advance_origin(self) -> None:
        """Write the replication origin's position into the transaction, before its commit."""
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
        now = self.transaction.now
        style = self.settings.derived("text style", self._settings_style)
        if self._text_style is None or self._text_style[0] is not style or self._text_style[1].now != now:
            self._text_style = style, style.at(now)
        return self._text_style[1]

    def _settings_style(self) -> TextStyle:
        from pgrepl.catalog.facts.user_types import ObjectNames

        settings = self.settings
        return TextStyle(
            datestyle=settings.get("datestyle"),
            timezone=settings.get("timezone"),
            intervalstyle=settings.get("intervalstyle"),
            extra_float_digits=int(settings.get("extra_float_digits")),
            bytea_output=settings.get("bytea_output"),
            lookup=ObjectNames(self),
            check_domain=partial(self.hooks.check_domain, self),
            check_domains=partial(self.hooks.check_domains, self),
            encoding=of_client(settings.get("client_encoding"), settings.get("server_encoding")),
            release=settings.release,
        )

    # --- hooks into the rooms above -------------------------------------------------------------------------------

    def define_in_lake(self) -> None:
        """Bring DuckLake's rows in line with the definitions that the running statement has changed so far."""
        self.hooks.define_in_lake(self)

    def adopt_from_lake(self) -> None:
        """Bring the system tables in line with what other programs have defined in the lake."""
        self.hooks.adopt_from_lake(self)

    def system_relations(self, release: int | None = None) -> SystemRelations:
        """The relations of pg_catalog and information_schema; `release`: with the columns of that one."""
        return self.hooks.system_relations(release or self.settings.release)

    def define(self, statements: Sequence[str]) -> None:
        """Carry out statements that define, within the running statement of pgrepl's own."""
        self.hooks.define(self, statements)

    def object_oid(self, typoid: int, text: str) -> int:
        """The OID of the object that a text means for a reg* type."""
        return self.hooks.object_oid(self, typoid, text)

    def object_name(self, typoid: int, oid: int) -> str:
        return self.hooks.object_name(self, typoid, oid)

    def call_trigger(self, function: int, data: Any) -> tuple[Any, ...] | None:
        """Call a trigger function; returns the row that it gives back."""
        return self.hooks.call_trigger(self, function, data)

    def settle(self, tables: Collection[int] | None = None, *, writes: bool = True) -> None:
        """Write the rows that running statements have come to. A statement inside one of their triggers does so before
        it reads or `writes` these tables: it sees the rows before the one that the trigger fires for."""
        for unsettled in self.unsettled:
            unsettled.settle(tables, writes=writes)

    @contextmanager
    def reading_at(self, snapshot: int | None) -> Iterator[None]:
        """Read tables as they were at a snapshot, or as they are now."""
        before, self.reads_at = self.reads_at, snapshot
        try:
            yield
        finally:
            self.reads_at = before

    def read_at(self, snapshot: int | None, rows: Iterable[_Row]) -> Iterator[_Row]:
        """Rows that are computed while they are read, from tables as they were at a snapshot, or are now."""
        waiting = iter(rows)
        while True:
            with self.reading_at(snapshot):
                try:
                    row = next(waiting)
                except StopIteration:
                    return
            yield row

    # --- memory ---------------------------------------------------------------------------------------------------

    def forget(self, table: type[SystemRow]) -> None:
        """Forget the rows of a table, which was written."""
        self.memory.pop(table.__name__, None)
        if not tables.is_work(table.__name__):
            self.transaction.numbering.invalidate()
        if table.__name__ in _SOURCES:
            self._forget_derived()

    def forget_work(self) -> None:
        """Forget rows that are no definitions: others have committed, but changed no definition."""
        for name in [name for name in self.memory if tables.is_work(name)]:
            del self.memory[name]
        for view in self._connection.views:
            for key in [key for key in view.derived if key[0] in _OF_WORK]:
                del view.derived[key]

    def forget_all(self) -> None:
        self.memory.clear()
        self._forget_derived()

    def _forget_derived(self) -> None:
        for view in self._connection.views:
            view.derived.clear()

    def close(self, *, keep: bool = False) -> None:
        """End the session; an open transaction is rolled back. `keep`: its connection is for the next session."""
        with suppress(PgError):  # the catalog is gone: there is nothing to roll back
            self.transaction.end()
            for action in self.at_close:
                action()
            if self.transaction.notifications is not None:
                self.transaction.notifications.close()
        self.transaction.locks.close()
        self.beside.close()
        if keep:
            self.catalog.keep(self.link)
        else:
            statistics.counters(self.catalog).end_session()
            self.link.close()


class Beside:
    """A session's second connection, for what does not belong to its transaction: the newest version of a row that
    another session has changed, the next number of a sequence."""

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
        """A session that reads the catalog as it is now."""
        beside = self._opened()
        beside.transaction.begin_statement()
        try:
            beside.transaction.require_read()
            yield beside
        finally:
            beside.transaction.end_statement()

    def write(self) -> Session:
        """A session that writes at once. It commits when the owner's statement ends or has to wait for a lock."""
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
        """Wait for statements that hold the catalog's lock only until they end: they have not seen the locks that the
        owner has just taken. A transaction that keeps the lock has its locks in the lock table."""
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
