"""From a connection string to a publisher, and whether it is still the server that it was.

The system identifier is stored with the subscription and compared when a worker connects; a standby has its
primary's. Setting slot_name anew accepts a new server.

The option `files`: files of changes, whose tables a database of this instance declares. `localhost` or no host, no
port, and a database that exists here: this instance. A folder with a `catalog.db`: another instance. Anything else is a
server. In an instance the role must be one that could start a walsender; a password is checked if the string and the
role have one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.passwords import verify_password
from pgrepl.catalog.facts.roles import database_or_none, has_attribute, role_or_none
from pgrepl.catalog.session import login
from pgrepl.catalog.session.login import admit_to_database, admit_user, apply_stored_settings
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.catalog.store.store import delete, insert, one, update
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER
from pgrepl.ground.errors import PgError
from pgrepl.replication.conninfo import (
    DEFAULT_PORT,
    FILES,
    ConnectionFailure,
    Endpoint,
    apply_options,
    check_conninfo,
    check_port,
    endpoints,
    only,
)
from pgrepl.replication.publisher.lake.publisher import LakePublisher
from pgrepl.replication.publisher.postgres.link import Unreachable
from pgrepl.replication.publisher.protocol import Publisher, server_text
from pgrepl.types.oids import TIMESTAMPTZ
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.files.listing import FilesOptions
    from pgrepl.replication.publisher.files.memory import GivenBatch
    from pgrepl.replication.publisher.files.publisher import FilesPublisher
    from pgrepl.replication.publisher.postgres.publisher import PostgresPublisher


UNKNOWN = ""  # in place of an identifier; catalog/store/bootstrap.py writes it


def remember(session: Session, subid: int, publisher: Publisher) -> None:
    """Store the publisher's identifier with the subscription, if it has none; in a write transaction."""
    known = one(session, tables.pgrepl_publisher, subid=subid)
    if known is None:
        insert(session, tables.pgrepl_publisher, subid=subid, system_identifier=publisher.system_identifier)
    elif known.system_identifier == UNKNOWN:
        update(session, tables.pgrepl_publisher, {"subid": subid}, system_identifier=publisher.system_identifier)


def has_identity(session: Session, subid: int) -> bool:
    """Has a worker stored the publisher's identifier?"""
    known = one(session, tables.pgrepl_publisher, subid=subid)
    return known is not None and known.system_identifier != UNKNOWN


def predates_identity(session: Session, subid: int) -> bool:
    """Was the subscription made before format 5, and has no worker connected since?"""
    return one(session, tables.pgrepl_publisher, subid=subid, system_identifier=UNKNOWN) is not None


def forget(session: Session, subid: int) -> None:
    """Remove the identifier: the next worker accepts any server."""
    delete(session, tables.pgrepl_publisher, subid=subid)


def check(session: Session, subscription: tables.pg_subscription, publisher: Publisher) -> None:
    """Raise if the publisher's identifier differs from the stored one."""
    before = one(session, tables.pgrepl_publisher, subid=subscription.oid)
    if before is None:
        return
    identifier = publisher.system_identifier
    if before.system_identifier in (UNKNOWN, identifier):
        return
    raise PgError(
        "55000",
        f'the publisher of subscription "{subscription.subname}" is another server than before',
        detail=f"The server's identifier is {identifier}, that of the server whose changes are applied here is "
        f"{before.system_identifier}.",
        hint="Drop the subscription, empty its tables and create it again; or, if the slot goes on there from where it "
        "was, as after pg_upgrade, name it anew with ALTER SUBSCRIPTION ... SET (slot_name = ...).",
    )


# --- connection -------------------------------------------------------------------------------------------------------


DEFAULT_USER = "postgres"
_UNFIT = {"read-only": "session is not read-only", "standby": "server is not in hot standby mode"}
_NO_SOCKET = "No such file or directory\n\tIs the server running locally and accepting connections on that socket?"


class _NotHere(ConnectionFailure):
    """The error that this host did not answer; the next one is tried."""


class NotContacted(PgError):
    """The error that a rehearsal contacts no publisher outside of it."""

    def __init__(self) -> None:
        super().__init__("0A000", "the publisher is not contacted")


class _ClientRefuses(Exception):
    """libpq itself refuses to connect."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """The role and database of a connection."""

    user: str
    database: str
    password: str | None


def connect(
    session: Session,
    conninfo: str,
    *,
    must_use_password: bool,
    apart: bool = False,
    subid: int = 0,
    given: GivenBatch | None = None,
) -> Publisher:
    """An open connection (libpqrcv_connect), or ConnectionFailure with libpq's words. To the same instance it is part
    of the session's transaction, unless it is `apart`. `subid`: the subscription that connects; `given`: the batch of
    changes that `pgrepl apply --from` gives it."""
    options = check_conninfo(conninfo, must_use_password)
    user = options.get("user") or DEFAULT_USER
    wish = _Wish(user, options.get("dbname") or user, options.get("password") or None)
    hosts = () if "service" in options else endpoints(options)
    publisher: Publisher
    if session.catalog.is_rehearsal and (FILES in options or not _is_here(session, hosts, wish)):
        raise NotContacted()
    if FILES in options:
        publisher = _files(session, wish, options, apart, subid, given)
    elif all(_is_server(endpoint) for endpoint in hosts):
        publisher = _to_server(session, options)
    else:
        publisher = _first_reachable(session, hosts, wish, options, apart)
    if must_use_password and not publisher.used_password:
        publisher.close()
        raise PgError(
            "2F003",
            "password is required",
            detail="Non-superuser cannot connect if the server does not request a password.",
            hint="Target server's authentication method must be changed, "
            "or set password_required=false in the subscription parameters.",
        )
    return publisher


def files_options(session: Session, options: Mapping[str, str]) -> FilesOptions:
    """The options of a connection string for files of changes, or an error. Nothing is read for it."""
    from pgrepl.replication.formats import registry
    from pgrepl.replication.publisher.files.listing import FilesOptions

    is_here = all(endpoint.is_local and not _is_server(endpoint) for endpoint in endpoints(options))
    if "service" in options or not is_here:
        raise PgError(
            "22023",
            "a database of this instance declares the tables of files of changes: the connection string names no host",
        )
    options_of_files = FilesOptions.of(session, options)
    registry.reader(options_of_files.format, options_of_files.reader)
    return options_of_files


def _files(
    session: Session, wish: _Wish, options: Mapping[str, str], apart: bool, subid: int, given: GivenBatch | None
) -> FilesPublisher:
    """Files of changes, whose tables a database of this instance declares."""
    from pgrepl.replication.publisher.files.publisher import FilesPublisher

    try:
        own = files_options(session, options)
        there, used_password = _enter_database(session, wish, options, apart)
    except PgError as error:
        raise ConnectionFailure(server_text(error), error.sqlstate) from None
    except _ClientRefuses as refusal:
        raise ConnectionFailure(str(refusal)) from None
    declaring = LakePublisher(there, used_password=used_password, own_instance=True, apart=apart)
    return FilesPublisher(declaring, own, subid, given)


def _is_here(session: Session, hosts: tuple[Endpoint, ...], wish: _Wish) -> bool:
    """Does the string name a database of the session's instance, and nothing else?"""
    if not hosts or not all(endpoint.is_local and not _is_server(endpoint) for endpoint in hosts):
        return False
    with reading(session):
        return database_or_none(session, wish.database) is not None


def _to_server(session: Session, options: Mapping[str, str]) -> PostgresPublisher:
    from pgrepl.replication.publisher.postgres.publisher import to_server

    milliseconds = int(session.settings.value("wal_receiver_timeout"))
    interval = int(session.settings.value("wal_receiver_status_interval"))
    heartbeat = int(session.settings.value("pgrepl.publisher_heartbeat"))
    return to_server(
        options, session.catalog.data_path, milliseconds / 1000 or None, interval=interval, heartbeat=heartbeat
    )


def _first_reachable(
    session: Session, hosts: tuple[Endpoint, ...], wish: _Wish, options: Mapping[str, str], apart: bool
) -> Publisher:
    failures: list[str] = []
    for endpoint in hosts:
        try:
            if _is_server(endpoint):
                return _to_server(session, only(options, endpoint))
            if endpoint.is_local and (answering := _server_at_home(session, endpoint, wish, options)) is not None:
                return answering
            return _open(session, endpoint, wish, options, apart)
        except (_NotHere, Unreachable) as failure:
            failures.append(str(failure))
        except ConnectionFailure as failure:
            raise ConnectionFailure("\n".join([*failures, str(failure)]), failure.sqlstate) from None
    raise ConnectionFailure("\n".join(failures))


def _open(session: Session, endpoint: Endpoint, wish: _Wish, options: Mapping[str, str], apart: bool) -> Publisher:
    check_port(endpoint)
    foreign = None if endpoint.is_local else _catalog_file(session, endpoint)
    _check_peer(endpoint, foreign or session.catalog.path, options.get("requirepeer"))
    if not endpoint.is_socket and options.get("sslmode") in ("require", "verify-ca", "verify-full"):
        raise ConnectionFailure(endpoint.name + "server does not support SSL, but SSL was required")
    try:
        if foreign is None:
            publisher = _enter_own(session, wish, options, apart)
        else:
            publisher = _enter(session, foreign, wish, options)
    except PgError as error:
        raise ConnectionFailure(endpoint.name + server_text(error)) from None
    except _ClientRefuses as refusal:
        raise ConnectionFailure(f"{endpoint.name}{refusal}") from None
    mode = _UNFIT.get(options.get("target_session_attrs", "any"))
    if mode is not None:
        publisher.close()
        raise _NotHere(endpoint.name + mode)
    return publisher


def _is_server(endpoint: Endpoint) -> bool:
    """Whether libpq has to connect to the host. A folder with neither a catalog nor a server's socket counts as an
    instance's, which is missing."""
    if endpoint.is_folder:
        socket = os.path.join(endpoint.host, f".s.PGSQL.{endpoint.port}")
        return not os.path.exists(_file_in(endpoint)) and os.path.exists(socket)
    return not endpoint.is_local or endpoint.port != DEFAULT_PORT


def _server_at_home(
    session: Session, endpoint: Endpoint, wish: _Wish, options: Mapping[str, str]
) -> PostgresPublisher | None:
    """A database that does not exist here may be that of a server at libpq's default address; with the usual port in
    the string a server comes first, if there is one."""
    with reading(session):
        if database_or_none(session, wish.database) is not None and not options.get("port"):
            return None
    if session.catalog.is_rehearsal:
        return None
    try:
        return _to_server(session, only(options, endpoint))
    except (Unreachable, PgError):
        return None  # no server answers; the instance raises the error about the missing database


def _file_in(endpoint: Endpoint) -> str:
    return endpoint.host if os.path.isfile(endpoint.host) else os.path.join(endpoint.host, "catalog.db")


def _catalog_file(session: Session, endpoint: Endpoint) -> Path | None:
    """The catalog in a folder; None: it is the session's own."""
    file = _file_in(endpoint)
    if not os.path.exists(file):
        raise _NotHere(endpoint.name + _NO_SOCKET)
    own = session.catalog.path
    return None if own is not None and os.path.samefile(own, file) else Path(file)


def _check_peer(endpoint: Endpoint, file: Path | None, required: str | None) -> None:
    """requirepeer: the owner of the catalog's file is the user that a server would run as."""
    if not required or file is None or not endpoint.is_socket:
        return
    try:
        owner = file.owner()
    except KeyError:
        raise ConnectionFailure(f"{endpoint.name}local user with ID {file.stat().st_uid} does not exist") from None
    if owner != required:
        raise ConnectionFailure(
            f'{endpoint.name}requirepeer specifies "{required}", but actual peer user name is "{owner}"'
        )


def _enter_own(session: Session, wish: _Wish, options: Mapping[str, str], apart: bool) -> Publisher:
    there, used_password = _enter_database(session, wish, options, apart)
    return LakePublisher(there, used_password=used_password, own_instance=True, apart=apart)


def _enter_database(session: Session, wish: _Wish, options: Mapping[str, str], apart: bool) -> tuple[Session, bool]:
    """A session in a database of this instance, and whether the password was asked for."""
    role, database, used_password = _admit(session, wish, options)
    there = session.elsewhere(database, role, apart=apart)
    with reading(there):
        apply_stored_settings(there, role, database)
        apply_options(there, options.get("options", ""))
    return there, used_password


def _enter(session: Session, file: Path, wish: _Wish, options: Mapping[str, str]) -> Publisher:
    catalog = open_catalog(file)
    outside = session.elsewhere(0, BOOTSTRAP_SUPERUSER, catalog=catalog)
    try:
        with reading(outside):
            role, database, used_password = _admit(outside, wish, options)
        there = outside.elsewhere(database, role, apart=True)
        with reading(there):
            login.start(there)
            apply_stored_settings(there, role, database)
            apply_options(there, options.get("options", ""))
    except BaseException:
        catalog.close()
        raise
    finally:
        outside.close()
    return LakePublisher(there, used_password=used_password, own_instance=False, apart=True)


def _admit(session: Session, wish: _Wish, options: Mapping[str, str]) -> tuple[int, int, bool]:
    """The OIDs of role and database and whether the password was asked for, or a FATAL error, in the order in which
    a server checks (InitPostgres). A role that has no password is not asked for one."""
    known = role_or_none(session, wish.user)
    asked = wish.password is not None and (known is None or known.rolpassword is not None)
    _check_authentication(asked, options)
    if asked:
        _check_password(known, wish)
    role = admit_user(session, wish.user)
    if not has_attribute(session, role.oid, "rolreplication"):
        raise PgError(
            "42501",
            "permission denied to start WAL sender",
            detail="Only roles with the REPLICATION attribute may start a WAL sender process.",
            severity="FATAL",
        )
    return int(role.oid), int(admit_to_database(session, role, wish.database).oid), asked


def _check_authentication(asked: bool, options: Mapping[str, str]) -> None:
    """Whether the string allows this authentication method (check_expected_areq)."""
    method = "scram-sha-256" if asked else "none"
    listed = options.get("require_auth", "")
    names = [name.removeprefix("!") for name in listed.split(",")]
    if listed and (method in names) == listed.startswith("!"):
        reason = "server requested SASL authentication" if asked else "server did not complete authentication"
        raise _ClientRefuses(f'authentication method requirement "{listed}" failed: {reason}')
    if options.get("channel_binding") == "require":
        without = "server authenticated client without channel binding"
        raise _ClientRefuses(f"channel binding required, but {'SSL not in use' if asked else without}")


def _check_password(role: tables.pg_authid | None, wish: _Wish) -> None:
    secret = None if role is None or _expired(role.rolvaliduntil) else role.rolpassword
    if secret is None or wish.password is None or not verify_password(wish.user, secret, wish.password):
        raise PgError("28P01", f'password authentication failed for user "{wish.user}"', severity="FATAL")


def _expired(valid_until: str | None) -> bool:
    if valid_until is None:
        return False
    passed = datetime.now(timezone.utc) - datetime(2000, 1, 1, tzinfo=timezone.utc)
    end: int = read_text(valid_until, TIMESTAMPTZ, -1, TextStyle(timezone="UTC"))
    return end < passed // timedelta(microseconds=1)
