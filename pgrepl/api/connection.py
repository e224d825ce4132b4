"""`pgrepl.connect()`: a connection of DB-API 2.0 to a catalog that this process opens. There is no server.

    with pgrepl.connect("catalog.db", dbname="shop") as con:
        con.execute("INSERT INTO orders VALUES (%s, %s)", (1, "DE"))
    # committed; rolled back after an exception

As PEP 249 asks, a transaction begins with the first statement and ends with commit() or rollback(); with
autocommit=True each statement is its own. Threads may share the module, not connections: each opens its own. A
connection that two threads use at the same time raises InterfaceError.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from pgrepl.api import exceptions
from pgrepl.api.cursor import Cursor
from pgrepl.api.exceptions import Diagnostic, InterfaceError, ProgrammingError, dbapi_errors, diagnostic
from pgrepl.api.opened import OpenedSession
from pgrepl.engine.spark import use
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError, Report
from pgrepl.query import timeouts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.api.parameters import Parameters
    from pgrepl.catalog.locks.notification_queue import Notification
    from pgrepl.catalog.session.session import Parameter, Session
    from pgrepl.query.result import Result

NoticeHandler: TypeAlias = Callable[[Diagnostic], None]
NotifyHandler: TypeAlias = "Callable[[Notification], object]"

_LOOK = 0.05  # seconds between two looks for notifications
_open: WeakSet[Connection] = WeakSet()
_NOTICES = 50  # the last ones that a connection keeps


def connect(
    catalog: str | os.PathLike[str] | None = None,
    dbname: str | None = None,
    user: str | None = None,
    *,
    autocommit: bool = False,
    options: Mapping[str, Any] | None = None,
    data_path: str | None = None,
    spark: SparkSession | None = None,
) -> Connection:
    """Open a catalog (a file, made if it is not there, or an SQLAlchemy URL) and connect to one of its databases.

    What is not given comes from the environment, as on the command line: PGREPL_CATALOG or `catalog.db`, PGDATABASE and
    PGUSER or `postgres`. `options` are settings such as {"timezone": "UTC"}; `data_path` is the folder for the files of
    a new catalog; `spark` an existing session for large statements, instead of one of pgrepl's own.
    """
    if spark is not None:
        use(spark)
    notices: list[Diagnostic] = []
    handlers: list[NoticeHandler] = []

    def on_report(report: Report) -> None:
        diag = diagnostic(report)
        notices.append(diag)
        del notices[:-_NOTICES]
        for handler in list(handlers):
            handler(diag)

    with dbapi_errors():
        opened = OpenedSession(
            catalog or os.environ.get("PGREPL_CATALOG") or "catalog.db",
            dbname or os.environ.get("PGDATABASE") or "postgres",
            user or os.environ.get("PGUSER") or "postgres",
            settings={name: str(value) for name, value in (options or {}).items()},
            data_path=data_path or os.environ.get("PGREPL_DATA_PATH") or None,
            on_report=on_report,
        )
    return Connection(opened, notices, handlers, autocommit=autocommit)


class Connection:
    """An open connection. `notices` are the last notices of its statements."""

    # PEP 249 asks for them here, too, for programs that work with several drivers
    Warning = exceptions.Warning
    Error = exceptions.Error
    InterfaceError = exceptions.InterfaceError
    DatabaseError = exceptions.DatabaseError
    DataError = exceptions.DataError
    OperationalError = exceptions.OperationalError
    IntegrityError = exceptions.IntegrityError
    InternalError = exceptions.InternalError
    ProgrammingError = exceptions.ProgrammingError
    NotSupportedError = exceptions.NotSupportedError

    def __init__(
        self, opened: OpenedSession, notices: list[Diagnostic], handlers: list[NoticeHandler], *, autocommit: bool
    ) -> None:
        self.notices = notices
        self._handlers = handlers
        self._opened = opened
        self._autocommit = autocommit
        self._closed = False
        self._busy = threading.Lock()
        self._savepoints = 0
        self._notify_handlers: list[NotifyHandler] = []
        self._notified: list[Notification] = []  # not given to the program yet
        self._unread: Cursor | None = None  # the cursor whose rows Spark has yet to compute
        self._opener = os.getpid()
        _open.add(self)

    # --- cursors ------------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        self._check_open()
        return Cursor(self)

    def execute(self, query: str, params: Parameters | None = None) -> Cursor:
        """Run a query with a new cursor, which is returned."""
        return self.cursor().execute(query, params)

    # --- transactions -------------------------------------------------------------------------------------------------

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction of its own. It can be set outside of transactions."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._check_open()
        if self.in_transaction:
            raise ProgrammingError("autocommit cannot be changed in a transaction; call commit() or rollback() first")
        self._autocommit = bool(value)

    @property
    def in_transaction(self) -> bool:
        return not self._closed and self.session.transaction.block.name in ("EXPLICIT", "ABORTED")

    def commit(self) -> None:
        """End the transaction; what it did is on disk then. After an error in it, it is rolled back."""
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def _end(self, statement: str) -> None:
        self._check_open()
        if self.in_transaction:
            with self.working(begins=False):
                for _ in self._opened.run(statement):
                    pass

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A block that is committed at its end, or rolled back by an exception; inside a transaction a savepoint."""
        self._check_open()
        outer = not self.in_transaction
        self._savepoints += 1
        name = f"pgrepl_{self._savepoints}"
        self._command("BEGIN" if outer else f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            if not self._closed:
                for command in ["ROLLBACK"] if outer else [f"ROLLBACK TO {name}", f"RELEASE {name}"]:
                    self._command(command)
            raise
        finally:
            self._savepoints -= 1
        self._command("COMMIT" if outer else f"RELEASE {name}")

    def _command(self, statement: str) -> None:
        with self.working(begins=False):
            for _ in self._opened.run(statement):
                pass

    # --- the session --------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        return self._opened.session

    @property
    def closed(self) -> bool:
        return self._closed or self._opened.lost is not None

    def add_notice_handler(self, handler: NoticeHandler) -> None:
        """Call a function with each notice as it comes."""
        self._handlers.append(handler)

    def remove_notice_handler(self, handler: NoticeHandler) -> None:
        self._handlers.remove(handler)

    # --- notifications ------------------------------------------------------------------------------------------------

    def add_notify_handler(self, handler: NotifyHandler) -> None:
        """Call a function with each notification, when a statement has ended outside of transactions, or in
        notifies()."""
        self._notify_handlers.append(handler)

    def remove_notify_handler(self, handler: NotifyHandler) -> None:
        self._notify_handlers.remove(handler)

    def notifies(self, *, timeout: float | None = None, stop_after: int | None = None) -> Iterator[Notification]:
        """The notifications of the channels that the connection listens to, as they come; `timeout` in seconds: until
        then, `stop_after`: until there were so many. LISTEN takes effect at its commit, so that with autocommit=False
        a commit() has to come before. Each has a `channel`, a `payload` and the `pid` of the session that sent it."""
        until = None if timeout is None else time.monotonic() + timeout
        count = 0
        while True:
            self._check_open()
            with self._exclusive(), dbapi_errors():
                notifications, self._notified = [*self._notified, *self._received()], []
            for notification in notifications:
                yield notification
                count += 1
            if stop_after is not None and count >= stop_after:
                return
            if not notifications:
                left = _LOOK if until is None else min(_LOOK, until - time.monotonic())
                if left <= 0:
                    return
                time.sleep(left)

    def _received(self) -> list[Notification]:
        """The notifications of other sessions since the last time; the handlers are told."""
        notifications = None if self._closed else self.session.transaction.notifications
        received = [] if notifications is None else notifications.take()
        for notification in received:
            for handler in list(self._notify_handlers):
                handler(notification)
        return received

    def close(self) -> None:
        """End the connection; an open transaction is rolled back."""
        if self._closed:
            return
        with self._exclusive():
            self._closed = True
            self._unread = None
            with dbapi_errors():
                self._opened.close()

    def __enter__(self) -> Connection:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self.closed:
                if kind is None:
                    self.commit()
                else:
                    self.rollback()
        finally:
            self.close()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.give_up()

    def give_up(self) -> None:
        """End a connection that nobody has closed, unless it is in use, or of the process that has forked this one."""
        if getattr(self, "_closed", True) or self._opener != os.getpid():
            return
        if self._busy.acquire(blocking=False):
            self._closed = True
            self._opened.close()

    def write(self, table: str, data: Any, *, mode: str = "append") -> int:
        """Write an Arrow table, or a DataFrame of pandas, Polars or Spark, into a table; returns the number of rows.

        `mode`: "append", "overwrite" (the rows before are truncated, in the same transaction) or "error" (the table
        must not exist). A table that does not exist is created with columns of the data's types.
        """
        from pgrepl.api.writing import write

        return write(self, table, data, mode)

    # --- for cursors --------------------------------------------------------------------------------------------------

    def run(self, query: str, values: Sequence[Parameter] | None) -> Iterator[Result]:
        """The results of a query; the caller is `working`."""
        session = self.session
        session.keeps_values = True
        try:
            yield from self._opened.run(query, values)
        finally:
            session.keeps_values = False

    @contextmanager
    def working(self, *, begins: bool = True) -> Iterator[None]:
        """A block that uses the session. Ctrl-C rolls the statement back and raises KeyboardInterrupt. `begins`: a
        transaction begins with it, unless each statement is its own."""
        self._check_open()
        with self._exclusive(), dbapi_errors(), _cancelled_by_ctrl_c():
            if begins and not self._autocommit and self.session.transaction.block.name == "NONE":
                for _ in self._opened.run("BEGIN"):
                    pass
            yield
            received = self._received()
            if not self._notify_handlers:
                self._notified += received

    def reads_later(self, cursor: Cursor | None) -> None:
        """Note the cursor whose rows are still Spark's. Those of the cursor before are read now, since another
        statement would change what they see."""
        before, self._unread = self._unread, cursor
        if before is not None and before is not cursor:
            before.read_all()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise InterfaceError("another thread is using this connection; open one for each thread")
        try:
            yield
        finally:
            self._busy.release()

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the connection is closed")
        if self._opened.lost is not None:
            with dbapi_errors():
                raise self._opened.lost


@contextmanager
def _cancelled_by_ctrl_c() -> Iterator[None]:
    """Have Ctrl-C cancel the running statement, as a cancel request does, where it would raise KeyboardInterrupt in the
    middle of it."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    asked = False

    def interrupted(_signal: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        timeouts.interrupt(interrupts.user_request(), frame)

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    except PgError as error:
        if asked and error.sqlstate == "57014":
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if asked:
            timeouts.stop()  # a pending interrupt must not reach what follows


@atexit.register
def _give_up_all() -> None:
    """End what the program leaves open, while modules can still be imported: its temporary tables go."""
    for connection in list(_open):
        connection.give_up()
