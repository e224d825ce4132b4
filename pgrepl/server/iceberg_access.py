"""Who asks for an Iceberg table, and whether they may; and what they are told of the object store
(`pgrepl.iceberg_storage`).

    none         nothing: they know it
    location     endpoint, region, and whether buckets stand in paths
    credentials  location, and the server's own credentials
    sts          location, and credentials for an hour that can only read the lake: AssumeRole of the role that
                 pgrepl.iceberg_storage_role names

A token (OAuth2's client credentials) is signed with a key that only this server has, and ends with the role's
password. Each request is judged anew by the rule of pg_hba.conf that fits its database, role and address.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit
from xml.etree import ElementTree

from pgrepl.catalog.facts.passwords import encrypt_password, verify_password
from pgrepl.catalog.session import login
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.ground.errors import PgError
from pgrepl.lake import storage
from pgrepl.server import authentication, hba
from pgrepl.server.authentication import PASSWORDS, AuthenticationConfig
from pgrepl.server.http import Request

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_SECONDS = 3600  # for which credentials of STS hold
_PATIENCE = 10  # seconds for STS to answer
_S3 = ("s3", "s3a", "s3n")


class Storage:
    """Keeps the credentials that STS has given until half of their time is over."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, ...], tuple[float, dict[str, str]]] = {}
        self._lock = Lock()

    def config(self, session: Session, folders: Sequence[str]) -> dict[str, str]:
        """The properties by which a reader of Iceberg reads these folders."""
        way = session.settings.get("pgrepl.iceberg_storage")
        in_store = [folder for folder in folders if storage.scheme_of(folder) in _S3]
        if way == "none" or not in_store:
            return {}
        properties = _location()
        if way == "credentials":
            properties |= _properties(*_own())
        elif way == "sts":
            role = session.settings.get("pgrepl.iceberg_storage_role")
            properties |= self._of_sts(role, properties["s3.region"], in_store)
        return properties

    def _of_sts(self, role: str, region: str, folders: Sequence[str]) -> dict[str, str]:
        key = (role, region, *folders)
        with self._lock:
            until, properties = self._given.get(key, (0.0, {}))
            if time.monotonic() > until:
                properties = _properties(*assume_role(role, region, _reading(folders)))
                self._given[key] = time.monotonic() + _SECONDS / 2, properties
        return properties


def _location() -> dict[str, str]:
    endpoint, region = storage.s3_endpoint(), storage.s3_region() or "us-east-1"
    location = {"s3.region": region, "client.region": region}
    if endpoint is not None:
        whole = endpoint if "://" in endpoint else f"https://{endpoint}"
        location |= {"s3.endpoint": whole, "s3.path-style-access": "true"}
    return location


def _own() -> tuple[str, str, str]:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    key, secret, token = (os.environ.get(name, "") for name in names)
    if not key or not secret:
        raise PgError("55000", "the server has no credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    return key, secret, token


def _properties(key: str, secret: str, token: str) -> dict[str, str]:
    properties = {"s3.access-key-id": key, "s3.secret-access-key": secret}
    return {**properties, "s3.session-token": token} if token else properties


def _reading(folders: Sequence[str]) -> str:
    """A policy that allows no more than to read what is in the folders."""
    inside = [folder.partition("://")[2].rstrip("/") for folder in folders]
    statements = [
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::{path}/*" for path in inside]},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket", "s3:GetBucketLocation"],
            "Resource": sorted({f"arn:aws:s3:::{path.partition('/')[0]}" for path in inside}),
        },
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


# --- STS --------------------------------------------------------------------------------------------------------------


def assume_role(role: str, region: str, policy: str) -> tuple[str, str, str]:
    """Key, secret and token of a role, with no more rights than the policy."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_STS") or storage.s3_endpoint() or f"https://sts.{region}.amazonaws.com"
    given = {"Action": "AssumeRole", "Version": "2011-06-15", "RoleSessionName": "pgrepl",
             "DurationSeconds": str(_SECONDS), "Policy": policy}  # fmt: skip
    if role:
        given["RoleArn"] = role
    url = endpoint if "://" in endpoint else f"https://{endpoint}"
    body = urlencode(given).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/", body, _signed(url, region, body), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            document = ElementTree.fromstring(answer.read())
        texts = [document.findtext(f".//{{*}}{name}") for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
    except urllib.error.HTTPError as refused:
        raise PgError("58030", f"STS has given no credentials: HTTP status {refused.code}") from None
    except (OSError, ElementTree.ParseError) as problem:
        raise PgError("58030", f"STS has given no credentials: {problem}") from None
    key, secret, token = (text or "" for text in texts)
    return key, secret, token


def _signed(url: str, region: str, body: bytes) -> dict[str, str]:
    """The head of a request to STS, signed with the server's credentials (AWS Signature Version 4)."""
    key, secret, token = _own()
    moment = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    head = {"content-type": "application/x-www-form-urlencoded; charset=utf-8", "host": urlsplit(url).netloc,
            "x-amz-date": moment}  # fmt: skip
    if token:
        head["x-amz-security-token"] = token
    lines = "".join(f"{name}:{head[name]}\n" for name in sorted(head))
    names = ";".join(sorted(head))
    asked = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{moment[:8]}/{region}/sts/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = _hmac(signing, part)
    signature = _hmac(signing, text).hex()
    given = f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**head, "Authorization": given}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


# --- access -----------------------------------------------------------------------------------------------------------


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
        names = []
        problem: Exception | None = None
        for name in _databases(outside):
            try:
                self.admit(outside, name)
                names.append(name)
            except (PgError, Unauthorized) as error:
                problem = error if problem is None or isinstance(error, Unauthorized) else problem
        if not names and problem is not None:
            raise problem
        return names

    def rules(self, outside: Session) -> Iterator[hba.Rule]:
        """The rules by which the visitor may enter databases."""
        for name in _databases(outside):
            with suppress(PgError):
                yield self._rule(outside, name)

    def _rule(self, outside: Session, database: str) -> hba.Rule:
        return authentication.rule_for(outside, self._client(database), self.config)

    def _client(self, database: str) -> hba.Client:
        return authentication.client_of(self.request.connection, database, self.user)

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
        fields = parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=32)
    except ValueError:
        raise BadGrant("invalid_request", "the body is no form") from None
    return {name: values[0] for name, values in fields.items()}


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
