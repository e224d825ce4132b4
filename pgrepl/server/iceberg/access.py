"""Who asks, and whether they may: tokens for passwords (OAuth2's client credentials), and pg_hba.conf for each request.

A token is signed with a key that only this server has, and stored nowhere. It says who has it, until when, and whether
the password was right; it ends with the password that the role had. Each request is judged anew by the rule that fits
its database, role and address: where a password is asked for it needs such a token, with `trust` it needs none.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from pgrepl.catalog import login, tables
from pgrepl.catalog.passwords import encrypt_password, verify_password
from pgrepl.catalog.store import rows
from pgrepl.errors import PgError
from pgrepl.server import authentication, hba
from pgrepl.server.authentication import PASSWORDS, AuthenticationConfig
from pgrepl.server.http import Request

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_NOBODY = ("", "None")  # what pyiceberg sends that has no token
_LONGEST = 86400  # seconds after the password in which a token is exchanged for a new one
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


class Unauthorized(Exception):
    """Nobody has said who asks, or what was said does not hold."""


class BadGrant(Exception):
    """A request for a token that cannot be granted; `code` is OAuth2's."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Visitor:
    """Who sends a request."""

    user: str
    has_proved: bool  # by the role's password
    is_named: bool  # by a token
    request: Request
    config: AuthenticationConfig

    def admit(self, outside: Session, database: str) -> Session:
        """A session of the role in the database, if it may enter; `outside` has entered none."""
        rule = self._rule(outside, database)
        if rule.method in PASSWORDS and not self.has_proved:
            if self.is_named:
                raise authentication.wrong_password(self.user)
            raise Unauthorized(f'database "{database}" needs a token')
        client = self._client(database)
        authentication.check_certificate(self.request.connection, outside, self.config, rule, client)
        role, row = login.admit(outside, self.user, database)
        session = outside.elsewhere(row.oid, role.oid)
        login.apply_stored_settings(session, role.oid, row.oid)
        return session

    def databases(self, outside: Session) -> list[str]:
        """The databases that the visitor may enter; an error if there is none."""
        found = []
        problem: Exception | None = None
        for name in _databases(outside):
            try:
                self.admit(outside, name)
                found.append(name)
            except (PgError, Unauthorized) as error:
                problem = error if problem is None or isinstance(error, Unauthorized) else problem
        if not found and problem is not None:
            raise problem
        return found

    def rules(self, outside: Session) -> Iterator[hba.Rule]:
        """The rules by which the visitor may enter databases."""
        for name in _databases(outside):
            with suppress(PgError):
                yield self._rule(outside, name)

    def _rule(self, outside: Session, database: str) -> hba.Rule:
        return authentication.rule_for(outside, self._client(database), self.config)

    def _client(self, database: str) -> hba.Client:
        return authentication.client_of(self.request.connection, database, self.user, replication=False)

    @property
    def is_overheard(self) -> bool:
        """Could others on the way read what is sent?"""
        address = self._client("").address
        return not isinstance(self.request.connection, ssl.SSLSocket) and not (address and address.is_loopback)


def _databases(outside: Session) -> list[str]:
    return sorted(row.datname for row in rows(outside, tables.pg_database) if row.datallowconn)


@dataclass(frozen=True)
class Access:
    """Tells who asks, and grants tokens."""

    config: AuthenticationConfig
    key: bytes  # that signs tokens

    def visitor(self, outside: Session, request: Request, *, passwords: bool = False) -> Visitor:
        """Who sends the request: by a token, or by name and password where they are taken."""
        header = request.headers.get("authorization", "")
        scheme, _, token = header.partition(" ")
        given = _basic(header) if passwords else None
        if given is not None:
            return self._visitor(request, given[0], proved=self._proves(outside, request, *given))
        if not scheme or token.strip() in _NOBODY:
            return self._visitor(request, str(outside.settings.value("pgrepl.iceberg_role")), named=False)
        if scheme.lower() != "bearer":
            raise Unauthorized("a bearer token is needed")
        claims = self._claims(outside, token.strip())
        if claims is None:
            raise Unauthorized("the token is not valid, or its time is over")
        return self._visitor(request, claims["role"], proved=claims["proved"])

    def _visitor(self, request: Request, user: str, *, proved: bool = False, named: bool = True) -> Visitor:
        return Visitor(user, proved, named, request, self.config)

    # --- tokens ---------------------------------------------------------------------------------------------------

    def grant(self, outside: Session, request: Request) -> dict[str, Any]:
        """The answer to a request for a token (RFC 6749, RFC 8693)."""
        form = _form(request.body)
        kind = form.get("grant_type")
        given = _basic(request.headers.get("authorization", ""))
        now = int(time.time())
        if kind == _EXCHANGE and given is None:
            claims = self._claims(outside, form.get("subject_token", ""))
            if claims is None or now > claims["since"] + _LONGEST:
                raise BadGrant("invalid_grant", "the token is not valid, or its time is over")
            return self._token(outside, claims["role"], claims["proved"], claims["since"])
        if kind not in ("client_credentials", _EXCHANGE):
            raise BadGrant("unsupported_grant_type", "a token is granted for client credentials, or for a token")
        user, secret = given or (form.get("client_id", ""), form.get("client_secret", ""))
        return self._token(outside, user, self._proves(outside, request, user, secret), now)

    def _proves(self, outside: Session, request: Request, user: str, secret: str) -> bool:
        """Whether it is the role's password. An error if it is not, and nothing can be entered without one."""
        visitor = self._visitor(request, user)
        methods = {rule.method for rule in visitor.rules(outside)}
        if visitor.is_overheard and not methods & {"trust", "password"}:
            raise BadGrant("invalid_request", "a password is taken over TLS only")
        stored = authentication.stored_password(outside, user)
        proved = verify_password(user, stored or _mock(), secret) and stored is not None
        if not proved and not methods - set(PASSWORDS):
            raise authentication.wrong_password(user)
        login.admit_user(outside, user)
        return proved

    def _token(self, outside: Session, user: str, proved: bool, since: int) -> dict[str, Any]:
        seconds = int(outside.settings.value("pgrepl.iceberg_token_lifetime"))
        claims = {
            "role": user, "proved": proved, "since": since, "until": int(time.time()) + seconds,
            "password": self._fingerprint(outside, user),
        }  # fmt: skip
        text = _encoded(json.dumps(claims).encode())
        token = f"{text}.{_encoded(self._signature(text))}"
        return {"access_token": token, "token_type": "bearer", "expires_in": seconds,
                "issued_token_type": _ACCESS_TOKEN}  # fmt: skip

    def _claims(self, outside: Session, token: str) -> Mapping[str, Any] | None:
        """What a token of ours says, if it still holds."""
        text, _, signature = token.partition(".")
        try:
            given = base64.urlsafe_b64decode(signature + "==")
        except (binascii.Error, ValueError):
            return None
        if not hmac.compare_digest(given, self._signature(text)):
            return None
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=="))
        if time.time() > claims["until"] or claims["password"] != self._fingerprint(outside, claims["role"]):
            return None
        return claims

    def _signature(self, text: str) -> bytes:
        return hmac.new(self.key, text.encode("utf-8", "replace"), hashlib.sha256).digest()

    def _fingerprint(self, outside: Session, user: str) -> str:
        stored = authentication.stored_password(outside, user) or ""
        return hmac.new(self.key, f"{user}\0{stored}".encode(), hashlib.sha256).hexdigest()[:32]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@cache
def _mock() -> str:
    """What the password of a role that has none is compared with, so that it takes as long."""
    return encrypt_password("scram-sha-256", "", "")


def _form(body: bytes) -> dict[str, str]:
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=32)
    except ValueError:
        raise BadGrant("invalid_request", "the body is no form") from None
    return {name: values[0] for name, values in found.items()}


def _basic(header: str) -> tuple[str, str] | None:
    """Name and password of HTTP's basic authentication."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, _, secret = base64.b64decode(text, validate=True).decode().partition(":")
    except ValueError:
        raise BadGrant("invalid_request", "the credentials are malformed") from None
    return name, secret
