"""Authentication of a new connection by the first rule of pg_hba.conf that fits it (auth.c)."""

from __future__ import annotations

import hmac
import os
import pwd
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import tables
from pgrepl.catalog.passwords import is_md5, md5_answer, verify_password
from pgrepl.catalog.roles import is_member_of_role
from pgrepl.catalog.store import one
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.server import hba, scram
from pgrepl.server.channel import Body, Channel, ConnectionLost

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_REQUEST = struct.Struct("!I")
_OK, _PASSWORD, _MD5, _SASL, _SASL_CONTINUE, _SASL_FINAL = 0, 3, 5, 10, 11, 12
PASSWORDS = ("scram-sha-256", "md5", "password")  # methods
_LONGEST_PASSWORD_MESSAGE = 65535  # PG_MAX_AUTH_TOKEN_LENGTH


@dataclass(frozen=True)
class AuthenticationConfig:
    """The files and secrets by which clients are authenticated."""

    hba_file: Path
    ident_file: Path
    certificate_hash: bytes | None  # for channel binding
    mock_nonce: bytes  # the same for all connections of a server


def authenticate(channel: Channel, session: Session, client: hba.Client, config: AuthenticationConfig) -> str:
    """Let the client in, or raise a FATAL error: as whom and by what, for the log. `session` reads roles of the
    catalog; nobody has entered it yet."""
    rule = rule_for(session, client, config)
    _demanded_certificate(channel.connection, rule)
    identity = None
    if rule.method == "peer":
        identity = _peer(channel)
        _check_mapped(session, config, rule, identity, client, "Peer")
    elif rule.method in PASSWORDS:
        identity = client.user
        _check_password(channel, session, client, config, rule.method)
    if check_certificate(channel.connection, session, config, rule, client):
        identity = identity or _distinguished_name(channel.connection)
    channel.send(b"R", _REQUEST.pack(_OK))
    who = f'user="{client.user}"' if identity is None else f'identity="{identity}"'
    return f"{who} method={rule.method} ({config.hba_file}:{rule.line})"


def rule_for(session: Session, client: hba.Client, config: AuthenticationConfig) -> hba.Rule:
    """The rule that fits the client, or a FATAL error if there is none, or it rejects."""
    rules = hba.read_rules(config.hba_file)
    bad = next((each for each in rules if isinstance(each, hba.BadLine)), None)
    if bad is not None:
        raise PgError("F0000", f"could not load {config.hba_file}", severity="FATAL")
    with reading(session):
        rule = hba.matching([each for each in rules if isinstance(each, hba.Rule)], client, _members(session))
    if rule is None:
        raise _refused("no pg_hba.conf entry", client)
    if rule.method == "reject":
        raise _refused("pg_hba.conf rejects connection", client)
    return rule


def _members(session: Session) -> Callable[[str, str], bool]:
    def is_member(role: str, of: str) -> bool:
        found, group = (one(session, tables.pg_authid, rolname=name) for name in (role, of))
        return found is not None and group is not None and is_member_of_role(session, found.oid, group.oid)

    return is_member


def _refused(what: str, client: hba.Client) -> PgError:
    where = "[local]" if client.is_local else str(client.address)
    encryption = "" if client.is_local else ", SSL encryption" if client.over_tls else ", no encryption"
    if client.replication:
        text = f'{what} for replication connection from host "{where}", user "{client.user}"{encryption}'
    else:
        text = f'{what} for host "{where}", user "{client.user}", database "{client.database}"{encryption}'
    return PgError("28000", text, severity="FATAL")


# --- peer and cert ----------------------------------------------------------------------------------------------------


def _peer(channel: Channel) -> str:
    """The name of the operating system's user at the other end."""
    form = struct.Struct("iII")
    data = channel.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    uid = form.unpack(data)[1]
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise PgError(
            "28000", f"could not look up local user ID {uid}: user does not exist", severity="FATAL"
        ) from None


def _demanded_certificate(connection: socket.socket, rule: hba.Rule) -> str:
    """The name in the client's certificate; an error if the rule demands one that is not there."""
    found = next((value for name, value in _subject(connection) if name == "commonName"), None)
    if found is None and (rule.method == "cert" or "clientcert" in rule.options):
        raise PgError("28000", "connection requires a valid client certificate", severity="FATAL")
    return found or ""


def check_certificate(
    connection: socket.socket, session: Session, config: AuthenticationConfig, rule: hba.Rule, client: hba.Client
) -> bool:
    """Raise unless the client has the certificate that the rule demands. Does it say who the client is?"""
    certificate = _demanded_certificate(connection, rule)
    names = rule.method == "cert" or rule.options.get("clientcert") == "verify-full"
    if names:
        _check_mapped(session, config, rule, certificate, client, "Certificate")
    return names


def _subject(connection: socket.socket) -> list[tuple[str, str]]:
    """The subject of the client's certificate, which the TLS library has verified."""
    found = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    subject: Any = (found or {}).get("subject", ())
    return [(name, str(value)) for part in subject for name, value in part]


_SHORT = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C",
          "stateOrProvinceName": "ST", "localityName": "L", "emailAddress": "emailAddress"}  # fmt: skip


def _distinguished_name(connection: socket.socket) -> str:
    """The subject as RFC 2253 writes it, the most special first."""
    return ",".join(f"{_SHORT.get(name, name)}={value}" for name, value in reversed(_subject(connection)))


def _check_mapped(
    session: Session, config: AuthenticationConfig, rule: hba.Rule, system_user: str, client: hba.Client, method: str
) -> None:
    """Raise unless the user of the system may be this role (check_usermap)."""
    name = rule.options.get("map")
    with reading(session):
        if name is None:
            allowed = system_user == client.user
        else:
            allowed = hba.maps_to(config.ident_file, name, system_user, client.user, _members(session))
    if not allowed:
        raise PgError("28000", f'{method} authentication failed for user "{client.user}"', severity="FATAL")


# --- passwords --------------------------------------------------------------------------------------------------------


def _check_password(
    channel: Channel, session: Session, client: hba.Client, config: AuthenticationConfig, method: str
) -> None:
    """As CheckPasswordAuth and CheckPWChallengeAuth do: md5 asks by SCRAM, too, unless the password is stored so."""
    stored = stored_password(session, client.user)
    if method == "password":
        channel.send(b"R", _REQUEST.pack(_PASSWORD))
        given = _password(channel).decode("utf-8", "surrogateescape")
        if stored is None or not verify_password(client.user, stored, given):
            raise wrong_password(client.user)
    elif method == "md5" and stored is not None and is_md5(stored):
        salt = os.urandom(4)
        channel.send(b"R", _REQUEST.pack(_MD5) + salt)
        if not hmac.compare_digest(_password(channel), md5_answer(stored, salt)):
            raise wrong_password(client.user)
    else:
        _scram(channel, client, config, stored)


def stored_password(session: Session, user: str) -> str | None:
    """The password of a role as it is stored; None: there is none, or its time is over."""
    with reading(session):
        role = one(session, tables.pg_authid, rolname=user)
        return None if role is None or _is_over(role.rolvaliduntil) else role.rolpassword


def _password(channel: Channel) -> bytes:
    """As recv_password_packet does."""
    body = _response(channel, "password")
    found = Body(body).string()
    if len(found) + 1 != len(body):
        raise PgError("08P01", "invalid password packet size", severity="FATAL")
    if not found:
        raise PgError("28P01", "empty password returned by client", severity="FATAL")
    return found


def wrong_password(user: str) -> PgError:
    return PgError("28P01", f'password authentication failed for user "{user}"', severity="FATAL")


def _scram(channel: Channel, client: hba.Client, config: AuthenticationConfig, stored: str | None) -> None:
    binding = config.certificate_hash if client.over_tls else None
    exchange = scram.ScramExchange(stored, client.user, config.mock_nonce, binding)
    names = [scram.PLUS, scram.PLAIN] if binding is not None else [scram.PLAIN]
    channel.send(b"R", _REQUEST.pack(_SASL) + b"".join(name.encode() + b"\0" for name in names) + b"\0")
    body = Body(_response(channel))
    mechanism = body.string().decode("utf-8", "replace")
    if mechanism not in names:
        raise PgError("08P01", "client selected an invalid SASL authentication mechanism", severity="FATAL")
    length = body.int32()
    message = body.take(length) if length >= 0 else b""
    body.end()
    channel.send(b"R", _REQUEST.pack(_SASL_CONTINUE) + exchange.first(mechanism, message))
    answer = exchange.final(_response(channel))
    if answer is None:
        raise wrong_password(client.user)
    channel.send(b"R", _REQUEST.pack(_SASL_FINAL) + answer)


def _response(channel: Channel, what: str = "SASL") -> bytes:
    channel.flush()
    kind = channel.read_kind()
    if kind != b"p":
        raise PgError("08P01", f"expected {what} response, got message type {kind[0]}", severity="FATAL")
    return channel.read_body(_LONGEST_PASSWORD_MESSAGE)


def _is_over(until: object) -> bool:
    """Whether a password is no longer valid (rolvaliduntil)."""
    from datetime import datetime, timezone

    from pgrepl.types.oids import TIMESTAMPTZ
    from pgrepl.types.text import read_text

    if until is None:
        return False
    value = until if isinstance(until, int) else read_text(str(until), TIMESTAMPTZ)
    epoch = datetime(2000, 1, 1, tzinfo=timezone.utc)
    return bool(value < (datetime.now(timezone.utc) - epoch).total_seconds() * 1_000_000)


def client_of(connection: socket.socket, database: str, user: str, *, replication: bool) -> hba.Client:
    """The client of a connection, for the rules of pg_hba.conf."""
    local = connection.family == socket.AF_UNIX
    address: IPv4Address | IPv6Address | None = None
    if not local:
        try:
            address = ip_address(connection.getpeername()[0].partition("%")[0])
        except (OSError, ValueError):
            raise ConnectionLost from None
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
    return hba.Client(database, user, local, isinstance(connection, ssl.SSLSocket), replication, address)
