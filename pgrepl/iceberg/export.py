"""Metadata for readers of folders and buckets (`vN.metadata.json`, `version-hint.text`), and registration in Iceberg
REST catalogs of others.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.iceberg import tables
from pgrepl.iceberg.manifests import HINT, named_by
from pgrepl.iceberg.metadata import table_metadata
from pgrepl.iceberg.place import place_of

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.iceberg.place import Place, TableFolder
    from pgrepl.iceberg.tables import Described, Namespace

TOKEN = "PGREPL_ICEBERG_TOKEN"
CREDENTIAL = "PGREPL_ICEBERG_CREDENTIAL"  # client:secret, for which the catalog gives tokens
GRANTS = "PGREPL_ICEBERG_OAUTH2_SERVER_URI"  # where it does, if not at oauth/tokens
SCOPE = "PGREPL_ICEBERG_SCOPE"
_USUAL_SCOPE = "catalog"  # as Iceberg's clients ask
_EXPIRED = (401, 419)
_PATIENCE = 30  # seconds for an answer
_SEPARATOR = "\x1f"  # of the levels of a namespace in a path
_SAID = 500  # characters of what a catalog says


class ForeignCatalog:
    def __init__(self, uri: str, warehouse: str | None) -> None:
        if not _is_plain(uri):
            raise PgError("22023", "invalid URI of an Iceberg catalog", hint="It is like https://host:port/path.")
        self._uri = uri.rstrip("/").removesuffix("/v1")
        self._open = _opener().open  # the token is for nobody else
        self._base = "/v1"
        self._token = os.environ.get(TOKEN)
        given = self._must("GET", f"/config?{urlencode({'warehouse': warehouse})}" if warehouse else "/config")
        prefix = {**given.get("defaults", {}), **given.get("overrides", {})}.get("prefix", "")
        if prefix:
            self._base = f"/v1/{quote(str(prefix), safe='/')}"

    def register(self, table: Described, location: str) -> bool:
        """Have the catalog say that metadata.json is there. False: it does already. A table of that name that is not
        ours stays what it is."""
        of = f"/namespaces/{_path(table.namespace)}"
        path = f"{of}/tables/{quote(table.name, safe='')}"
        status, there = self._ask("GET", path)
        if status == 200:
            if there.get("metadata", {}).get("table-uuid") != table.uuid:
                raise PgError("42P07", f'table "{table.full_name}" already exists in the catalog "{self._uri}"',
                              detail="It is another one.", hint="Drop it there first.")  # fmt: skip
            if there.get("metadata-location") == location:
                return False
        elif status == 404:
            self._make(table.namespace)
        else:
            raise self._refusal(status, there)
        body = {"name": table.name, "metadata-location": location, "overwrite": True}
        code, said = self._ask("POST", f"{of}/register", body)
        if code == 409 and status == 200:  # it does not know `overwrite`
            self._must("DELETE", f"{path}?purgeRequested=false")
            code, said = self._ask("POST", f"{of}/register", body)
        if code >= 300:
            raise self._refusal(code, said)
        return True

    def _make(self, namespace: Namespace) -> None:
        for level in range(1, len(namespace) + 1):
            status, said = self._ask("GET", f"/namespaces/{_path(namespace[:level])}")
            if status == 404:
                status, said = self._ask("POST", "/namespaces", {"namespace": namespace[:level], "properties": {}})
            if status >= 300 and status != 409:
                raise self._refusal(status, said)

    # --- HTTP -----------------------------------------------------------------------------------------------------

    def _must(self, method: str, path: str) -> dict[str, Any]:
        status, said = self._ask(method, path)
        if status >= 300:
            raise self._refusal(status, said)
        return said

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """The status and the object of an answer. Tokens end: where a credential is given, another one is asked for."""
        credential = os.environ.get(CREDENTIAL)
        if credential and self._token is None:
            self._token = self._granted(credential)
        data = None if body is None else json.dumps(body).encode()
        url = self._uri + self._base + path
        status, said = self._send(method, url, data, "application/json")
        if credential and status in _EXPIRED:
            self._token = self._granted(credential)
            status, said = self._send(method, url, data, "application/json")
        return status, said

    def _granted(self, credential: str) -> str:
        """A new token, by OAuth2's client credentials."""
        client, _, secret = credential.rpartition(":")
        form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret,
                "scope": os.environ.get(SCOPE, _USUAL_SCOPE)}  # fmt: skip
        where = os.environ.get(GRANTS) or f"{self._uri}/v1/oauth/tokens"
        if not _is_plain(where):
            raise PgError("22023", f"invalid URI in {GRANTS}", hint="It is like https://host:port/path.")
        self._token = None
        status, said = self._send("POST", where, urlencode(form).encode(), "application/x-www-form-urlencoded")
        token = said.get("access_token")
        if status >= 300 or not isinstance(token, str):
            raise PgError("28000", f'"{where}" has granted no token: HTTP status {status}',
                          detail=str(said.get("error", ""))[:_SAID] or None)  # fmt: skip
        return token

    def _send(self, method: str, url: str, data: bytes | None, kind: str) -> tuple[int, dict[str, Any]]:
        head = {"Accept": "application/json", "Content-Type": kind}
        if self._token:
            head["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(url, data, head, method=method)
        try:
            with self._open(request, timeout=_PATIENCE) as answer:
                return answer.status, _object(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, _object(refused.read())
        except (OSError, HTTPException, ValueError) as problem:
            is_told = not isinstance(problem, ValueError)  # it would tell the token
            reason = getattr(problem, "reason", problem) if is_told else "invalid request"
            raise PgError("08001", f'could not ask the Iceberg catalog "{self._uri}": {reason}') from None

    def _refusal(self, status: int, said: dict[str, Any]) -> PgError:
        error = said.get("error")
        text = str(error.get("message", "") if isinstance(error, dict) else error or "")[:_SAID]
        sqlstate = {401: "28000", 403: "42501"}.get(status, "58000")
        lacks_token = status == 401 and not self._token
        hint = f"Give a token in {TOKEN}, or client:secret in {CREDENTIAL}." if lacks_token else None
        message = f'the Iceberg catalog "{self._uri}" has refused the request: HTTP status {status}'
        return PgError(sqlstate, message, detail=text or None, hint=hint)


def _opener() -> urllib.request.OpenerDirector:
    """Without the handler of redirects."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor,
    ):  # fmt: skip
        opener.add_handler(handler())
    return opener


def _is_plain(uri: str) -> bool:
    """Is it http(s)://host[:port][/path], without a password?"""
    try:
        parts = urlsplit(uri)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            and not (parts.username or parts.query or parts.fragment)
        )  # fmt: skip
    except ValueError:
        return False


def _path(namespace: Namespace) -> str:
    return quote(_SEPARATOR.join(namespace), safe="")


def _object(text: bytes) -> dict[str, Any]:
    """The answer; of one that is no JSON, as a proxy's may be, nothing."""
    try:
        answer = json.loads(text or b"{}")
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


class Exported(NamedTuple):
    location: str  # the table's folder
    version: int
    is_new: bool

    @property
    def metadata(self) -> str:
        """The path of metadata.json."""
        return f"{self.location}/{_name(self.version)}"


Done = Callable[["Described", Exported], None]


def export_tables(session: Session, names: Sequence[str], to: str | None, done: Done) -> list[PgError]:
    """Export the tables of these names, or all of the database that the role may read whole. One that fails does not
    keep the others from their export: the errors are returned, but raised if there is nothing else."""
    place = place_of(session, to)
    with reading(session):
        listed = [tables.named(session, name) for name in names] or tables.every(session, session.database.name)
    errors: list[PgError] = []
    for table in listed:
        try:
            with reading(session):  # one for each table, so that none is kept for long
                now = tables.find(session, table.namespace, table.name)
                exported = None if now is None else export(now, place)
            if now is not None and exported is not None:
                done(now, exported)
        except PgError as error:
            errors.append(error.with_context(f'export of table "{table.full_name}"'))
    if errors and len(errors) == len(listed):
        raise errors[0]
    return errors


def export(table: Described, place: Place) -> Exported:
    """Write the table's metadata of now, unless the last version is that already. A version that another exporter has
    written meanwhile, or that a killed one has not told, stays what it is."""
    metadata = table_metadata(table, place).json
    folder = place.of(table)
    last = _told(folder)
    if last and folder.read(_name(last)) == metadata:
        return Exported(folder.location, last, False)
    version = last + 1
    while not folder.write_first(_name(version), metadata.encode()) and folder.read(_name(version)) != metadata:
        version += 1
    folder.make_durable(named_by(folder, [_name(version)]) - {HINT})
    if _told(folder) < version:
        folder.write(HINT, str(version).encode())
        folder.make_durable([HINT])
    return Exported(folder.location, version, True)


def _told(folder: TableFolder) -> int:
    """The version that readers find; 0: none."""
    hint = (folder.read(HINT) or "").strip()
    return int(hint) if hint.isdecimal() else 0


def _name(version: int) -> str:
    return f"metadata/v{version}.metadata.json"
