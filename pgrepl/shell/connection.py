"""The shell's connection: one session in one catalog, with the attributes of psql's connections."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pgrepl import jobs
from pgrepl.catalog.connection import without_password
from pgrepl.errors import PgError, Report
from pgrepl.types.depth import stack_depth_exceeded

if TYPE_CHECKING:
    from pgrepl.catalog.connection import Catalog
    from pgrepl.catalog.session import Session
    from pgrepl.query.result import Result
    from pgrepl.replication.subscriber.catch_up import CatchUp

CATALOG_FILE = "catalog.db"
DEFAULT_DATABASE = "postgres"
DEFAULT_USER = "postgres"
PORT = "5432"

Status = Literal["idle", "in transaction", "failed"]


class ConnectFailure(Exception):
    """A connection that failed; the message is one line or several, without the last line end."""


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


@dataclass(frozen=True, slots=True)
class ConnectTarget:
    """A catalog, database and role to connect to. `catalog` is a file or an SQLAlchemy URL; `data_path` is the folder
    for the files of a new catalog's tables, if not beside it. Relative paths start from `folder`, after `\\cd`, too."""

    catalog: str
    database: str = DEFAULT_DATABASE
    user: str = DEFAULT_USER
    settings: Mapping[str, str] = field(default_factory=dict)
    data_path: str | None = None
    folder: str = field(default_factory=_working_directory)


def is_conninfo(text: str) -> bool:
    """Is the text a connection string, not a database name? (recognized_connection_string)"""
    return "=" in text or text.startswith(("postgresql://", "postgres://"))


def at_host(target: ConnectTarget, own: ConnectTarget, options: Mapping[str, str]) -> ConnectTarget:
    """The target at another host: a folder with a catalog, or a catalog file. Without a host, or for this machine,
    the catalog is that of `own`."""
    from pgrepl.replication.libpq.endpoints import ConnectionFailure, check_port, endpoints

    try:
        endpoint = endpoints({name: value for name, value in options.items() if value})[0]
        check_port(endpoint)
    except ConnectionFailure as failure:
        raise ConnectFailure(str(failure)) from failure
    if endpoint.is_local:
        return replace(target, catalog=own.catalog, data_path=own.data_path)
    if not endpoint.is_folder:
        raise ConnectFailure(
            f"{endpoint.name}pgrepl opens a catalog, it is no client for servers\n"
            "\tGive a folder with a catalog.db as host, or the catalog with --catalog."
        )
    path = Path(endpoint.host)
    return replace(target, catalog=str(path if path.is_file() else path / CATALOG_FILE), data_path=None)


def from_conninfo(target: ConnectTarget, own: ConnectTarget, conninfo: str) -> ConnectTarget:
    """The target with the values of a connection string."""
    from pgrepl.replication.libpq.conninfo import FILES, ConninfoError, parse_conninfo

    try:
        options = parse_conninfo(conninfo)
    except ConninfoError as problem:
        raise ConnectFailure(str(problem).removesuffix("\n")) from problem
    if FILES in options:
        raise ConnectFailure(f'invalid connection option "{FILES}"')
    if options.keys() & {"host", "hostaddr", "port"}:
        target = at_host(target, own, options)
    settings = dict(target.settings)
    settings.update(startup_settings(options.get("options", "")))
    if "application_name" in options:
        settings["application_name"] = options["application_name"]
    return replace(
        target,
        database=options.get("dbname") or target.database,
        user=options.get("user") or target.user,
        settings=settings,
    )


def startup_settings(options: str) -> dict[str, str]:
    """The settings in PGOPTIONS: `-c name=value`, `--name=value`; a backslash escapes white space."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", options)]
    settings = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "-c" and at < len(words):
            word = words[at]
            at += 1
        elif word.startswith(("-c", "--")):
            word = word[2:]
        else:
            raise ConnectFailure(f"FATAL:  invalid command-line argument for server process: {word}")
        name, equals, value = word.partition("=")
        if not equals:
            raise ConnectFailure(f"FATAL:  -c {word} requires a value")
        settings[name.replace("-", "_")] = value
    return settings


class Connection:
    """An open session. `on_report` gets its notices as they come."""

    def __init__(self, target: ConnectTarget, on_report: Callable[[Report], None]) -> None:
        from pgrepl.backend import open_session
        from pgrepl.catalog.opening import open_catalog

        self.target = target
        self.lost: PgError | None = None  # the error that has ended the session
        self.idle_since = time.monotonic()
        self._catch_up: CatchUp | None = None
        self._superuser = False
        try:
            self.catalog: Catalog = open_catalog(target.catalog, data_path=target.data_path, folder=target.folder)
            self.session: Session = open_session(
                self.catalog, target.database, target.user, on_report=on_report, settings=target.settings
            )
        except PgError as error:
            raise ConnectFailure(_connect_message(target.catalog, error.report)) from error

    # --- attributes that psql shows ----------------------------------------------------------------------------------

    @property
    def database(self) -> str:
        return self.target.database

    @property
    def user(self) -> str:
        return self.target.user

    @property
    def host(self) -> str:
        """The `host=` by which a subscription connects to this instance: the catalog's folder, or its URL."""
        if "://" in self.target.catalog:
            return without_password(self.target.catalog).rpartition("@")[2]
        path = os.path.abspath(os.path.join(self.target.folder, self.target.catalog))
        return os.path.dirname(path) if os.path.basename(path) == CATALOG_FILE else path

    @property
    def described(self) -> str:
        """The catalog's quoted name for messages, without a password."""
        return f'"{without_password(self.target.catalog)}"'

    @property
    def status(self) -> Status:
        block = self.session.transaction.block.name
        return "in transaction" if block == "EXPLICIT" else "failed" if block == "ABORTED" else "idle"

    def check_password(self, password: str) -> None:
        """ConnectFailure if the role has another password."""
        from pgrepl.catalog.passwords import verify_password
        from pgrepl.catalog.roles import role_row
        from pgrepl.catalog.transaction import reading

        with reading(self.session):
            role = role_row(self.session, self.session.authenticated_user)
        if role is not None and role.rolpassword and not verify_password(self.user, role.rolpassword, password):
            report = Report("FATAL", "28P01", f'password authentication failed for user "{self.user}"')
            raise ConnectFailure(_connect_message(self.target.catalog, report))

    def setting(self, name: str) -> str:
        return self.session.settings.get(name)

    @property
    def is_superuser(self) -> bool:
        """Is the current role a superuser? After the session has ended, the answer is the last one before."""
        from pgrepl.catalog.transaction import between_statements

        if self.lost is None:
            with between_statements(self.session):
                self._superuser = self.setting("is_superuser") == "on"
        return self._superuser

    # --- running -----------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Have the database's subscriptions catch up with their publishers."""
        if self.lost is not None:
            return
        if self._catch_up is None:
            if self.session.transaction.block.name != "NONE" or not self._has_subscriptions():
                return
            from pgrepl.replication.subscriber.catch_up import CatchUp

            self._catch_up = CatchUp(self.session)
        self._catch_up.now()

    def _has_subscriptions(self) -> bool:
        from pgrepl.catalog.subscription import subscriptions
        from pgrepl.catalog.transaction import reading

        with reading(self.session):
            return bool(subscriptions(self.session))

    def run(self, text: str) -> Iterator[Result]:
        """Run a simple query: the results of its statements, one after the other; PgError where one fails."""
        from pgrepl.statements.run import run

        self.check_open()
        try:
            yield from run(self.session, text)
        except PgError as error:
            if error.report.severity == "FATAL":
                self.terminate(error)
            raise
        except Exception as problem:
            raise _of_spark(problem) or internal_error(problem) from problem
        except GeneratorExit:
            # the rest of the string is not wanted: its transaction must not stay open
            if self.session.transaction.block.name == "IMPLICIT":
                self.session.transaction.fail_statement()
            raise
        finally:
            self.idle_since = time.monotonic()

    def check_open(self) -> None:
        """Raise the error that has ended the session, or that of a session that was idle for too long."""
        from pgrepl.query.timeouts import overdue

        error = self.lost or overdue(self.session, self.idle_since)
        if error is not None:
            self.terminate(error)
            raise error

    def terminate(self, error: PgError) -> None:
        """End the session with a FATAL error, which later statements get, too."""
        if self.lost is None:
            self.lost = error
            self.session.close()

    def close(self) -> None:
        if self.lost is None:
            self.session.close()
        self.catalog.close()


def _connect_message(catalog: str, report: Report) -> str:
    lines = [f'connection to catalog "{without_password(catalog)}" failed: {report.severity}:  {report.message}']
    if report.detail is not None:
        lines.append(f"DETAIL:  {report.detail}")
    if report.hint is not None:
        lines.append(f"HINT:  {report.hint}")
    return "\n".join(lines)


def _of_spark(problem: Exception) -> PgError | None:
    """The error of Spark that ended a statement."""
    return jobs.pg_error(problem)


def internal_error(problem: Exception) -> PgError:
    """An internal error in PostgreSQL's form: a defect of pgrepl names its place in the code, without a traceback."""
    if isinstance(problem, RecursionError):
        return stack_depth_exceeded()
    if isinstance(problem, MemoryError):
        return PgError("53200", "out of memory")
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = None
    if trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_name}, {os.path.basename(code.co_filename)}:{trace.tb_lineno}"
    return PgError("XX000", f"internal error: {type(problem).__name__}: {problem}", context=place)
