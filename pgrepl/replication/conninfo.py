"""Connection strings by libpq's rules: `host=… dbname=…` and `postgresql://user@host/dbname?…`.

libpq reads a connection string as bytes, and so does this module; its messages are libpq's (fe-connect.c). The options
of each host are checked as libpq does before it opens a socket, in its order and words (pqConnectOptions2,
PQconnectPoll). A subscription adds the settings that make values independent of the publisher's (libpqrcv_connect).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

OPTIONS = frozenset(
    [
        "service", "user", "password", "passfile", "channel_binding", "connect_timeout", "dbname", "host",
        "hostaddr", "port", "client_encoding", "options", "application_name", "fallback_application_name",
        "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "sslmode",
        "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslcertmode", "sslpassword", "sslrootcert",
        "sslcrl", "sslcrldir", "sslsni", "requirepeer", "require_auth", "ssl_min_protocol_version",
        "ssl_max_protocol_version", "gssencmode", "krbsrvname", "gsslib", "gssdelegation", "replication",
        "target_session_attrs", "load_balance_hosts",
    ]
)  # fmt: skip
USER_OPTIONS = ("user", "password", "sslcert", "sslkey", "sslpassword")  # of a user mapping
SERVER_OPTIONS = OPTIONS.difference(
    USER_OPTIONS, ("client_encoding", "fallback_application_name", "passfile", "replication", "service")
)  # of a foreign server
FILES = "files"  # of pgrepl: the changes come from files; then other options of pgrepl and of formats are allowed, too
URI_PREFIXES = (b"postgresql://", b"postgres://")
_BLANKS = b" \t\n\v\f\r"
_HEX = b"0123456789abcdefABCDEF"
_ALWAYS = ["-c", "datestyle=ISO", "-c", "intervalstyle=postgres", "-c", "extra_float_digits=3"]
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


class ConninfoError(Exception):
    """The string cannot be read; the message is libpq's."""


class _InvalidOption(ConninfoError):
    """The keyword is not one of libpq's."""


def check_conninfo(conninfo: str, must_use_password: bool) -> dict[str, str]:
    """The options of a subscription's connection string, or the error that CREATE and ALTER SUBSCRIPTION give.
    (libpqrcv_check_conninfo: libpq's message keeps its line end.)"""
    try:
        options = parse_conninfo(conninfo)
    except ConninfoError as error:
        raise PgError("42601", f"invalid connection string syntax: {error}\n") from None
    if must_use_password and not options.get("password"):
        raise PgError(
            "2F003", "password is required", detail="Non-superusers must provide a password in the connection string."
        )
    return options


def parse_conninfo(conninfo: str) -> dict[str, str]:
    """The options of the string, without defaults."""
    text = conninfo.encode("utf-8", "surrogateescape")
    uri = text.startswith(URI_PREFIXES)
    options = _read_uri(text) if uri else _read_keywords(text)
    return {_text(keyword): value.decode("utf-8", "surrogateescape") for keyword, value in options.items()}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _shown(uri: bytes) -> str:
    """The URI for a message, without its password; libpq would show the password, too."""
    return _text(re.sub(rb"^(\w+://[^@/:]*:)[^@/]+(?=@)|([?&]password=)[^&]+", rb"\1\2***", uri))


def _store(options: dict[bytes, bytes], keyword: bytes, value: bytes, *, decode: bool = False) -> None:
    if keyword == b"requiressl":
        keyword, value = b"sslmode", b"require" if value[:1] == b"1" else b"prefer"
    if _text(keyword) not in OPTIONS:
        raise _InvalidOption(f'invalid connection option "{_text(keyword)}"')
    options[keyword] = _percent_decode(value) if decode else value


def names_files(conninfo: str) -> bool:
    """Whether the string is that of a subscription to files of changes."""
    try:
        return FILES in parse_conninfo(conninfo)
    except ConninfoError:
        return False


def _read_keywords(text: bytes) -> dict[bytes, bytes]:
    options: dict[bytes, bytes] = {}
    others: dict[bytes, bytes] = {}
    try:
        _read_pairs(text, options, others)
    except ConninfoError:
        if FILES.encode() not in others:
            _refuse(others)  # libpq meets the unknown option first
        raise
    if FILES.encode() not in others:
        _refuse(others)
    return options | others


def _refuse(others: dict[bytes, bytes]) -> None:
    for keyword in others:
        raise _InvalidOption(f'invalid connection option "{_text(keyword)}"')


def _read_pairs(text: bytes, options: dict[bytes, bytes], others: dict[bytes, bytes]) -> None:
    """`others`: options that libpq does not have."""
    at = _skip_blanks(text, 0)
    while at < len(text):
        start = at
        while at < len(text) and text[at] != ord("=") and text[at] not in _BLANKS:
            at += 1
        keyword = text[start:at]
        at = _skip_blanks(text, at)
        if text[at : at + 1] != b"=":
            raise ConninfoError(f'missing "=" after "{_text(keyword)}" in connection info string')
        at = _skip_blanks(text, at + 1)
        if text[at : at + 1] != b"'":
            value, at = _read_value(text, at, _BLANKS)
        else:
            value, at = _read_value(text, at + 1, b"'")
            if at == len(text):
                raise ConninfoError("unterminated quoted string in connection info string")
            at += 1
        if _text(keyword) in OPTIONS or keyword == b"requiressl":
            _store(options, keyword, value)
        else:
            others[keyword] = value
        at = _skip_blanks(text, at)


def _skip_blanks(text: bytes, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _read_value(text: bytes, at: int, ends: bytes) -> tuple[bytes, int]:
    """The value up to one of these characters, or to the end, and where that is; a backslash takes what follows it."""
    value = bytearray()
    while at < len(text) and text[at] not in ends:
        if text[at] == ord("\\"):
            at += 1
            if at == len(text):
                break
        value.append(text[at])
        at += 1
    return bytes(value), at


def _read_uri(uri: bytes) -> dict[bytes, bytes]:
    """postgresql://[user[:password]@][netloc][:port][,…][/dbname][?param1=value1&…]"""
    options: dict[bytes, bytes] = {}
    at = next(len(prefix) for prefix in URI_PREFIXES if uri.startswith(prefix))
    end = _find(uri, at, b"@/")
    if uri[end : end + 1] == b"@":
        user, colon, password = uri[at:end].partition(b":")
        if user:
            _store(options, b"user", user, decode=True)
        if colon and password:
            _store(options, b"password", password, decode=True)
        at = end + 1
    hosts: list[bytes] = []
    ports: list[bytes] = []
    while True:
        host, port, at = _read_netloc(uri, at)
        hosts.append(host)
        ports.append(port)
        if uri[at : at + 1] != b",":
            break
        at += 1
    for keyword, parts in ((b"host", hosts), (b"port", ports)):
        if value := b",".join(parts):
            _store(options, keyword, value, decode=True)
    if uri[at : at + 1] not in (b"", b"?"):
        end = _find(uri, at + 1, b"?")
        if dbname := uri[at + 1 : end]:
            _store(options, b"dbname", dbname, decode=True)
        at = end
    _read_uri_params(options, uri[at + 1 :])
    return options


def _find(text: bytes, at: int, stops: bytes) -> int:
    while at < len(text) and text[at] not in stops:
        at += 1
    return at


def _read_netloc(uri: bytes, at: int) -> tuple[bytes, bytes, int]:
    if uri[at : at + 1] == b"[":
        end = _find(uri, at + 1, b"]")
        host = uri[at + 1 : end]
        if end == len(uri):
            raise ConninfoError(
                f'end of string reached when looking for matching "]" in IPv6 host address in URI: "{_shown(uri)}"'
            )
        if not host:
            raise ConninfoError(f'IPv6 host address may not be empty in URI: "{_shown(uri)}"')
        at = end + 1
        if uri[at : at + 1] not in (b"", b":", b"/", b"?", b","):
            raise ConninfoError(
                f'unexpected character "{_text(uri[at : at + 1])}" at position {at + 1} in URI '
                f'(expected ":" or "/"): "{_shown(uri)}"'
            )
    else:
        end = _find(uri, at, b":/?,")
        host, at = uri[at:end], end
    if uri[at : at + 1] != b":":
        return host, b"", at
    end = _find(uri, at + 1, b"/?,")
    return host, uri[at + 1 : end], end


def _read_uri_params(options: dict[bytes, bytes], params: bytes) -> None:
    parts = params.split(b"&")
    if not parts[-1]:
        parts.pop()  # a trailing & ends the last parameter, and no text is no parameter
    for part in parts:
        keyword, *values = part.split(b"=")
        if len(values) > 1:
            raise ConninfoError(f'extra key/value separator "=" in URI query parameter: "{_text(keyword)}"')
        if not values:
            raise ConninfoError(f'missing key/value separator "=" in URI query parameter: "{_text(keyword)}"')
        keyword, value = _percent_decode(keyword), _percent_decode(values[0])
        if keyword == b"ssl" and value == b"true":  # as JDBC writes it
            keyword, value = b"sslmode", b"require"
        try:
            _store(options, keyword, value)
        except _InvalidOption:
            raise ConninfoError(f'invalid URI query parameter: "{_text(keyword)}"') from None


def _percent_decode(value: bytes) -> bytes:
    out = bytearray()
    at = 0
    while at < len(value):
        if value[at] != ord("%"):
            out.append(value[at])
            at += 1
            continue
        digits = value[at + 1 : at + 3]
        if len(digits) < 2 or any(digit not in _HEX for digit in digits):
            raise ConninfoError(f'invalid percent-encoded token: "{_text(value)}"')
        if (code := int(digits, 16)) == 0:
            raise ConninfoError(f'forbidden value %00 in percent-encoded value: "{_text(value)}"')
        out.append(code)
        at += 3
    return bytes(out)


# --- session options --------------------------------------------------------------------------------------------------


def apply_options(session: Session, options: str) -> None:
    """Set the parameters that the options name (process_postgres_switches); a FATAL error for any other switch."""
    for switch, setting in _switches([*_words(options), *_ALWAYS]):
        name, equals, value = setting.partition("=")
        if not equals:
            raise PgError("42601", f"{switch}{setting} requires a value", severity="FATAL")
        session.settings.set_default(name.replace("-", "_"), value, complain=True)


def _words(options: str) -> list[str]:
    """Words parted by blanks; a backslash takes the next character as it is (pg_split_opts)."""
    words: list[str] = []
    word: str | None = None
    escaped = False
    for character in options:
        if escaped or not (character.isspace() or character == "\\"):
            word = (word or "") + character
            escaped = False
        elif character == "\\":
            word, escaped = word or "", True
        elif word is not None:
            words.append(word)
            word = None
    return words if word is None else [*words, word]


def _switches(words: list[str]) -> Iterator[tuple[str, str]]:
    """The switches as (name in messages, name=value); other switches of `postgres` are errors."""
    left = iter(words)
    for word in left:
        if word == "--":
            word = next(left)
        elif word.startswith("--"):
            yield "--", word[2:]
            continue
        elif word.startswith("-c"):
            yield "-c ", word[2:] or next(left)
            continue
        raise PgError(
            "42601",
            f"invalid command-line argument for server process: {word}",
            hint='Try "postgres --help" for more information.',
            severity="FATAL",
        )


# --- hosts ------------------------------------------------------------------------------------------------------------


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
        versions = [v for v in _TLS_VERSIONS if v.lower() == value.lower()]
        if value and not versions:
            raise ConnectionFailure(f'invalid "{name}" value: "{value}"')
        given.append(versions[0] if versions else "")
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
