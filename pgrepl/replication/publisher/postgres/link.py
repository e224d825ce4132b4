"""One connection to a server: libpq's walsender connection, as a subscription of PostgreSQL opens it. libpq itself
reads the string, the environment, service files and `.pgpass`.

A walsender takes replication commands and ordinary SQL, but only in the simple protocol; values are put into the text
by libpq's own quoting. The link waits with select, so that Ctrl-C ends a long answer, and cancels it on the server.

A server may be silent for long: it reads its WAL, or waits for other transactions. After wal_receiver_timeout the link
asks it on another connection whether it is still there; a server that does not answer that either within the same time
is lost.

psycopg, numpy and the publisher are imported only when a connection is opened.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.replication.conninfo import ConnectionFailure
from pgrepl.replication.publisher.protocol import PublisherError

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult


# How values are written by the server, whatever its settings say, and no timeout that would end a long answer.
_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "bytea_output": "hex",
    "row_security": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "search_path": "",
}
_SETTINGS_BY_VERSION = ((170000, "transaction_timeout", "0"),)
_NO_PSYCOPG = "a PostgreSQL server as publisher needs psycopg, which is not installed"
_LOST = "08006"
_TIMED_OUT = "terminating logical replication worker due to timeout"
_CANCELLING = 5.0  # seconds for telling a server to stop
_LOOK = 0.5  # seconds between two checks for interrupts
_CANCELLED = "57014"
_NOT_ANSWERED = "canceling statement due to user request"
_PORTION = 1 << 17  # bytes that are handed on together
APPLICATION = "pgrepl"


class Unreachable(ConnectionFailure):
    """The error that no server answered."""


def psycopg_pq() -> Any:
    """libpq, or an error with one sentence on how to install it."""
    try:
        from psycopg import pq
    except ImportError as problem:
        raise PgError("0A000", _NO_PSYCOPG, hint="Install it with: pip install 'psycopg[binary]>=3.2'") from problem
    return pq


def _psycopg_error() -> type[Exception]:
    from psycopg import Error

    return Error


class Link:
    """An open connection."""

    def __init__(
        self, options: Mapping[str, str], application: str, *, replication: bool = True, patience: float | None = None
    ) -> None:
        """Connect by libpq's rules, or ConnectionFailure with libpq's words. `patience`: the seconds before a silent
        server is asked whether it is there."""
        self._pq = psycopg_pq()
        self.error = _psycopg_error()
        self.patience = patience
        defaults = {"fallback_application_name": application} | _keepalives(options, patience)
        self._options = {**defaults, **options, "client_encoding": "UTF8"}
        if replication:
            self._options["replication"] = "database"
        self._again: dict[str, str] | None = None  # where to open the connection again, if it is closed since a stream
        self._opened: PGconn = self._connected()
        self._interrupted = False
        self._waiting = False  # an answer has not been read to its end; a new command must discard the rest first
        self._past: Callable[[], None] | None = None  # discards the rest of an answer that libpq does not know of
        try:
            self._set_up()
        except PublisherError as lost:  # the server ends
            self._opened.finish()
            raise ConnectionFailure(str(lost), lost.sqlstate) from None

    @property
    def _conn(self) -> PGconn:
        again, self._again = self._again, None
        if again is not None:
            self._options |= again
            try:
                self._opened = self._connected()
            except ConnectionFailure as failure:
                raise PublisherError(_LOST, str(failure)) from None
            self._set_up()
        return self._opened

    @property
    def is_open(self) -> bool:
        """Whether the connection is open; after a stream it is opened again."""
        with suppress(PublisherError):
            return bool(self._conn.status == self._pq.ConnStatus.OK)
        return False

    def another(self) -> Link:
        """A connection to the same server that is no walsender."""
        return Link(self.same_place(), "", replication=False, patience=self.patience)

    def same(self) -> Link:
        """Another walsender's connection to the same server."""
        return Link(self.same_place(), "", patience=self.patience)

    def same_place(self) -> dict[str, str]:
        """Options for a plain connection to the host that answered."""
        conn = self._conn
        here = {"host": conn.host, "hostaddr": conn.hostaddr, "port": conn.port}
        options = {k: v for k, v in self._options.items() if k not in (*here, "replication", "target_session_attrs")}
        return options | {name: value.decode() for name, value in here.items() if value}

    # --- connecting ---------------------------------------------------------------------------------------------------

    def _connected(self) -> PGconn:
        return self._connection(self._options, _timeout(self._options) or self.patience)

    def _connection(self, options: Mapping[str, str], timeout: float | None) -> PGconn:
        text = " ".join(f"{keyword}={_quoted(value)}" for keyword, value in options.items())
        conn: PGconn = self._pq.PGconn.connect_start(text.encode("utf-8", "surrogateescape"))
        try:
            self._await_connection(conn, timeout)
        except BaseException:
            conn.finish()
            raise
        return conn

    def _await_connection(self, conn: PGconn, timeout: float | None) -> None:
        """PQconnectPoll; libpq leaves the time limit of each host to us."""
        polling = self._pq.PollingStatus
        state, place, since = polling.WRITING, None, time.monotonic()
        while state not in (polling.OK, polling.FAILED):
            if conn.status == self._pq.ConnStatus.BAD:
                break
            if (now := (conn.host, conn.hostaddr, conn.port)) != place:
                place, since = now, time.monotonic()
            left = None if timeout is None else timeout - (time.monotonic() - since)
            if (left is not None and left <= 0) or not _ready(conn.socket, state == polling.READING, left):
                raise failure(_message(conn.error_message) + _timed_out(conn))
            state = conn.connect_poll()
        if conn.status != self._pq.ConnStatus.OK:
            raise failure(_message(conn.error_message))

    def _set_up(self) -> None:
        settings = dict(_SETTINGS)
        settings |= {name: value for version, name, value in _SETTINGS_BY_VERSION if self.version >= version}
        self.rows("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))

    @property
    def used_password(self) -> bool:
        return bool(self._conn.used_password)

    @property
    def version(self) -> int:
        return int(self._conn.server_version)

    @cached_property
    def is_lake(self) -> bool:
        """Is it a lake that `pgrepl serve` serves?"""
        return self.value("SELECT pg_catalog.current_setting('pgrepl.postgres_version', true) IS NOT NULL") == "t"

    @property
    def has_sequences(self) -> bool:
        """Whether it publishes sequences, and all tables with exceptions: 19 does, and so does a lake."""
        return self.version >= 190000 or self.is_lake

    @property
    def database(self) -> str:
        return self._conn.db.decode("utf-8", "replace")

    @property
    def backend(self) -> int:
        """The process that serves this connection."""
        return int(self._conn.backend_pid)

    def close(self) -> None:
        if self._again is None:
            if self._waiting and self.is_open:
                self._cancel()
            self._opened.finish()

    def rename(self, application: str) -> None:
        """Show this application_name at the server."""
        self._options["application_name"] = application
        self.rows(f"SET application_name = {self.literal(application)}")

    def interrupt(self) -> None:
        """End the connection's running or waiting command with an error, even if the server does not answer; called
        from another thread."""
        self._interrupted = True
        if self._again is None and self.is_open:
            self._request_cancel()

    # --- text ---------------------------------------------------------------------------------------------------------

    def literal(self, value: str) -> str:
        return bytes(self._pq.Escaping(self._conn).escape_literal(value.encode())).decode().strip()

    def identifier(self, name: str) -> str:
        return bytes(self._pq.Escaping(self._conn).escape_identifier(name.encode())).decode()

    def identifiers(self, names: Sequence[str]) -> str:
        return ", ".join(self.identifier(name) for name in names)

    def texts(self, values: Sequence[str]) -> str:
        return ", ".join(self.literal(value) for value in values)

    # --- asking -------------------------------------------------------------------------------------------------------

    def rows(self, command: str) -> list[tuple[str | None, ...]]:
        """Run a command (or several): the rows of the last answer, as text."""
        texts: list[tuple[str | None, ...]] = []
        refused: PublisherError | None = None
        for result in self._results(command):
            refused = refused or self._error_of(result)
            texts = _texts(result)
        if refused is not None:
            raise refused
        return texts

    def row(self, command: str) -> tuple[str | None, ...]:
        (only,) = self.rows(command)
        return only

    def value(self, command: str) -> str:
        value = self.row(command)[0]
        assert value is not None
        return value

    def copy_out(self, command: str) -> Iterator[list[memoryview]]:
        """The CopyData messages of COPY … TO STDOUT, in portions."""
        refused: PublisherError | None = None
        for result in self._results(command):
            if result.status == self._pq.ExecStatus.COPY_OUT:
                yield from self._copy_data()
            else:
                refused = refused or self._error_of(result)
        if refused is not None:
            raise refused

    def _copy_data(self) -> Iterator[list[memoryview]]:
        get, portion, held = self._conn.get_copy_data, [], 0
        while True:
            try:
                size, data = get(1)
            except self.error as problem:
                raise self.lost() from problem
            if size > 0:
                portion.append(data)
                held += size
                if held < _PORTION:
                    continue
            if portion:
                yield portion
                portion, held = [], 0
            if size < 0:
                return
            if size == 0:
                self._receive()

    # --- past libpq ---------------------------------------------------------------------------------------------------

    @property
    def is_encrypted(self) -> bool:
        return bool(self._conn.ssl_in_use or self._conn.used_gssapi)

    @property
    def socket(self) -> int:
        return int(self._opened.socket)

    def send_past_libpq(self, command: str, discard: Callable[[], None]) -> None:
        """Send a command of which libpq knows nothing; `discard` reads the rest of its answer."""
        conn = self._conn
        if self._waiting:
            self._discard()
        text = command.encode() + b"\0"
        left = memoryview(b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
        self._waiting, self._past = True, discard
        while left:
            try:
                left = left[os.write(conn.socket, left) :]
            except BlockingIOError:
                _ready(conn.socket, False, _LOOK)
            except OSError:
                raise self.closed() from None

    def answered(self) -> None:
        """The answer has been read to its end."""
        self._waiting, self._past = False, None

    def wait(self, seconds: float) -> bool:
        """Whether something comes within this time."""
        return _ready(self.socket, True, seconds)

    def closed(self) -> PublisherError:
        """The error that the server has closed the connection."""
        with suppress(self.error):
            self._opened.consume_input()
        return self.lost()

    # --- streaming ----------------------------------------------------------------------------------------------------

    def start_streaming(self, command: str) -> PGconn:
        """START_REPLICATION: libpq's connection, now in both-ways COPY, for the one who reads the stream."""
        for result in self._results(command):
            if result.status == self._pq.ExecStatus.COPY_BOTH:
                self._conn.nonblocking = 1
                return self._conn
            refused = self._error_of(result)
            if refused is not None:
                raise refused
        raise self.lost()

    def end_streaming(self) -> None:
        """Close the connection: a walsender streams once. The next command opens another."""
        with suppress(self.error):
            self._again = self.same_place()
        self._opened.finish()
        self._waiting = False

    def stream_ended(self) -> PublisherError:
        """The error of a stream that the server has ended."""
        with suppress(self.error):
            while (result := self._conn.get_result()) is not None:
                refused = self._error_of(result)
                if refused is not None:
                    return refused
        return PublisherError(_LOST, "data stream from publisher has ended")

    def _results(self, command: str) -> Iterator[PGresult]:
        conn = self._conn
        if self._waiting:
            self._discard()
        try:
            conn.send_query(command.encode())
        except self.error as problem:
            raise self.lost() from problem
        self._waiting = True
        while True:
            try:
                while conn.is_busy():
                    self._receive()
            except KeyboardInterrupt:
                self._cancel()
                raise
            result = conn.get_result()
            if result is None:
                break
            yield result
        self._waiting = False

    def _receive(self) -> None:
        self.await_input()
        try:
            self._conn.consume_input()
        except self.error as problem:
            raise self.lost() from problem

    def await_input(self) -> None:
        silent = 0.0
        while not _ready(self._conn.socket, True, _LOOK):
            silent += _LOOK
            if self._interrupted and silent > _CANCELLING:
                self._conn.finish()
                raise PublisherError(_CANCELLED, _NOT_ANSWERED)
            if self.patience is not None and silent >= self.patience:
                silent = 0.0
                if not self._server_answers():
                    self._conn.finish()
                    raise PublisherError(_LOST, _TIMED_OUT)

    def _server_answers(self) -> bool:
        """Whether the server answers anything, be it that it has too many connections."""
        try:
            self._connection(self.same_place(), self.patience).finish()
        except Unreachable:
            return False
        except ConnectionFailure:
            pass
        return True

    def lost(self) -> PublisherError:
        return PublisherError(_LOST, _message(self._conn.error_message) or "connection to the server was lost")

    def _discard(self) -> None:
        """Discard the rest of an answer."""
        self._cancel()
        conn = self._conn
        if not self.is_open:
            raise self.lost()
        if self._past is not None:
            self._past()
            return
        while True:
            while conn.is_busy():
                self._receive()
            result = conn.get_result()
            if result is None:
                break
            if result.status == self._pq.ExecStatus.COPY_OUT:
                for _ in self._copy_data():
                    pass
        self._waiting = False

    def _cancel(self) -> None:
        """Cancel the running command; a server that does not listen even to that is left alone."""
        if not self._request_cancel():
            self._conn.finish()

    def _request_cancel(self) -> bool:
        """Send libpq's cancel request, which any thread may do; returns whether the server listened."""

        def cancel() -> None:
            with suppress(self.error):
                request.cancel()

        try:
            request = self._conn.get_cancel()
        except self.error:
            return True  # the connection is lost already
        thread = JoinedThread(cancel, "pgrepl-cancel")
        thread.start()
        thread.join(_CANCELLING)
        return not thread.is_alive()

    def _error_of(self, result: PGresult) -> PublisherError | None:
        status = self._pq.ExecStatus
        if result.status in (status.COMMAND_OK, status.TUPLES_OK, status.EMPTY_QUERY):
            return None
        sqlstate = result.error_field(self._pq.DiagnosticField.SQLSTATE)
        return PublisherError(sqlstate.decode() if sqlstate else _LOST, _message(result.error_message))


def failure(message: str) -> ConnectionFailure:
    """The error with libpq's message, and whether a server sent it."""
    kind = ConnectionFailure if "FATAL:  " in message else Unreachable
    return kind(message)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _keepalives(options: Mapping[str, str], patience: float | None) -> dict[str, str]:
    """TCP keepalive options, by which the kernel finds a lost host, unless a service sets them."""
    if not patience or "service" in options:
        return {}
    return {"keepalives_idle": str(max(1, int(patience))), "keepalives_interval": "10", "keepalives_count": "3"}


def _timeout(options: Mapping[str, str]) -> float | None:
    """connect_timeout, which libpq takes to be at least two seconds; 0 or nothing: no limit."""
    text = options.get("connect_timeout", "")
    try:
        seconds = int(text or 0)
    except ValueError:
        raise failure(f'invalid integer value "{text}" for connection option "connect_timeout"') from None
    return max(seconds, 2) if seconds > 0 else None


def _ready(descriptor: int, reading: bool, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN if reading else select.POLLOUT)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


def _timed_out(conn: PGconn) -> str:
    host = conn.host.decode("utf-8", "replace")
    port = conn.port.decode()
    if host.startswith(("/", "@")):
        where = f'on socket "{host}/.s.PGSQL.{port}"'
    else:
        address = conn.hostaddr.decode()
        shown = f'"{host}"' if host == address or not host else f'"{host}" ({address})'
        where = f"at {shown if host else chr(34) + address + chr(34)}, port {port}"
    return f"connection to server {where} failed: timeout expired"


def _message(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace").rstrip("\n")


def _texts(result: PGresult) -> list[tuple[str | None, ...]]:
    columns = range(result.nfields)
    return [tuple([_text(result.get_value(row, column)) for column in columns]) for row in range(result.ntuples)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def link_to(options: Mapping[str, str]) -> Link:
    """A connection for queries alone, which needs no REPLICATION privilege."""
    return Link(options, APPLICATION, replication=False)
