"""One session of a client: reads messages and answers them until the client leaves (PostgresMain in postgres.c)."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timezone
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from pgrepl.api.opened import internal_error
from pgrepl.catalog.facts import activity
from pgrepl.catalog.session import login
from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError, Report
from pgrepl.query import timeouts
from pgrepl.query.result import Result, StreamedRows
from pgrepl.server import connection_process, messages
from pgrepl.server.channel import LARGE_MESSAGE, SMALL_MESSAGE, Body, Channel, ConnectionLost, WireCopy
from pgrepl.server.connection_process import SIGNALS, IdleSession, SessionProcess, idle_session_of, may_be_released
from pgrepl.server.extended import Extended
from pgrepl.server.fastpath import call_function
from pgrepl.server.session_log import SessionLog
from pgrepl.statements.run import run
from pgrepl.types.input_checks import bytes_to_text, codec, of_client, text_to_bytes

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.log import ServerLog

_INT32 = struct.Struct("!i")
_LARGE = frozenset(b"QPBdF")
_KNOWN = frozenset(b"QPBECDHSXFdcf")
_EXTENDED = frozenset(b"PBEDCH")
_NOT_IN_WALSENDERS = (b"P", b"B", b"E", b"D", b"C", b"F")
_STATES = {
    Block.NONE: "idle",
    Block.IMPLICIT: "idle",
    Block.EXPLICIT: "idle in transaction",
    Block.ABORTED: "idle in transaction (aborted)",
}
_STATUS = {Block.NONE: b"I", Block.IMPLICIT: b"I", Block.EXPLICIT: b"T", Block.ABORTED: b"E"}
_BLANK, _ENDS = "; \t\r\n", ("ABORT", "COMMIT", "END", "ROLLBACK")  # statements that end all portals
_LOOK = 1.0  # seconds after which a listener looks for notifications of a process that could send it no signal
_PORTION = 1000  # rows that are fetched together
# settings whose values the client is told when they change (GUC_REPORT)
REPORTED = (
    "application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby",
    "integer_datetimes", "IntervalStyle", "is_superuser", "scram_iterations", "server_encoding", "server_version",
    "session_authorization", "standard_conforming_strings", "TimeZone",
)  # fmt: skip


class Terminated(BaseException):
    """SIGTERM has come while no statement ran."""


class SenderDone(BaseException):
    """A walsender has sent all, and its subscriber has it; the server shuts down."""


class _Running(AbstractContextManager[None]):
    """A block in which signals interrupt the statement, as does one that came since the block before."""

    def __init__(self) -> None:
        self.is_entered = False
        self.pending: PgError | None = None  # the interrupt of a signal that has come between two blocks

    def __enter__(self) -> None:
        self.is_entered = True  # no call follows, in which a signal could end this before the block
        if self.pending is not None:
            error = self.pending
            self.__exit__(type(error))
            raise error

    def __exit__(self, kind: object, *_: object) -> None:
        self.is_entered = False
        if kind is not None:
            self.pending = None
        elif (noted := interrupts.interrupted()) is not None:
            self.pending = noted
        timeouts.stop()


class Backend:
    """A session and its client."""

    def __init__(
        self,
        channel: Channel,
        session: Session,
        log: ServerLog,
        place: int,
        about: Mapping[str, Any],
        process: SessionProcess,
    ) -> None:
        """`place` is the session's in the table of activity, `about` what stays the same in it."""
        self.channel = channel
        self.session = session
        self.log = SessionLog(log, session)
        self._place = place
        self._about = about
        self._may_be_released = process.left >= 0
        self._told: dict[str, str] = {}
        self._reported_last: dict[str, str] = {}
        self._told_of = 0  # the role
        self._is_told = False  # that the session is ready
        self._running = _Running()
        self._terminated = False
        self._asked = False  # since the client was last told that the session is ready
        self._waiting = False
        self._reloads = process.reloads
        self._copy = WireCopy(channel)
        self._extended = Extended(self)
        self._commands: Callable[[str], bool] | None = None
        self.replicates = False  # it is a walsender that sends changes (replication_active)
        self.is_stopping = False  # the server shuts down, and only walsenders are left (got_STOPPING)
        session.is_woken_by_signal = True
        if connection_process.setter() is not None:
            session.on_command = self.show_command
        session.on_wait = self._show_wait
        session.reload_others = partial(_tell_postmaster, process.postmaster)
        session.client = self._copy
        session.on_report = self.on_report
        session.on_log = self.log.report

    def take_commands(self, commands: Callable[[str], bool]) -> None:
        """Take replication commands, too: `commands` carries out one, or returns False for a query in SQL."""
        self._commands = commands
        self._may_be_released = False

    # --- what the client is told ----------------------------------------------------------------------------------

    def encode(self, text: str) -> bytes:
        """A text in the client's encoding."""
        if text.isascii():
            return text.encode()
        return text_to_bytes(text, self._encoding())

    def _encode_report(self, text: str) -> bytes:
        """A text of a message; a character that the client's encoding does not have is a question mark."""
        if text.isascii():
            return text.encode()
        return text.encode(codec(self._encoding()), "replace")

    def _encoding(self) -> str:
        settings = self.session.settings
        return of_client(settings.get("client_encoding"), settings.get("server_encoding"))

    def on_report(self, report: Report) -> None:
        """A notice goes out at once."""
        self.channel.send(b"N", messages.of_notice(report, self._encode_report))
        self.channel.flush()

    def tell_error(self, error: PgError) -> None:
        """An error goes out at once, whatever the client still sends (send_message_to_frontend)."""
        self.log.report(error.report)
        self.channel.send(b"E", messages.of_error(error, self._encode_report))
        self.channel.flush()

    def greet(self, pid: int, key: bytes) -> None:
        """Tell a client that has been let in its settings and its key (BackendKeyData)."""
        self._tell_settings()
        self.channel.send(b"K", _INT32.pack(pid) + key)

    def farewell(self) -> str:
        """What the log says of the session's end (log_disconnections)."""
        about = self._about
        took = datetime.now(timezone.utc) - datetime.fromisoformat(about["backend_start"])
        minutes, seconds = divmod(took.total_seconds(), 60)
        hours, minutes = divmod(int(minutes), 60)
        said = f"disconnection: session time: {hours}:{minutes:02d}:{seconds:06.3f} user={about['usename']}"
        place = f"{about['client_addr']} port={about['client_port']}" if "client_addr" in about else "[local]"
        return f"{said} database={self.session.database.name} host={place}"

    def _tell_settings(self) -> None:
        reported = self.session.settings.derived("reported", self._reported)
        standby = "on" if self.session.transaction.in_recovery else "off"
        if reported is self._reported_last and self._told["in_hot_standby"] == standby:
            return
        self._reported_last = reported
        known = {"in_hot_standby": standby}
        if self._told_of == self.session.role and "is_superuser" in self._told:
            known["is_superuser"] = self._told["is_superuser"]  # ALTER ROLE is told at the next SET ROLE
        self._told_of = self.session.role
        for name, value in {**reported, **known}.items():
            if self._told.get(name) != value:
                self._told[name] = value
                self.channel.send(b"S", name.encode() + b"\0" + self.encode(value) + b"\0")

    def _reported(self) -> dict[str, str]:
        return {name: self.session.settings.get(name) for name in REPORTED}

    def _ready(self) -> None:
        self._asked, self._running.pending = False, None
        self._deliver()
        self._tell_settings()
        block = self.session.transaction.block
        self._show(_STATES[block])  # whoever hears that the session is ready may look for it
        self.channel.send(b"Z", _STATUS[block])
        self.channel.flush()

    def _deliver(self) -> None:
        """Send what other sessions have notified, outside of transactions (ProcessNotifyInterrupt)."""
        notifications = self.session.transaction.notifications
        if notifications is not None:
            for notification in notifications.take():
                texts = (self._encode_report(notification.channel), self._encode_report(notification.payload))
                self.channel.send(b"A", _INT32.pack(notification.pid) + b"".join(text + b"\0" for text in texts))

    def _show(self, state: str) -> None:
        """Tell pg_stat_activity what the session does."""
        table = activity.table()
        if table is not None:
            entry = activity.entry_of(self.session, state)
            table.write(self._place, {**entry, **self._about, "process": os.getpid()})
        if state != "active" and self.session.on_command is not None:
            self.show_command(state)

    def _show_wait(self, event: str | None) -> None:
        """Tell what the session waits for in its statement; None: for nothing any more."""
        table = activity.table()
        if table is not None:
            waits = {} if event is None else {"wait_event_type": "IPC", "wait_event": event}
            table.write(self._place, {**activity.entry_of(self.session), **self._about, **waits})

    def show_command(self, activity: str) -> None:
        """Show in the process's title what the session does: a command's tag, or that it is idle."""
        if self.session.settings.value("update_process_title"):
            connection_process.show(
                f"{connection_process.of_session(self._about, self.session.database.name)} {activity}"
            )

    # --- signals --------------------------------------------------------------------------------------------------

    def _on_cancel(self, _signal: int, frame: FrameType | None) -> None:
        if self._running.is_entered:
            timeouts.interrupt(interrupts.user_request(), frame)
        elif (self._asked and not self._waiting) or self.channel.has_input():  # the message that it means has come
            self._running.pending = interrupts.user_request()
        table = activity.table()
        if table is not None:
            table.note_cancel(self._place)

    def _on_notify(self, _signal: int, _frame: FrameType | None) -> None:
        """The signal only ends the wait for input."""

    def _on_reload(self, _signal: int, _frame: FrameType | None) -> None:
        self._reloads = True

    def _reload(self) -> None:
        """Apply what ALTER SYSTEM has changed, before the next statement."""
        self._reloads = False
        with reading(self.session):
            login.reload(self.session)

    def _on_terminate(self, _signal: int, frame: FrameType | None) -> None:
        if self._terminated:  # activity.send_signal sends it twice
            return
        self._terminated = True
        if self._running.is_entered:
            timeouts.interrupt(by_administrator(), frame)
        elif not self._waiting:
            raise Terminated

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        """End a walsender when it has sent all; one that sends nothing at once (HandleWalSndInitStopping)."""
        self.is_stopping = True
        if not self.replicates:
            self._on_terminate(number, frame)

    def running(self) -> AbstractContextManager[None]:
        return self._running

    def begin(self, text: str) -> None:
        """A statement begins."""
        self.session.query = text
        self.session.transaction.string_at = datetime.now(timezone.utc)
        self._show("active")

    # --- the loop -------------------------------------------------------------------------------------------------

    def resume(self, idle: IdleSession) -> None:
        """Resume the session that an earlier process has released, and whose client speaks."""
        self._is_told = True
        self._told.update(idle.told)
        self._extended.unnamed = idle.unnamed

    def serve(self) -> IdleSession | None:
        """Answer messages until the client leaves; or until nothing has come for so long that the session is released:
        another process resumes what is returned. An error that ends the session has been told when this returns."""
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(wake, False)
        self.channel.wakes.append(wake)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._on_cancel)
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.signal(signal.SIGUSR1, self._on_notify)
        signal.signal(signal.SIGUSR2, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        try:
            if self._serve(wake):
                return idle_session_of(self.session, self._extended.unnamed, self._told, self._about)
        except PgError as error:  # it was FATAL, or one of the protocol
            self.tell_error(error)
        except Terminated:
            self.tell_error(by_administrator())
        except SenderDone:
            self.channel.flush()
        return None

    def _serve(self, wake: int) -> bool:
        """True: the session is released; False: the client has left."""
        skipping = False  # to the next Sync, after an error in the extended protocol
        ready = True
        while True:
            if ready and not self._is_told:
                self._ready()
            self._is_told = False
            if not self._await_input(wake, idle=ready):
                return True
            self._asked = True
            if self._reloads and ready and self.session.transaction.block is not Block.ABORTED:
                self._reload()
            ready = False
            kind = self.channel.read_kind()
            code = kind[0]
            if code not in _KNOWN:
                raise PgError("08P01", f"invalid frontend message type {code}", severity="FATAL")
            body = self.channel.read_body(LARGE_MESSAGE if code in _LARGE else SMALL_MESSAGE)
            if kind == b"X":
                return False
            if skipping and kind != b"S":
                continue
            if kind == b"S":
                skipping = False
            ready = kind in (b"Q", b"S", b"F")
            try:
                self._answer(kind, body)
            except ConnectionLost:
                raise
            except Exception as problem:
                error = _as_error(problem)
                if error.report.severity == "FATAL":
                    raise error from problem.__cause__
                self._copy.forget()
                self.tell_error(error)
                if self.channel.is_out_of_step:
                    said = "terminating connection because protocol synchronization was lost"
                    raise PgError("08P01", said, severity="FATAL") from None
                skipping = code in _EXTENDED
                self._fail()

    def _answer(self, kind: bytes, body: bytes) -> None:
        self.log.begins()
        if kind == b"Q":
            self._simple(body)
        elif self._commands is not None and kind in _NOT_IN_WALSENDERS:
            what = "fastpath function calls" if kind == b"F" else "extended query protocol"
            raise PgError("08P01", f"{what} not supported in a replication connection")
        elif kind[0] in _EXTENDED:
            self._extended.message(kind, Body(body))
        elif kind == b"S":
            Body(body).end()
            self._extended.sync()
        elif kind == b"F":
            call_function(self, Body(body))

    def _await_input(self, wake: int, *, idle: bool) -> bool:
        """Wait for the client's next message, under the timeouts of idle sessions. An `idle` one is told of
        notifications meanwhile. False: none has come for so long that the session is released."""
        if self.channel.has_received and not self._terminated:
            return True
        since = time.monotonic()
        self._waiting = True
        if self._running.pending is not None and not self.channel.has_input():
            self._running.pending = None  # it was for a statement that has ended meanwhile
        try:
            while not self._terminated and not self.channel.has_received:
                if idle:  # amid a pipeline what has been found waits for Sync, Flush or a full buffer
                    self.channel.flush()
                due = timeouts.idle_due(self.session, since)
                seconds = None if due is None else due[0]
                listens = idle and self.session.transaction.notifications is not None
                if listens:
                    seconds = min(seconds or _LOOK, _LOOK)
                release = self._release_in(since) if idle and due is None else None
                if release is not None:
                    seconds = release
                if self.channel.has_input(None if seconds is None else max(seconds, 0)):
                    break
                if due is not None and due[0] <= 0:
                    raise due[1]
                if release is not None and release <= 0:
                    return False
                with suppress(BlockingIOError):
                    os.read(wake, 4096)
                if listens:
                    self._deliver()
        finally:
            self._waiting = False
        if self._terminated:
            raise by_administrator()
        return True

    def _release_in(self, since: float) -> float | None:
        """The seconds until a session that has been idle since then is released; None: it is not."""
        if not self._may_be_released or self.channel.is_encrypted or not may_be_released(self.session):
            return None
        wanted = int(self.session.settings.value("pgrepl.idle_session_release"))
        return since + wanted / 1000 - time.monotonic() if wanted else None

    def _fail(self) -> None:
        """An error outside of a statement ends the implicit transaction, or leaves a block aborted."""
        transaction = self.session.transaction
        if transaction.block in (Block.IMPLICIT, Block.EXPLICIT) or transaction.in_statement:
            transaction.fail_statement()

    # --- simple queries -------------------------------------------------------------------------------------------

    def _simple(self, body: bytes) -> None:
        given = Body(body)
        text = self.decode(given.string())
        given.end()
        self.begin(text)
        self._extended.forget_unnamed()
        if text.rstrip(_BLANK).upper() not in _ENDS:
            self._extended.before_change()
        if self._commands is not None and self._commands(text):
            return
        self.log.query(text)
        self.session.streams = True
        empty = True
        try:
            results = self.results(run(self.session, text))
            for result in results:
                empty = False
                formats = (1,) if result.binary else ()
                if result.columns is not None:
                    self.channel.send(b"T", messages.description(result.columns, formats, self.encode))
                self.send_rows(result, formats)
        finally:
            self.session.streams = False
        if empty:
            self.channel.send(b"I")
        self.log.query_ends(text)

    def decode(self, data: bytes) -> str:
        if data.isascii():
            return data.decode()
        return bytes_to_text(data, self._encoding())

    def results(self, results: Iterator[Result]) -> Iterator[Result]:
        """The results of statements; a signal interrupts the running one."""
        while True:
            with self.running():
                result = next(results, None)
            self._copy.end_of_statement()
            if result is None:
                return
            yield result

    def send_rows(self, result: Result, formats: Sequence[int]) -> None:
        """Send a result's rows and its command tag."""
        tag = result.tag or ""
        if result.columns is not None:
            encoder = messages.RowEncoder(result.columns, formats, self.session.text_style, self.encode)
            count = 0
            for portion in self.portions(result):
                count += len(portion)
                for message in encoder.messages(portion):
                    self.channel.send_raw(message)
            if tag == "SELECT":
                tag = f"SELECT {count}"
        self.complete(tag)

    def complete(self, tag: str) -> None:
        self.channel.send(b"C", self.encode(tag) + b"\0")

    def portions(self, result: Result) -> Iterator[Sequence[tuple[str | None, ...]]]:
        rows = result.rows
        if not isinstance(rows, StreamedRows):
            yield rows
            return
        while True:
            with self.running():
                portion = rows.portion(_PORTION, before_error=True)
            yield portion
            if len(portion) < _PORTION and not rows.fails:
                return


def by_administrator() -> PgError:
    return PgError("57P01", "terminating connection due to administrator command", severity="FATAL")


def _as_error(problem: Exception) -> PgError:
    """A defect of pgrepl, or what Spark says, is an error like others, also while rows are sent."""
    if isinstance(problem, PgError):
        return problem
    error = interrupts.pg_error(problem) or internal_error(problem)
    error.__cause__ = problem
    return error


def _tell_postmaster(postmaster: int) -> None:
    """Have all sessions of the server read the settings again (pg_reload_conf)."""
    with suppress(ProcessLookupError):
        os.kill(postmaster, signal.SIGHUP)
