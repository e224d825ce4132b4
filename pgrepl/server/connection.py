"""A new connection in its process: start-up, authentication, the session (InitPostgres); and the rows of
pg_hba_file_rules.
"""

from __future__ import annotations

import hmac
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pgrepl.backend import HOOKS, open_session
from pgrepl.catalog.facts import activity
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session import login, parameters
from pgrepl.catalog.session.parameters import parse
from pgrepl.catalog.session.session import Session, SessionIdentity
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.catalog.store.store import one
from pgrepl.ground import memory
from pgrepl.ground.errors import PgError, Report
from pgrepl.lake.read import footers
from pgrepl.replication.log import ServerLog
from pgrepl.server import authentication, hba, messages, startup
from pgrepl.server.backend_loop import Backend, by_administrator
from pgrepl.server.channel import Channel, ConnectionLost
from pgrepl.server.connection_process import ConnectionProcess, IdleSession, SessionProcess
from pgrepl.server.postmaster import Arrival, Incoming, LaterArrival
from pgrepl.server.replication.commands import ReplicationCommands, check_may_replicate
from pgrepl.server.settings import ServerSettings
from pgrepl.server.startup import CancelRequest, StartupPacket
from pgrepl.shell.connection import ConnectFailure, startup_settings

if TYPE_CHECKING:
    from pgrepl.catalog.store.connection import Catalog
    from pgrepl.query.system.activity import Provider

    OpenCatalog = Callable[[], Catalog]

_NO_GSSAPI = "hostgssenc record cannot match because GSSAPI is not supported by this build"


def providers(hba_file: Path, ident_file: Path) -> Mapping[str, Provider]:
    return {"pg_hba_file_rules": partial(_rules, hba_file), "pg_ident_file_mappings": partial(_mappings, ident_file)}


def _rules(file: Path, _: Session) -> Iterator[dict[str, Any]]:
    return _rows(file, hba.read_rules, "rule_number", _rule)


def _rule(rule: hba.Rule) -> dict[str, Any]:
    return {
        "type": rule.kind,
        "database": [word.text for word in rule.databases], "user_name": [word.text for word in rule.users],
        "address": rule.address or None, "netmask": rule.mask, "auth_method": rule.method,
        "options": _options(rule), "error": _NO_GSSAPI if rule.kind == "hostgssenc" else None,
    }  # fmt: skip


def _options(rule: hba.Rule) -> list[str] | None:
    """The options of a line of pg_hba.conf (get_hba_options); the method cert asks for the user's name, too."""
    given = dict(rule.options)
    if rule.method == "cert":
        given["clientcert"] = "verify-full"
    return [f"{name}={given[name]}" for name in ("map", "clientcert") if name in given] or None


def _mappings(file: Path, _: Session) -> Iterator[dict[str, Any]]:
    return _rows(file, hba.read_mappings, "map_number", _mapping)


def _mapping(line: hba.IdentLine) -> dict[str, Any]:
    return {"map_name": line.name, "sys_name": line.system.text, "pg_username": line.role.text, "error": None}


def _rows(file: Path, read: Any, number: str, shown: Callable[[Any], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row of each line; those without an error are numbered."""
    count = 0
    for line in _read(read, file):
        row: dict[str, Any] = {"error": line.message} if isinstance(line, hba.BadLine) else shown(line)
        if row["error"] is None:
            count += 1
            row[number] = count
        yield {"file_name": str(file), "line_number": line.line, **row}


def _read(read: Any, file: Path) -> Any:
    """A file that cannot be read is the statement's error here, and does not end the session."""
    try:
        return read(file)
    except PgError as problem:
        raise PgError(problem.sqlstate, problem.message) from None


# --- connection -------------------------------------------------------------------------------------------------------


_ANY_DATABASE = 5  # postgres: roles belong to no database
_SHORT_KEY = 4  # bytes of a cancel key before protocol 3.2
_COLUMNS = 4  # a quarter of the memory is for the columns that all sessions together remember
_FEWEST = 16 << 20  # bytes of one session


@dataclass(frozen=True)
class Server:
    """The facts that all connections of a server share."""

    catalog: str  # file or URL
    settings: ServerSettings
    log: ServerLog
    tls: ssl.SSLContext | None
    auth_config: authentication.AuthenticationConfig

    def attend(self, arrival: Arrival) -> None:
        """Serve one connection, in the process that the postmaster has forked for it (BackendMain)."""

        def connection() -> socket.socket:
            incoming = arrival.incoming()
            assert incoming is not None, "a session has been released"
            return incoming.connection

        def terminate() -> None:
            self._tell(Channel(connection()), by_administrator())

        ConnectionProcess(connection, lambda process: self._run(arrival, process), terminate).run()

    def _tell(self, channel: Channel, error: PgError) -> None:
        self.log.report(error.report)
        with suppress(ConnectionLost):
            channel.send(b"E", messages.of_error(error, str.encode))
            channel.flush()

    def _run(self, arrival: Arrival, process: SessionProcess) -> None:
        """A process of a session: for all of it, or until the session is released."""
        lock_file.work_for(process.pid)
        footers.keep_columns(max(memory.whole() // _COLUMNS // self.settings.max_connections, _FEWEST))
        catalog = self._opener(arrival)
        incoming = arrival.incoming()
        if incoming is None:
            return
        channel = Channel(incoming.connection)
        try:
            if process.state:
                self._resume(channel, incoming, process, catalog)
            else:
                self._begin(channel, incoming, process, catalog)
        except ConnectionLost:
            pass
        except PgError as error:
            self._tell(channel, error)
        finally:
            channel.close()

    def _resume(self, channel: Channel, incoming: Incoming, process: SessionProcess, catalog: OpenCatalog) -> None:
        """Resume a released session."""
        idle = IdleSession.loaded(process.state)
        session = idle.session(HOOKS, catalog())
        backend = Backend(channel, session, self.log, incoming.place, idle.about, process)
        backend.resume(idle)
        self._serve(backend, process)

    def _serve(self, backend: Backend, process: SessionProcess) -> None:
        session = backend.session
        session.providers = providers(self.auth_config.hba_file, self.auth_config.ident_file)
        idle = None
        try:
            idle = backend.serve()
        finally:
            if idle is None and session.settings.value("log_disconnections"):
                self.log.log(backend.farewell())
            with suppress(PgError):
                session.close()
        if idle is not None:
            process.leave(idle.dumped())

    def _opener(self, arrival: Arrival) -> OpenCatalog:
        """A function that opens the catalog: a spare has done it before its client comes."""
        if isinstance(arrival, LaterArrival):
            with suppress(PgError):  # it is told the client, when it has come
                opened = self._catalog()
                return lambda: opened
        return self._catalog

    def _catalog(self) -> Catalog:
        return open_catalog(self.catalog, folder=str(self.settings.folder))

    def _begin(self, channel: Channel, incoming: Incoming, process: SessionProcess, catalog: OpenCatalog) -> None:
        with _in_time(self.settings.authentication_seconds):
            packet = startup.receive(channel, self.tls)
            if isinstance(packet, CancelRequest):
                _cancel(packet, incoming.keys)
                return
            if incoming.stopping:
                raise PgError("57P03", "the database system is shutting down", severity="FATAL")
            if incoming.clients >= self.settings.max_connections:
                raise PgError("53300", "sorry, too many clients already", severity="FATAL")
            if packet.replication == "physical":
                raise PgError("0A000", "physical replication is not supported", severity="FATAL")
            session = self._enter(channel, packet, incoming, catalog())
        backend = Backend(channel, session, self.log, incoming.place, _about(channel, packet), process)
        if packet.replication:
            backend.take_commands(ReplicationCommands(backend).run)
        backend.greet(process.pid, incoming.key if packet.minor >= 2 else incoming.key[:_SHORT_KEY])
        self._serve(backend, process)

    def _enter(self, channel: Channel, packet: StartupPacket, incoming: Incoming, catalog: Catalog) -> Session:
        client = authentication.client_of(channel.connection, packet.database, packet.user)
        outside = Session(HOOKS, catalog, SessionIdentity(database=_ANY_DATABASE))
        says = self._logs_connections(outside)
        if says:
            self.log.log(f"connection received: {_from(channel)}")
        entered = authentication.authenticate(channel, outside, client, self.auth_config)
        if says:
            self.log.log(f"connection authenticated: {entered}")
        outside.close(keep=True)
        session = self._admitted(channel, catalog, client, packet, incoming)
        if says:
            self.log.log(_authorized(channel, packet))
        return session

    def _logs_connections(self, outside: Session) -> bool:
        """log_connections, before there is a session that has settings."""
        parameter = parameters.find("log_connections")
        assert parameter is not None
        with reading(outside):
            text = {**dict(login.stored(outside)), **self.settings.given}.get(parameter.name)
        return text is not None and bool(parse(parameter, text))

    def _admitted(
        self, channel: Channel, catalog: Catalog, client: hba.Client, packet: StartupPacket, incoming: Incoming
    ) -> Session:
        """The session, once the role may enter the database and there is room for it."""
        waiting: list[Report] = []
        settings = {**settings_in(packet.options), **packet.settings}
        session = open_session(catalog, packet.database, packet.user, on_report=waiting.append, settings=settings)
        session.reads_binary = True
        session.settings.set_by_command_line(self.settings.given)
        self._check_room(session, incoming)
        if packet.replication:
            check_may_replicate(session)
        for report in waiting:
            channel.send(b"N", messages.of_notice(report, str.encode))
        return session

    def _check_room(self, session: Session, incoming: Incoming) -> None:
        """Keep the last connections for those whom they are reserved for."""
        left = self.settings.max_connections - incoming.clients
        if left <= self.settings.superuser_reserved and not is_superuser(session, session.role):
            text = "remaining connection slots are reserved for roles with the SUPERUSER attribute"
            raise PgError("53300", text, severity="FATAL")
        self._check_limits(session)

    def _check_limits(self, session: Session) -> None:
        """CONNECTION LIMIT of the role and of the database."""
        table = activity.table()
        if table is None:
            return
        with reading(session):
            if is_superuser(session, session.role):
                return
            role, database = one(session, tables.pg_authid, oid=session.role), session.database
            others = list(table.entries())
            if role is not None and role.rolconnlimit >= 0:
                if sum(other.get("usesysid") == role.oid for other in others) >= role.rolconnlimit:
                    raise PgError("53300", f'too many connections for role "{role.rolname}"', severity="FATAL")
            row = one(session, tables.pg_database, oid=database.oid)
            if row is not None and row.datconnlimit >= 0:
                if sum(other.get("datid") == database.oid for other in others) >= row.datconnlimit:
                    raise PgError("53300", f'too many connections for database "{database.name}"', severity="FATAL")


def _from(channel: Channel) -> str:
    """Where a client is, as the log says it."""
    if channel.connection.family == socket.AF_UNIX:
        return "host=[local]"
    try:
        return "host={} port={}".format(*channel.connection.getpeername()[:2])
    except OSError:
        raise ConnectionLost from None


def _authorized(channel: Channel, packet: StartupPacket) -> str:
    if packet.replication:
        said = f"replication connection authorized: user={packet.user}"
    else:
        said = f"connection authorized: user={packet.user} database={packet.database}"
    if "application_name" in packet.settings:
        said += f" application_name={packet.settings['application_name']}"
    if isinstance(channel.connection, ssl.SSLSocket):
        cipher, _, bits = channel.connection.cipher() or ("", "", 0)
        said += f" SSL enabled (protocol={channel.connection.version()}, cipher={cipher}, bits={bits})"
    return said


def _about(channel: Channel, packet: StartupPacket) -> dict[str, object]:
    """The columns of pg_stat_activity that stay the same for the session."""
    about: dict[str, object] = {"backend_start": datetime.now(timezone.utc).isoformat(), "usename": packet.user}
    if packet.replication:
        about["backend_type"] = "walsender"
    if channel.connection.family != socket.AF_UNIX:
        about["client_addr"], about["client_port"] = channel.connection.getpeername()[:2]
    return about


def settings_in(text: str) -> Mapping[str, str]:
    """The settings in the options of a start-up packet: `-c name=value`."""
    try:
        return startup_settings(text)
    except ConnectFailure as failure:
        message, _, hint = str(failure).removeprefix("FATAL:  ").partition("\nHINT:  ")
        raise PgError("42601", message, hint=hint or None, severity="FATAL") from None


def _cancel(request: CancelRequest, keys: Mapping[int, bytes]) -> None:
    """Interrupt the statement of a backend, if the client knows its key (ProcessCancelRequest)."""
    key = keys.get(request.pid, b"")
    if len(request.key) in (_SHORT_KEY, len(key)) and hmac.compare_digest(request.key, key[: len(request.key)]):
        with suppress(ProcessLookupError):
            activity.send_signal(activity.found(request.pid) or {"pid": request.pid}, signal.SIGINT)


class _in_time:
    """A block that must end in so many seconds, or the client is sent away."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self._over)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    @staticmethod
    def _over(_signal: int, _frame: FrameType | None) -> None:
        raise PgError("57014", "canceling authentication due to timeout", severity="FATAL")

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
