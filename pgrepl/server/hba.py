"""pg_hba.conf and pg_ident.conf: who may enter, and how they prove who they are (hba.c).

    # TYPE   DATABASE   USER   ADDRESS        METHOD
    local    all        all                   peer map=owner
    host     shop       app    127.0.0.1/32   scram-sha-256

The first rule that fits a connection decides; without one nobody enters. The files stand beside the catalog and are
read again for each new connection, so that no reload is needed.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from pgrepl.ground.errors import PgError

METHODS = ("trust", "reject", "peer", "scram-sha-256", "md5", "password", "cert")
KINDS = ("local", "host", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc")
_TOKEN = re.compile(r'"(?:[^"]|"")*"|#.*|,|[^\s,"#]+(?:"(?:[^"]|"")*")?[^\s,"#]*')
_OPTIONS = ("map", "clientcert", "clientname")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Word:
    """One word of a file. A quoted word is a name, never a keyword."""

    text: str
    quoted: bool = False

    def is_keyword(self, keyword: str) -> bool:
        return not self.quoted and self.text == keyword


@dataclass(frozen=True)
class Rule:
    """One line of pg_hba.conf."""

    line: int
    kind: str
    databases: tuple[Word, ...]
    users: tuple[Word, ...]
    method: str
    networks: tuple[Network, ...] = ()
    keyword: str = ""  # of the address: all, samehost, samenet
    host_name: str = ""
    options: dict[str, str] = field(default_factory=dict)
    address: str = ""  # as pg_hba_file_rules shows it
    mask: str | None = None


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be read: the whole file is refused."""

    line: int
    message: str


@dataclass(frozen=True)
class IdentLine:
    """One line of pg_ident.conf: a user of the operating system, or of a certificate, may be a role."""

    line: int
    name: str
    system: Word
    role: Word


@dataclass(frozen=True)
class Client:
    """The facts of a connection before its user has proved anything."""

    database: str
    user: str
    is_local: bool  # over a Unix socket
    over_tls: bool
    replication: bool  # a connection for physical replication; logical ones name a database
    address: Address | None = None


# --- reading ----------------------------------------------------------------------------------------------------------


def lines(text: str) -> Iterator[tuple[int, list[list[Word]]]]:
    """Each line's number and its fields, each a list of words with commas between. A line goes on after a backslash."""
    number = begun = 0
    joined = ""
    for line in [*text.splitlines(), ""]:
        number += 1
        begun = begun if joined else number
        if line.endswith("\\"):
            joined += line[:-1]
            continue
        whole, joined = joined + line, ""
        fields = _fields(whole)
        if fields:
            yield begun, fields


def _fields(line: str) -> list[list[Word]]:
    fields: list[list[Word]] = []
    joins = False
    for match in _TOKEN.finditer(line):
        token = match[0]
        if token.startswith("#"):
            break
        if token == ",":
            joins = True
            continue
        quoted = token.startswith('"')
        word = Word(token[1:-1].replace('""', '"') if quoted else token.replace('"', ""), quoted)
        if joins and fields:
            fields[-1].append(word)
        else:
            fields.append([word])
        joins = False
    return fields


def read_rules(path: Path) -> Sequence[Rule | BadLine]:
    """The rules of a file. Those that the postmaster has read are its children's, until the file has changed."""
    try:
        stat = path.stat()
    except OSError:
        return _rules(path, ())
    return _rules(path, (stat.st_mtime_ns, stat.st_size, stat.st_ino))


@lru_cache(1)
def _rules(path: Path, _state: tuple[int, ...]) -> Sequence[Rule | BadLine]:
    return tuple(_rule(number, fields) for number, fields in lines(_text(path)))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as problem:
        raise PgError("58P01", f'could not open file "{path}": {problem.strerror}', severity="FATAL") from None
    except UnicodeDecodeError:
        raise PgError("58030", f'file "{path}" is not valid UTF-8', severity="FATAL") from None


def _rule(number: int, fields: Sequence[Sequence[Word]]) -> Rule | BadLine:
    try:
        return _parsed_rule(number, list(fields))
    except ValueError as problem:
        return BadLine(number, str(problem))


def _parsed_rule(number: int, fields: list[Sequence[Word]]) -> Rule:
    kind = _single(fields.pop(0), "connection type")
    if kind not in KINDS:
        raise ValueError(f'invalid connection type "{kind}"')
    if not fields:
        raise ValueError("end-of-line before database specification")
    databases = tuple(fields.pop(0))
    if not fields:
        raise ValueError("end-of-line before role specification")
    users = tuple(fields.pop(0))
    networks: tuple[Network, ...] = ()
    keyword = host_name = ""
    shown, mask = "", None
    if kind != "local":
        if not fields:
            raise ValueError("end-of-line before IP address specification")
        if len(fields[0]) > 1:
            raise ValueError("multiple values specified for host address")
        address = fields.pop(0)[0]
        if any(address.is_keyword(word) for word in ("all", "samehost", "samenet")):
            shown = keyword = address.text
        else:
            networks, host_name = _address(address.text, fields)
            shown = host_name or str(ip_address(address.text.partition("/")[0]))
            mask = str(networks[0].netmask) if networks else None
    if not fields:
        raise ValueError("end-of-line before authentication method")
    method = _single(fields.pop(0), "authentication type")
    _check_method(kind, method)
    options = dict(_option(word.text, kind, method) for part in fields for word in part)
    return Rule(number, kind, databases, users, method, networks, keyword, host_name, options, shown, mask)


def _single(words: Sequence[Word], what: str) -> str:
    if len(words) > 1:
        raise ValueError(f"multiple values specified for {what}")
    return words[0].text


def _address(text: str, fields: list[Sequence[Word]]) -> tuple[tuple[Network, ...], str]:
    """The network of ADDRESS/BITS or of ADDRESS MASK; or a host name."""
    address, slash, _ = text.partition("/")
    try:
        ip_address(address)
    except ValueError:
        if slash:
            raise ValueError(f'specifying both host name and CIDR mask is invalid: "{text}"') from None
        return (), text
    if slash:
        try:
            return (ip_network(text, strict=False),), ""
        except ValueError:
            raise ValueError(f'invalid CIDR mask in address "{text}"') from None
    if not fields:
        raise ValueError("end-of-line before netmask specification")
    mask = _single(fields.pop(0), "netmask")
    try:
        return (ip_network(f"{address}/{_bits(mask)}", strict=False),), ""
    except ValueError:
        raise ValueError(f'invalid IP mask "{mask}"') from None


def _bits(mask: str) -> int:
    """The length of the prefix that a netmask leaves."""
    parsed = ip_address(mask)
    bits = f"{int(parsed):0{parsed.max_prefixlen}b}"
    if "01" in bits:
        raise ValueError(mask)
    return bits.count("1")


def _check_method(kind: str, method: str) -> None:
    if method not in METHODS:
        known = ("ident", "gss", "sspi", "pam", "bsd", "ldap", "radius")
        what = "not supported by this build" if method in known else None
        raise ValueError(
            f'invalid authentication method "{method}": {what}' if what else f'invalid authentication method "{method}"'
        )
    if method == "peer" and kind != "local":
        raise ValueError("peer authentication is only supported on local sockets")
    if method == "cert" and kind != "hostssl":
        raise ValueError("cert authentication is only supported on hostssl connections")


def _option(text: str, kind: str, method: str) -> tuple[str, str]:
    """Checks one option of a rule, and returns its name and value (parse_hba_auth_opt)."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"authentication option not in name=value format: {text}")
    if name not in _OPTIONS:
        raise ValueError(f'unrecognized authentication option name: "{name}"')
    if name == "map":
        if method not in ("peer", "cert"):
            methods = "ident, peer, gssapi, sspi, and cert"
            raise ValueError(f'authentication option "map" is only valid for authentication methods {methods}')
        return name, value
    if kind != "hostssl":
        raise ValueError(f'{name} can only be configured for "hostssl" rows')
    if value not in (("verify-ca", "verify-full") if name == "clientcert" else ("CN", "DN")):
        raise ValueError(f'invalid value for {name}: "{value}"')
    if method == "cert" and value == "verify-ca":
        raise ValueError('clientcert only accepts "verify-full" when using "cert" authentication')
    return name, value


# --- deciding ---------------------------------------------------------------------------------------------------------


def matching(rules: Sequence[Rule], client: Client, is_member: Callable[[str, str], bool]) -> Rule | None:
    """The first rule that fits (check_hba). `is_member`: of a role, directly or indirectly."""
    return next((rule for rule in rules if _fits(rule, client, is_member)), None)


def _fits(rule: Rule, client: Client, is_member: Callable[[str, str], bool]) -> bool:
    if (rule.kind == "local") != client.is_local or rule.kind == "hostgssenc":
        return False
    if (rule.kind == "hostssl" and not client.over_tls) or (rule.kind == "hostnossl" and client.over_tls):
        return False
    if not client.is_local and not _fits_address(rule, client.address):
        return False
    if not any(_fits_database(word, client, is_member) for word in rule.databases):
        return False
    return any(_fits_user(word, client.user, is_member) for word in rule.users)


def _fits_address(rule: Rule, address: Address | None) -> bool:
    if address is None:
        return False
    if rule.keyword == "all":
        return True
    if rule.keyword:
        return _is_own(address)
    if rule.host_name:
        return _has_name(address, rule.host_name)
    return any(address.version == network.version and address in network for network in rule.networks)


def _is_own(address: Address) -> bool:
    """Whether it is an address of this machine. `samenet` means the same here: Python cannot tell a network's mask."""
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family) as probe:
        try:
            probe.bind((str(address), 0))  # only one's own address can be bound
        except OSError:
            return False
    return True


def _has_name(address: Address, name: str) -> bool:
    """Whether the address has the host's name, and the name that address (hostname_match)."""
    try:
        host = socket.gethostbyaddr(str(address))[0]
        if not (host.lower() == name.lower() or (name.startswith(".") and host.lower().endswith(name.lower()))):
            return False
        return str(address) in {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False


def _fits_database(word: Word, client: Client, is_member: Callable[[str, str], bool]) -> bool:
    if client.replication:
        return word.is_keyword("replication")
    if word.is_keyword("all"):
        return True
    if word.is_keyword("sameuser"):
        return client.database == client.user
    if word.is_keyword("samerole") or word.is_keyword("samegroup"):
        return is_member(client.user, client.database)
    if word.is_keyword("replication"):
        return False
    return _matches(word, client.database)


def _fits_user(word: Word, user: str, is_member: Callable[[str, str], bool]) -> bool:
    if not word.quoted and word.text.startswith("+"):
        return is_member(user, word.text[1:])
    return word.is_keyword("all") or _matches(word, user)


def _matches(word: Word, name: str) -> bool:
    """A name, or a regular expression after a slash."""
    if not word.quoted and word.text.startswith("/"):
        try:
            return re.search(word.text[1:], name) is not None
        except re.error:
            return False
    return word.text == name


# --- pg_ident.conf ----------------------------------------------------------------------------------------------------


def maps_to(path: Path, name: str, system_user: str, role: str, is_member: Callable[[str, str], bool]) -> bool:
    """Whether a map lets a user of the operating system, or of a certificate, be a role (check_usermap)."""
    listed = (line for line in read_mappings(path) if isinstance(line, IdentLine) and line.name == name)
    return any(_maps(line.system, line.role, system_user, role, is_member) for line in listed)


def read_mappings(path: Path) -> list[IdentLine | BadLine]:
    return [_mapping(number, fields) for number, fields in lines(_text(path))]


def _mapping(number: int, fields: Sequence[Sequence[Word]]) -> IdentLine | BadLine:
    """A line of pg_ident.conf (parse_ident_line); what follows the third field is ignored."""
    if len(fields) < 3:
        return BadLine(number, "missing entry at end of line")
    if any(len(field) > 1 for field in fields[:3]):
        return BadLine(number, "multiple values in ident field")
    name, system, role = (field[0] for field in fields[:3])
    for word in (system, role):
        if not word.quoted and word.text.startswith("/"):
            try:
                re.compile(word.text[1:])
            except re.error as problem:
                return BadLine(number, f'invalid regular expression "{word.text[1:]}": {problem}')
    return IdentLine(number, name.text, system, role)


def _maps(system: Word, target: Word, system_user: str, role: str, is_member: Callable[[str, str], bool]) -> bool:
    wanted = target
    if not system.quoted and system.text.startswith("/"):
        try:
            match = re.search(system.text[1:], system_user)
        except re.error:
            return False
        if match is None:
            return False
        if "\\1" in target.text and match.re.groups:
            wanted = Word(target.text.replace("\\1", match[1] or ""), quoted=True)
    elif system.text != system_user:
        return False
    if wanted.is_keyword("all"):
        return True
    if not wanted.quoted and wanted.text.startswith("+"):
        return is_member(role, wanted.text[1:])
    return _matches(wanted, role)
