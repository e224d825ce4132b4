"""From a connection string to a publisher: find the instance, let the role in, as libpq and the server would.

Nothing listens on a port here: `localhost`, or no host at all, is this instance, and a folder that holds a
`catalog.db` is another. There the role must be one that PostgreSQL would let start a WAL sender. A password in the
string is asked for and checked against the role's; without one the role is trusted, as is everybody who can read the
files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog.login import admit_to_database, admit_user
from pgrepl.catalog.passwords import verify_password
from pgrepl.catalog.roles import has_attribute, role_or_none
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError, unsupported
from pgrepl.replication.conninfo import check_conninfo
from pgrepl.replication.endpoints import ConnectionFailure, Endpoint, check_port, endpoints
from pgrepl.replication.lake_publisher import LakePublisher
from pgrepl.replication.publisher import Publisher, server_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

DEFAULT_USER = "postgres"
_NO_SOCKET = "No such file or directory\n\tIs the server running locally and accepting connections on that socket?"


class _NotHere(ConnectionFailure):
    """This host did not answer; the next may."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """Who wants to go where."""

    user: str
    database: str
    password: str | None


def connect(session: Session, conninfo: str, *, must_use_password: bool) -> Publisher:
    """An open connection (libpqrcv_connect), or ConnectionFailure with libpq's words."""
    options = check_conninfo(conninfo, must_use_password)
    if "service" in options:
        raise unsupported('connection option "service"')
    user = options.get("user") or DEFAULT_USER
    wish = _Wish(user, options.get("dbname") or user, options.get("password") or None)
    publisher = _first_reachable(session, endpoints(options), wish, options)
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


def _first_reachable(
    session: Session, hosts: tuple[Endpoint, ...], wish: _Wish, options: Mapping[str, str]
) -> Publisher:
    failures: list[str] = []
    for endpoint in hosts:
        try:
            return _open(session, endpoint, wish, options)
        except _NotHere as failure:
            failures.append(str(failure))
        except ConnectionFailure as failure:
            raise ConnectionFailure("\n".join([*failures, str(failure)]), failure.sqlstate) from None
    raise ConnectionFailure("\n".join(failures))


def _open(session: Session, endpoint: Endpoint, wish: _Wish, options: Mapping[str, str]) -> Publisher:
    check_port(endpoint)
    foreign = None if endpoint.is_local else _catalog_file(session, endpoint)
    _check_encryption(endpoint, options)
    _check_authentication(endpoint, wish, options)
    publisher = _enter_here(session, endpoint, wish) if foreign is None else _enter(foreign, endpoint, wish)
    refusal = {"read-only": "session is not read-only", "standby": "server is not in hot standby mode"}.get(
        options.get("target_session_attrs", "any")
    )
    if refusal is not None:
        publisher.close()
        raise _NotHere(endpoint.name + refusal)
    return publisher


def _catalog_file(session: Session, endpoint: Endpoint) -> Path | None:
    """The catalog behind a folder's name; None: it is the session's own."""
    if not endpoint.is_folder:
        raise _server()
    host = Path(endpoint.host)
    file = host if host.is_file() else host / "catalog.db"
    if not file.exists():
        if (host / f".s.PGSQL.{endpoint.port}").exists():
            raise _server()
        raise _NotHere(endpoint.name + _NO_SOCKET)
    own = session.catalog.path
    return None if own is not None and os.path.samefile(own, file) else file


def _server() -> ConnectionFailure:
    return ConnectionFailure("a PostgreSQL server as publisher is not supported", "0A000")


def _check_encryption(endpoint: Endpoint, options: Mapping[str, str]) -> None:
    if not endpoint.is_folder and options.get("sslmode") in ("require", "verify-ca", "verify-full"):
        raise ConnectionFailure(endpoint.name + "server does not support SSL, but SSL was required")


def _check_authentication(endpoint: Endpoint, wish: _Wish, options: Mapping[str, str]) -> None:
    """Is the way the role proves itself one that the string allows?"""
    method = "none" if wish.password is None else "scram-sha-256"
    listed = options.get("require_auth", "")
    names = [name.removeprefix("!") for name in listed.split(",")]
    if listed and (method in names) == listed.startswith("!"):
        reason = "server did not complete authentication"
        if wish.password is not None:
            reason = "server requested SASL authentication"
        raise ConnectionFailure(f'{endpoint.name}authentication method requirement "{listed}" failed: {reason}')
    if options.get("channel_binding") == "require":
        reason = "server authenticated client without channel binding"
        if wish.password is not None:
            raise ConnectionFailure(endpoint.name + "channel binding required, but SSL not in use")
        raise ConnectionFailure(f"{endpoint.name}channel binding required, but {reason}")


def _enter_here(session: Session, endpoint: Endpoint, wish: _Wish) -> Publisher:
    try:
        role, database = _admit(session, wish)
    except PgError as error:
        raise ConnectionFailure(endpoint.name + server_text(error)) from None
    there = session.elsewhere(database, role)
    return LakePublisher(there, used_password=wish.password is not None, own_instance=True)


def _enter(file: Path, endpoint: Endpoint, wish: _Wish) -> Publisher:
    from pgrepl.catalog.engine import open_catalog
    from pgrepl.catalog.session import Session

    try:
        catalog = open_catalog(file)
    except PgError as error:
        raise ConnectionFailure(endpoint.name + server_text(error)) from None
    door = Session(catalog)
    try:
        with reading(door):
            role, database = _admit(door, wish)
    except PgError as error:
        door.close()
        catalog.close()
        raise ConnectionFailure(endpoint.name + server_text(error)) from None
    there = door.elsewhere(database, role, apart=True)
    door.close()
    return LakePublisher(there, used_password=wish.password is not None, own_instance=False)


def _admit(session: Session, wish: _Wish) -> tuple[int, int]:
    """The OIDs of role and database, or a FATAL error, in the order in which a server checks (InitPostgres)."""
    if wish.password is not None:
        _check_password(session, wish.user, wish.password)
    role = admit_user(session, wish.user)
    if not has_attribute(session, role.oid, "rolreplication"):
        raise PgError(
            "42501",
            "permission denied to start WAL sender",
            detail="Only roles with the REPLICATION attribute may start a WAL sender process.",
            severity="FATAL",
        )
    return int(role.oid), int(admit_to_database(session, role, wish.database).oid)


def _check_password(session: Session, user: str, password: str) -> None:
    role = role_or_none(session, user)
    secret = None if role is None or _expired(role.rolvaliduntil) else role.rolpassword
    if not secret or not verify_password(user, secret, password):
        raise PgError("28P01", f'password authentication failed for user "{user}"', severity="FATAL")


def _expired(valid_until: str | None) -> bool:
    if valid_until is None:
        return False
    from pgrepl.types.oids import TIMESTAMPTZ
    from pgrepl.types.style import TextStyle
    from pgrepl.types.text import read_text

    passed = datetime.now(timezone.utc) - datetime(2000, 1, 1, tzinfo=timezone.utc)
    end: int = read_text(valid_until, TIMESTAMPTZ, -1, TextStyle(timezone="UTC"))
    return end < passed // timedelta(microseconds=1)
