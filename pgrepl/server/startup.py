"""The start of a connection: TLS, cancel requests, the start-up packet (ProcessStartupPacket).

A client may first ask for TLS or GSSAPI, which is answered with one byte. The key must not be readable by others, as
PostgreSQL demands it.
"""

from __future__ import annotations

import os
import socket
import ssl
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgrepl.ground.errors import PgError
from pgrepl.server.channel import Body, Channel, ConnectionLost
from pgrepl.types.numbers import parse_bool

_CANCEL, _TLS, _GSS = (1234 << 16) | 5678, (1234 << 16) | 5679, (1234 << 16) | 5680
_TLS_RECORD = 0x16  # the first byte of a client that begins TLS at once (sslnegotiation=direct)
_LONGEST = 10_000  # MAX_STARTUP_PACKET_LENGTH
_MAJOR, _NEWEST_MINOR = 3, 2
_INT32 = struct.Struct("!I")


@dataclass(frozen=True)
class CancelRequest:
    pid: int
    key: bytes


@dataclass(frozen=True)
class StartupPacket:
    """The start-up packet of a client. Parameters that are none of the protocol's own are settings."""

    minor: int  # version of the protocol
    user: str
    database: str
    options: str
    replication: str  # "", "database" or "physical"
    settings: Mapping[str, str]


def receive(channel: Channel, tls: ssl.SSLContext | None) -> StartupPacket | CancelRequest:
    asked: set[int] = set()
    if channel.begins_with() == _TLS_RECORD:
        _begin_tls(channel, tls, direct=True)
        asked.add(_TLS)
    while True:
        body = _packet(channel)
        (code,) = _INT32.unpack(body[:4])
        if code == _CANCEL:
            if len(body) < 9:
                raise ConnectionLost
            return CancelRequest(_INT32.unpack(body[4:8])[0], body[8:])
        if code == _TLS and _TLS not in asked:
            asked |= {_TLS, _GSS} if tls is not None else {_TLS}
            if tls is None or channel.connection.family == socket.AF_UNIX:
                _answer(channel, b"N")
            else:
                _answer(channel, b"S")
                _begin_tls(channel, tls, direct=False)
        elif code == _GSS and _GSS not in asked:
            asked.add(_GSS)
            _answer(channel, b"N")
        else:
            return _parameters(channel, code, body[4:])


def _packet(channel: Channel) -> bytes:
    (length,) = _INT32.unpack(channel.take(4))
    if not 8 <= length <= _LONGEST:
        raise PgError("08P01", "invalid length of startup packet", severity="FATAL")
    return channel.take(length - 4)


def _answer(channel: Channel, byte: bytes) -> None:
    channel.send_raw(byte)
    channel.flush()


def _begin_tls(channel: Channel, tls: ssl.SSLContext | None, *, direct: bool) -> None:
    if tls is None or channel.connection.family == socket.AF_UNIX:
        raise ConnectionLost
    try:
        channel.start_tls(tls)
    except (ssl.SSLError, OSError) as problem:
        raise PgError("08P01", f"could not accept SSL connection: {problem}", severity="FATAL") from None
    chosen = channel.connection.selected_alpn_protocol() if isinstance(channel.connection, ssl.SSLSocket) else None
    if direct and chosen != "postgresql":
        said = "received direct SSL connection request without required ALPN protocol negotiation"
        raise PgError("08P01", said, severity="FATAL")


def _parameters(channel: Channel, code: int, data: bytes) -> StartupPacket:
    major, minor = code >> 16, code & 0xFFFF
    if major != _MAJOR:
        raise PgError(
            "0A000",
            f"unsupported frontend protocol {major}.{minor}: server supports {_MAJOR}.0 to {_MAJOR}.{_NEWEST_MINOR}",
            severity="FATAL",
        )
    given = _pairs(data)
    unknown = [name for name in given if name.startswith("_pq_.")]
    if minor > _NEWEST_MINOR or unknown:
        minor = min(minor, _NEWEST_MINOR)
        body = _INT32.pack(_MAJOR << 16 | minor) + _INT32.pack(len(unknown))
        channel.send(b"v", body + b"".join(name.encode() + b"\0" for name in unknown))
    user = given.pop("user", "")
    if not user:
        raise PgError("28000", "no PostgreSQL user name specified in startup packet", severity="FATAL")
    database = given.pop("database", "") or user
    replication = _replication(given.pop("replication", ""))
    options = given.pop("options", "")
    settings = {name: value for name, value in given.items() if name not in unknown}
    return StartupPacket(minor, user[:63], database[:63], options, replication, settings)


def _pairs(data: bytes) -> dict[str, str]:
    body = Body(data)
    pairs: dict[str, str] = {}
    try:
        while name := body.string():
            pairs[name.decode()] = body.string().decode()
    except (PgError, UnicodeDecodeError):
        raise _bad_layout() from None
    if body.left:
        raise _bad_layout()
    return pairs


def _bad_layout() -> PgError:
    return PgError("08P01", "invalid startup packet layout: expected terminator as last byte", severity="FATAL")


def _replication(text: str) -> str:
    if text == "database":
        return text
    if not text:
        return ""
    flag = parse_bool(text)
    if flag is None:
        message = f'invalid value for parameter "replication": "{text}"'
        raise PgError("22023", message, hint='Valid values are: "false", 0, "true", 1, "database".', severity="FATAL")
    return "physical" if flag else ""


# --- tls --------------------------------------------------------------------------------------------------------------


def server_context(certificate: Path, key: Path, authority: Path | None, protocol: str) -> ssl.SSLContext:
    """`protocol` is what is spoken over TLS, by the name that ALPN has for it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _check_key(key)
    try:
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except (OSError, ssl.SSLError) as problem:
        text = getattr(problem, "strerror", None) or str(problem)
        raise PgError("F0000", f'could not load server certificate file "{certificate}": {text}') from None
    if authority is not None:
        try:
            context.load_verify_locations(authority)
        except (OSError, ssl.SSLError) as problem:
            text = getattr(problem, "strerror", None) or str(problem)
            raise PgError("F0000", f'could not load root certificate file "{authority}": {text}') from None
        context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols([protocol])
    return context


def _no_passphrase() -> str:
    raise PgError("F0000", "private key file cannot be loaded because it requires a passphrase")


def _check_key(key: Path) -> None:
    """Raise unless the key belongs to its user alone (check_ssl_key_file_permissions)."""
    try:
        status = os.stat(key)
    except OSError as problem:
        raise PgError("F0000", f'could not access private key file "{key}": {problem.strerror}') from None
    if not stat.S_ISREG(status.st_mode):
        raise PgError("F0000", f'private key file "{key}" is not a regular file')
    if status.st_uid not in (os.geteuid(), 0):
        raise PgError("F0000", f'private key file "{key}" must be owned by the database user or root')
    refused = 0o077 if status.st_uid == os.geteuid() else 0o037
    if status.st_mode & refused:
        raise PgError(
            "F0000",
            f'private key file "{key}" has group or world access',
            detail="File must have permissions u=rw (0600) or less if owned by the database user, "
            "or permissions u=rw,g=r (0640) or less if owned by root.",
        )
