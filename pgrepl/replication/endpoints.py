"""The hosts of a connection string, in the order in which libpq tries them, and their names in libpq's messages.

The checks are those that libpq makes before it opens a socket (pqConnectOptions2, PQconnectPoll), in its order and
words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_PORT = "5432"
DEFAULT_SOCKET_FOLDER = "/tmp"
LOOPBACK = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}

# option: its allowed values (pqConnectOptions2 checks them in this order)
_ALLOWED = {
    "channel_binding": ("disable", "prefer", "require"),
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    "sslcertmode": ("disable", "allow", "require"),
    "gssencmode": ("disable", "prefer", "require"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    "load_balance_hosts": ("disable", "random"),
}
_TLS_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")


class ConnectionFailure(Exception):
    """The connection failed; the message is libpq's, without its last line end."""

    def __init__(self, message: str, sqlstate: str = "08006") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One host of the list. `host` is "" where none was given, a folder starts with "/"."""

    host: str
    address: str
    port: str

    @property
    def is_folder(self) -> bool:
        return not self.address and self.host.startswith(("/", "@"))

    @property
    def is_socket(self) -> bool:
        return self.is_folder or not (self.host or self.address)

    @property
    def is_local(self) -> bool:
        """Whether the host is the instance itself: no host at all, or this machine's loopback at the usual port."""
        if not self.host and not self.address:
            return True
        return (self.address or self.host) in LOOPBACK and self.port == DEFAULT_PORT

    @property
    def name(self) -> str:
        """The name in messages (emitHostIdentityInfo)."""
        if self.is_folder or not (self.host or self.address):
            return (
                f'connection to server on socket "{self.host or DEFAULT_SOCKET_FOLDER}/.s.PGSQL.{self.port}" failed: '
            )
        shown = self.address or self.host
        looked_up = LOOPBACK.get(shown, shown)
        where = f'"{shown}"' if self.address or looked_up == shown else f'"{shown}" ({looked_up})'
        return f"connection to server at {where}, port {self.port} failed: "


def endpoints(options: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The hosts to try."""
    hosts, addresses = _split(options.get("host")), _split(options.get("hostaddr"))
    count = len(addresses or hosts) or 1
    if addresses and hosts and len(hosts) != count:
        raise ConnectionFailure(f"could not match {len(hosts)} host names to {count} hostaddr values")
    ports = _split(options.get("port")) or ("",)
    if len(ports) not in (1, count):
        raise ConnectionFailure(f"could not match {len(ports)} port numbers to {count} hosts")
    ports = ports * count if len(ports) == 1 else ports
    _check_values(options)
    return tuple(
        Endpoint(hosts[i] if hosts else "", addresses[i] if addresses else "", ports[i] or DEFAULT_PORT)
        for i in range(count)
    )


def check_port(endpoint: Endpoint) -> None:
    if not re.fullmatch(r"\s*[-+]?\d+\s*", endpoint.port, re.ASCII) or abs(int(endpoint.port)) >= 2**31:
        raise ConnectionFailure(f'invalid integer value "{endpoint.port}" for connection option "port"')
    if not 1 <= int(endpoint.port) <= 65535:
        raise ConnectionFailure(f'invalid port number: "{endpoint.port}"')


def _split(value: str | None) -> tuple[str, ...]:
    return tuple(value.split(",")) if value else ()


def _check_values(options: Mapping[str, str]) -> None:
    _check_require_auth(options.get("require_auth", ""))
    for name, allowed in _ALLOWED.items():
        if name == "sslcertmode":
            _check_tls_versions(options)
        value = options.get(name)
        if value is not None and value not in allowed:
            raise ConnectionFailure(f'invalid {name} value: "{value}"')
        if name == "gssencmode" and value == "require":
            raise ConnectionFailure('gssencmode value "require" invalid when GSSAPI support is not compiled in')
        if name == "sslnegotiation":
            mode = options.get("sslmode", "prefer")
            if value == "direct" and mode[0] not in "rv":
                raise ConnectionFailure(
                    f'weak sslmode "{mode}" may not be used with sslnegotiation=direct '
                    '(use "require", "verify-ca", or "verify-full")'
                )


def _check_require_auth(value: str) -> None:
    seen: set[str] = set()
    negated = False
    for position, part in enumerate(value.split(",") if value else ()):
        if part.startswith("!"):
            if position and not negated:
                raise ConnectionFailure(
                    f'negative require_auth method "{part}" cannot be mixed with non-negative methods'
                )
            negated = True
        elif negated:
            raise ConnectionFailure(f'require_auth method "{part}" cannot be mixed with negative methods')
        method = part.removeprefix("!") if negated else part
        if method not in ("password", "md5", "gss", "sspi", "scram-sha-256", "none"):
            raise ConnectionFailure(f'invalid require_auth value: "{method}"')
        if method in seen:
            raise ConnectionFailure(f'require_auth method "{part}" is specified more than once')
        seen.add(method)


def _check_tls_versions(options: Mapping[str, str]) -> None:
    given = []
    for name, default in (("ssl_min_protocol_version", "TLSv1.2"), ("ssl_max_protocol_version", "")):
        value = options.get(name, default)
        found = [v for v in _TLS_VERSIONS if v.lower() == value.lower()]
        if value and not found:
            raise ConnectionFailure(f'invalid "{name}" value: "{value}"')
        given.append(found[0] if found else "")
    lowest, highest = given
    if lowest and highest and _TLS_VERSIONS.index(lowest) > _TLS_VERSIONS.index(highest):
        raise ConnectionFailure("invalid SSL protocol version range")


def only(options: Mapping[str, str], endpoint: Endpoint) -> dict[str, str]:
    """The options with one host in place of several."""
    kept = {name: value for name, value in options.items() if name not in ("host", "hostaddr", "port")}
    if endpoint.host:
        kept["host"] = endpoint.host
    if endpoint.address:
        kept["hostaddr"] = endpoint.address
    if options.get("port"):
        kept["port"] = endpoint.port
    return kept
