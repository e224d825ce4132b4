"""Authentication of a new connection by the first rule of pg_hba.conf that fits it (auth.c), and SCRAM-SHA-256
(auth-scram.c).

A role that does not exist, or has no password, goes through the same exchange and fails at its end, so that an
outsider cannot tell.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import pwd
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.passwords import ScramVerifier, is_md5, md5_answer, scram_verifier, verify_password
from pgrepl.catalog.facts.roles import is_member_of_role
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one
from pgrepl.ground.errors import PgError
from pgrepl.server import hba
from pgrepl.server.channel import Body, Channel, ConnectionLost
from pgrepl.types.oids import TIMESTAMPTZ
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"


class ScramExchange:
    """One exchange. `first` and `final` take what the client says and return what it is told."""

    def __init__(self, stored: str | None, user: str, mock_nonce: bytes, binding: bytes | None) -> None:
        """`stored`: the role's verifier. `binding`: the hash of the server's certificate, over TLS."""
        verifier = scram_verifier(stored) if stored else None
        self._fails = verifier is None
        self._verifier = verifier or _mock(user, mock_nonce)
        self._binding = binding
        self._plus = False

    def first(self, mechanism: str, message: bytes) -> bytes:
        """What the client's first message is answered with (read_client_first_message)."""
        self._plus = mechanism == PLUS
        text = _decoded(message)
        rest = self._after_flag(text)
        if rest.startswith("a"):
            raise PgError("0A000", "client uses authorization identity, but it is not supported", severity="FATAL")
        if not rest.startswith(","):
            raise malformed(f'Unexpected attribute "{_shown(rest)}" in client-first-message.')
        self._client_first = rest[1:]
        self._header = text.removesuffix(self._client_first)
        if self._client_first.startswith("m"):
            raise PgError("0A000", "client requires an unsupported SCRAM extension", severity="FATAL")
        _user, rest = _attribute(self._client_first, "n")
        nonce, rest = _attribute(rest, "r")
        if not nonce or not all("!" <= char <= "~" for char in nonce):
            raise PgError("08P01", "non-printable characters in SCRAM nonce", severity="FATAL")
        while rest:
            rest = _attribute(rest)[1]
        self._nonce = nonce + base64.b64encode(os.urandom(18)).decode()
        salt = base64.b64encode(self._verifier.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._server_first.encode()

    def _after_flag(self, text: str) -> str:
        """What follows the channel-binding flag: n no support, y thinks that the server has none, p used."""
        flag = text[0]
        if flag == "p":
            if not self._plus:
                raise malformed(
                    "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel "
                    "binding data."
                )
            kind, rest = _attribute(text, "p")
            if kind != "tls-server-end-point":
                raise PgError("08P01", f'unsupported SCRAM channel-binding type "{kind}"', severity="FATAL")
            return rest
        if flag not in ("n", "y"):
            raise malformed(f'Unexpected channel-binding flag "{_shown(flag)}".')
        if self._plus:
            raise malformed(
                "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data."
            )
        if flag == "y" and self._binding is not None:
            raise PgError(
                "28000",
                "SCRAM channel binding negotiation error",
                detail="The client supports SCRAM channel binding but thinks the server does not.  "
                "However, this server does support channel binding.",
                severity="FATAL",
            )
        if text[1:2] != ",":
            raise malformed(f'Comma expected, but found character "{_shown(text[1:])}".')
        return text[2:]

    def final(self, message: bytes) -> bytes | None:
        """The server's signature; None: the password is wrong (read_client_final_message)."""
        text = _decoded(message)
        binding, rest = _attribute(text, "c")
        if binding != base64.b64encode(self._header.encode() + (self._binding or b"" if self._plus else b"")).decode():
            if self._plus:
                raise PgError("28000", "SCRAM channel binding check failed", severity="FATAL")
            unexpected = "unexpected SCRAM channel-binding attribute in client-final-message"
            raise PgError("08P01", unexpected, severity="FATAL")
        nonce, rest = _attribute(rest, "r")
        name = proof_text = ""
        without_proof = text
        while name != "p":
            without_proof = text.removesuffix("," + rest)
            name = rest[:1]
            proof_text, rest = _attribute(rest)
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            proof = b""
        if len(proof) != 32:
            raise malformed("Malformed proof in client-final-message.")
        if rest:
            raise malformed("Garbage found at the end of client-final-message.")
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise PgError("08P01", "invalid SCRAM response", detail="Nonce does not match.", severity="FATAL")
        about = f"{self._client_first},{self._server_first},{without_proof}".encode()
        signature = hmac.new(self._verifier.stored_key, about, hashlib.sha256).digest()
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        right = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        if self._fails or not right:
            return None
        return b"v=" + base64.b64encode(hmac.new(self._verifier.server_key, about, hashlib.sha256).digest())


def _attribute(text: str, name: str | None = None) -> tuple[str, str]:
    """The value of the attribute that a message goes on with, and what follows it (read_attr_value, read_any_attr)."""
    letter = text[:1]
    if name is not None and letter != name:
        raise malformed(f'Expected attribute "{name}" but found "{_shown(text)}".')
    if not letter:
        raise malformed("Attribute expected, but found end of string.")
    if not (letter.isascii() and letter.isalpha()):
        raise malformed(f'Attribute expected, but found invalid character "{_shown(text)}".')
    if text[1:2] != "=":
        raise malformed(f'Expected character "=" for attribute "{letter}".')
    value, _, rest = text[2:].partition(",")
    return value, rest


def _shown(text: str) -> str:
    """The first character of a text (sanitize_char)."""
    code = text.encode()[0] if text else 0
    return f"'{chr(code)}'" if 0x21 <= code <= 0x7E else f"0x{code:02x}"


def _mock(user: str, nonce: bytes) -> ScramVerifier:
    """A verifier that looks the same for the same user each time (mock_scram_secret)."""
    salt = hashlib.sha256(user.encode() + nonce).digest()[:16]
    return ScramVerifier(4096, salt, bytes(32), bytes(32))


def _decoded(message: bytes) -> str:
    if not message:
        raise malformed("The message is empty.")
    try:
        text = message.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed("Message length does not match input length.") from None
    if "\0" in text:
        raise malformed("Message length does not match input length.")
    return text


def malformed(detail: str) -> PgError:
    return PgError("08P01", "malformed SCRAM message", detail=detail, severity="FATAL")


def certificate_hash(der: bytes, algorithm: str) -> bytes:
    """The binding data tls-server-end-point: the hash of the server's certificate, by its signature's algorithm, MD5
    and SHA-1 replaced by SHA-256."""
    return hashlib.new("sha256" if algorithm in ("md5", "sha1") else algorithm, der).digest()


# --- authentication ---------------------------------------------------------------------------------------------------


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
    bad = next((line for line in rules if isinstance(line, hba.BadLine)), None)
    if bad is not None:
        raise PgError("F0000", f"could not load {config.hba_file}", severity="FATAL")
    with reading(session):
        rule = hba.matching([line for line in rules if isinstance(line, hba.Rule)], client, _members(session))
    if rule is None:
        raise _refused("no pg_hba.conf entry", client)
    if rule.method == "reject":
        raise _refused("pg_hba.conf rejects connection", client)
    return rule


def _members(session: Session) -> Callable[[str, str], bool]:
    def is_member(role: str, of: str) -> bool:
        member, group = (one(session, tables.pg_authid, rolname=name) for name in (role, of))
        return member is not None and group is not None and is_member_of_role(session, member.oid, group.oid)

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
    common_name = next((value for name, value in _subject(connection) if name == "commonName"), None)
    if common_name is None and (rule.method == "cert" or "clientcert" in rule.options):
        raise PgError("28000", "connection requires a valid client certificate", severity="FATAL")
    return common_name or ""


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
    certificate = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    subject: Any = (certificate or {}).get("subject", ())
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
    """The password or SASL message that a client sends (recv_password_packet)."""
    body = _response(channel, "password")
    password = Body(body).string()
    if len(password) + 1 != len(body):
        raise PgError("08P01", "invalid password packet size", severity="FATAL")
    if not password:
        raise PgError("28P01", "empty password returned by client", severity="FATAL")
    return password


def wrong_password(user: str) -> PgError:
    return PgError("28P01", f'password authentication failed for user "{user}"', severity="FATAL")


def _scram(channel: Channel, client: hba.Client, config: AuthenticationConfig, stored: str | None) -> None:
    binding = config.certificate_hash if client.over_tls else None
    exchange = ScramExchange(stored, client.user, config.mock_nonce, binding)
    names = [PLUS, PLAIN] if binding is not None else [PLAIN]
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
    if until is None:
        return False
    value = until if isinstance(until, int) else read_text(str(until), TIMESTAMPTZ)
    epoch = datetime(2000, 1, 1, tzinfo=timezone.utc)
    return bool(value < (datetime.now(timezone.utc) - epoch).total_seconds() * 1_000_000)


def client_of(connection: socket.socket, database: str, user: str) -> hba.Client:
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
    return hba.Client(database, user, local, isinstance(connection, ssl.SSLSocket), False, address)
