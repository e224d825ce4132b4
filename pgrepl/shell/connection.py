"""The shell's connection, one session in one catalog with the attributes of psql's, and the character set of what it
reads and prints.

Bytes that are no characters become lone surrogates, and are printed as the bytes they were.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pgrepl.api.opened import OpenedSession, require_catalog
from pgrepl.catalog.store.connection import without_password
from pgrepl.ground.errors import PgError, Report
from pgrepl.types.input_checks import bytes_to_text, codec, of_client, text_to_bytes

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter
    from pgrepl.query.result import Result
    from pgrepl.replication.subscriber.launcher import CatchUp
    from pgrepl.statements.run import Execute


_UTF8 = "utf-8"
_now = [_UTF8]  # Python's name of it


def decoded(raw: bytes) -> str:
    return raw.decode(_now[0], "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of a text; a character that the encoding does not have is a question mark."""
    if text.isascii():
        return text.encode()
    return text.encode(_now[0], "surrogateescape" if _now[0] == _UTF8 else _QUESTION)


def follow(codec: str) -> None:
    """Read and print in another character set from now on."""
    _now[0] = codec


def is_utf8() -> bool:
    return _now[0] == _UTF8


_QUESTION = "pgrepl_shell"


def _bytes_or_question_marks(error: UnicodeError) -> tuple[bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    wrong = error.object[error.start : error.end]
    return b"".join([bytes([ord(c) - 0xDC00]) if "\udc80" <= c <= "\udcff" else b"?" for c in wrong]), error.end


codecs.register_error(_QUESTION, _bytes_or_question_marks)


# --- connection -------------------------------------------------------------------------------------------------------


CATALOG_FILE = "catalog.db"
_MAKING_ONE = "pgrepl -c 'CREATE DATABASE shop'"
_NO_CATALOG = f"Name the catalog with --catalog, or work in its folder. Statements make a new one: {_MAKING_ONE}"
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
    makes: bool = True  # is a catalog made where there is none?
    announces: bool = False  # with a notice that says where, since its name was not given


def is_conninfo(text: str) -> bool:
    """Is the text a connection string, not a database name? (recognized_connection_string)"""
    return "=" in text or text.startswith(("postgresql://", "postgres://"))


def at_host(target: ConnectTarget, own: ConnectTarget, options: Mapping[str, str]) -> ConnectTarget:
    """The target at another host: a folder with a catalog, or a catalog file. Without a host, or for this machine,
    the catalog is that of `own`."""
    from pgrepl.replication.conninfo import ConnectionFailure, check_port, endpoints

    try:
        endpoint = endpoints({name: value for name, value in options.items() if value})[0]
        check_port(endpoint)
    except ConnectionFailure as failure:
        raise ConnectFailure(str(failure)) from failure
    if endpoint.is_local:
        return replace(target, catalog=own.catalog, data_path=own.data_path)
    host = endpoint.host
    if not (endpoint.is_folder or "/" in host or host in (".", "..")):
        is_near = host and os.path.exists(os.path.join(own.folder, host))
        advice = (
            f"Is it meant to be a folder? Then write ./{host}" if is_near else "Give a folder with a catalog.db as host"
        )
        raise ConnectFailure(
            f"{endpoint.name}pgrepl opens a catalog, it is no client for servers\n"
            f"\t{advice}, or the catalog with --catalog."
        )
    is_file = os.path.isfile(os.path.join(own.folder, host))
    return replace(
        target, catalog=host if is_file else os.path.join(host, CATALOG_FILE), data_path=None, announces=False
    )


def from_conninfo(target: ConnectTarget, own: ConnectTarget, conninfo: str) -> ConnectTarget:
    """The target with the values of a connection string."""
    from pgrepl.replication.conninfo import FILES, ConninfoError, parse_conninfo

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
    if options.get("client_encoding"):
        settings["client_encoding"] = options["client_encoding"]
    return replace(
        target,
        database=options.get("dbname") or target.database,
        user=options.get("user") or target.user,
        settings=settings,
    )


def startup_settings(options: str) -> dict[str, str]:
    """The settings in PGOPTIONS: `-c name=value`, `--name=value`; a backslash escapes white space."""
    if not options:  # most often: the expressions are not compiled for that
        return {}
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", options)]
    settings = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "-c" and at < len(words):
            word = words[at]
            at += 1
        elif word.startswith(("-c", "--")) and len(word) > 2:
            word = word[2:]
        else:
            said = f"invalid command-line argument for server process: {word}"
            raise ConnectFailure(f'FATAL:  {said}\nHINT:  Try "postgres --help" for more information.')
        name, equals, value = word.partition("=")
        if not equals:
            raise ConnectFailure(f"FATAL:  -c {word} requires a value")
        settings[name.replace("-", "_")] = value
    return settings


def _is_elsewhere(catalog: str) -> bool:
    """Whether the catalog is no file."""
    return "://" in catalog or catalog == ":memory:"


def check_catalog(target: ConnectTarget) -> None:
    """An error where there is no catalog: for who only reads, and for who wants what a new one does not have."""
    if _is_elsewhere(target.catalog):
        return
    if os.path.lexists(os.path.join(target.folder, target.catalog)):
        return
    missing = f'There is no catalog "{target.catalog}".'
    if not target.makes:
        require_catalog(target.catalog, target.folder, hint=_NO_CATALOG)
    if target.database not in (DEFAULT_DATABASE, "template1"):
        raise PgError("3D000", f'database "{target.database}" does not exist', detail=missing, severity="FATAL")
    if target.user != DEFAULT_USER:
        raise PgError("28000", f'role "{target.user}" does not exist', detail=missing, severity="FATAL")


class Connection(OpenedSession):
    """The shell's open session. `on_report` gets its notices as they come."""

    def __init__(self, target: ConnectTarget, on_report: Callable[[Report], None]) -> None:
        self.target = target
        self._catch_up: CatchUp | None = None
        self._superuser = False
        self.told: set[Report] = set()  # of stopped subscriptions
        file = None if _is_elsewhere(target.catalog) else os.path.join(target.folder, target.catalog)
        is_new = file is not None and not os.path.lexists(file)
        try:
            check_catalog(target)
            super().__init__(
                target.catalog,
                target.database,
                target.user,
                settings=target.settings,
                data_path=target.data_path,
                folder=target.folder,
                on_report=on_report,
            )
        except PgError as error:
            raise failure_of(target.catalog, error) from error
        self.follow_encoding()
        if is_new and target.announces:
            self.session.notice("NOTICE", f'created catalog "{os.path.abspath(str(file))}"')

    def run(
        self, text: str, parameters: Sequence[Parameter] | None = None, *, execute: Execute | None = None
    ) -> Iterator[Result]:
        """Run a simple query. What is read and printed from then on is in the client's encoding."""
        for result in super().run(self._valid(text), parameters, execute=execute):
            yield result if self.follow_encoding() else self._printable(result)

    def follow_encoding(self) -> bool:
        """Whether the client's encoding has all characters; the shell reads and prints in it."""
        if self.setting("client_encoding") == "UTF8":
            follow("utf-8")
            return True
        from pgrepl.types.input_checks import is_utf8

        follow(codec(self._encoding()))
        return is_utf8(self._encoding())

    def _encoding(self) -> str:
        return of_client(self.setting("client_encoding"), self.setting("server_encoding"))

    def _valid(self, text: str) -> str:
        """The text, with an error for bytes that are no characters of the client's encoding."""
        if not text.isascii() and not is_utf8():
            return bytes_to_text(encoded(text), self._encoding())
        return text

    def _printable(self, result: Result) -> Result:
        """A result in the client's encoding, or the error for a character that it does not have."""
        rows = list(result.rows)
        try:
            for column in result.columns or ():
                text_to_bytes(column.name, self._encoding())
            for row in rows:
                for cell in row:
                    if cell is not None and not cell.isascii():
                        text_to_bytes(cell, self._encoding())
        except PgError:
            if self.status == "in transaction":
                self.session.transaction.fail_statement()
            raise
        return replace(result, rows=rows)

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
    def place(self) -> str:
        """The catalog, without a password."""
        return without_password(self.target.catalog)

    @property
    def described(self) -> str:
        """The catalog's quoted name for messages."""
        return f'"{self.place}"'

    @property
    def status(self) -> Status:
        block = self.session.transaction.block.name
        return "in transaction" if block == "EXPLICIT" else "failed" if block == "ABORTED" else "idle"

    def check_password(self, password: str) -> None:
        """ConnectFailure if the role has another password."""
        from pgrepl.catalog.facts.passwords import verify_password
        from pgrepl.catalog.facts.roles import role_row
        from pgrepl.catalog.session.transaction import reading

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
        if self.lost is None:
            self._superuser = self.setting("is_superuser") == "on"
        return self._superuser

    def catch_up(self) -> None:
        """Have the database's subscriptions catch up with their publishers."""
        if self.lost is not None:
            return
        if self._catch_up is None:
            if self.session.transaction.block.name != "NONE" or not self.has_subscriptions():
                return
            from pgrepl.replication.subscriber.launcher import CatchUp

            self._catch_up = CatchUp(self.session)
        self._catch_up.now()

    def stops(self) -> list[Report]:
        """What has stopped the database's subscriptions, as warnings."""
        if self.lost is not None or (self._catch_up is None and not self.has_subscriptions()):
            return []
        from pgrepl.catalog.session.transaction import reading
        from pgrepl.replication.subscriber.state import stops

        with reading(self.session):
            return [stop.report("WARNING") for stop in stops(self.session)]

    def has_subscriptions(self) -> bool:
        from pgrepl.catalog.facts.subscription import subscriptions
        from pgrepl.catalog.session.transaction import reading

        with reading(self.session):
            return bool(subscriptions(self.session))


def failure_of(catalog: str, error: PgError) -> ConnectFailure:
    """A connection to the catalog that failed with an error of the session."""
    return ConnectFailure(_connect_message(catalog, error.report))


def _connect_message(catalog: str, report: Report) -> str:
    lines = [f'connection to catalog "{without_password(catalog)}" failed: {report.severity}:  {report.message}']
    if report.detail is not None:
        lines.append(f"DETAIL:  {report.detail}")
    if report.hint is not None:
        lines.append(f"HINT:  {report.hint}")
    return "\n".join(lines)
