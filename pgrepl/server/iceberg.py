"""`pgrepl serve --iceberg PORT`: Iceberg's REST catalog over the server's tables, read-only (its OpenAPI text).

What is answered is made from one read transaction of the catalog, when it is asked for; nothing is kept. A process of
its own answers, which disturbs no session: one thread speaks HTTP, a few have sessions and look up what is asked.

Without a warehouse a namespace is what DuckLake calls a schema: `shop` is the schema public of database shop,
`shop.sales` its schema sales. With a database as the warehouse, which readers then have in their paths, namespaces are
the database's schemas: `public`, `sales`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, quote, unquote
from weakref import WeakKeyDictionary

from pgrepl.backend import HOOKS
from pgrepl.catalog.facts import activity
from pgrepl.catalog.session import login
from pgrepl.catalog.session.login import admit_user
from pgrepl.catalog.session.session import Session, SessionIdentity
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.iceberg import tables
from pgrepl.iceberg.metadata import state_of, table_metadata
from pgrepl.iceberg.place import Place, place_of
from pgrepl.lake.read.local import promise
from pgrepl.server.channel import ConnectionLost
from pgrepl.server.http import Answer, HttpServer, Limits, Request
from pgrepl.server.iceberg_access import Access, BadGrant, Storage, Unauthorized, Visitor

if TYPE_CHECKING:
    import ssl

    from pgrepl.iceberg.tables import Described, Namespace
    from pgrepl.replication.log import ServerLog
    from pgrepl.server.settings import ServerSettings

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
_SEPARATOR = "\x1f"  # of the levels of a namespace in a path
TOKENS = "/v1/oauth/tokens"
_PAGE = 1000  # names on a page whose size is not given
_PUBLIC = "public"
_NAMESPACES = "/v1/{prefix}/namespaces"
_TABLE = f"{_NAMESPACES}/{{namespace}}/tables/{{table}}"
ENDPOINTS = [
    f"GET {_NAMESPACES}", f"GET {_NAMESPACES}/{{namespace}}", f"HEAD {_NAMESPACES}/{{namespace}}",
    f"GET {_NAMESPACES}/{{namespace}}/tables", f"GET {_TABLE}", f"HEAD {_TABLE}", f"POST {_TABLE}/metrics",
    f"GET {_TABLE}/credentials", f"GET {_NAMESPACES}/{{namespace}}/views",
]  # fmt: skip
STATUS = {"28P01": 401, "28000": 403, "42501": 403, "3D000": 404, "0A000": 406, "22023": 400, "53300": 503}
_KINDS = {
    400: "BadRequestException", 401: "NotAuthorizedException", 403: "ForbiddenException", 404: "NotFoundException",
    405: "UnsupportedOperationException", 406: "UnsupportedOperationException", 503: "ServiceUnavailableException",
}  # fmt: skip
_CONTENT = "application/json"
_CREDENTIALS = "storage-credentials"


class Refused(Exception):
    """An answer that is an error of the protocol."""

    def __init__(self, status: int, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind


def no_table(namespace: Sequence[str], name: str) -> Refused:
    return Refused(404, f"Table does not exist: {'.'.join([*namespace, name])}", "NoSuchTableException")


def no_namespace(namespace: Sequence[str]) -> Refused:
    return Refused(404, f"Namespace does not exist: {'.'.join(namespace)}", "NoSuchNamespaceException")


@dataclass(frozen=True)
class Routes:
    """Answers requests, each in a read transaction of its own."""

    access: Access
    storage: Storage

    def answer(self, outside: Session, request: Request) -> Answer:
        """`outside` is a session that has entered no database."""
        try:
            with reading(outside):
                return self._answer(outside, request)
        except BadGrant as problem:
            return _json({"error": problem.code, "error_description": str(problem)}, 400)
        except Unauthorized as problem:
            return complaint(401, str(problem))
        except Refused as problem:
            return complaint(problem.status, str(problem), problem.kind)

    def failure(self, request: Request, error: PgError) -> Answer:
        return failure(request, error)

    def complaint(self, status: int, text: str) -> Answer:
        return complaint(status, text)

    def has_password(self, request: Request) -> bool:
        return request.path.endswith(TOKENS)

    def _answer(self, outside: Session, request: Request) -> Answer:
        parts = _parts(request.path)
        if parts == ["oauth", "tokens"]:
            if request.method != "POST":
                raise Refused(405, "a token is asked for by POST")
            return _json(self.access.grant(outside, request), headers=[("Cache-Control", "no-store")])
        visitor = self.access.visitor(outside, request)
        looks = request.method in ("GET", "HEAD")
        if parts == ["config"] and looks:
            return _config(visitor, outside, _query(request))
        warehouse = None if parts[0] == "namespaces" else parts.pop(0)
        if parts[:1] == ["namespaces"] and len(parts) <= 5:
            asked = _Asked(self, outside, visitor, warehouse, request, _query(request))
            if looks:
                return asked.answer(parts[1:])
            if request.method == "POST" and parts[2:3] == ["tables"] and parts[4:] == ["metrics"]:
                asked.session(asked.namespace(parts[1]))
                return Answer(204)
        if looks:
            raise Refused(404, f"there is no {request.path}")
        visitor.databases(outside)
        raise Refused(406, "this catalog is read-only: tables are written by SQL, with pgrepl")


@dataclass(frozen=True)
class _Asked:
    """One request for namespaces or what is in them."""

    routes: Routes
    outside: Session
    visitor: Visitor
    warehouse: str | None
    request: Request
    query: dict[str, str]

    def answer(self, parts: list[str]) -> Answer:
        if not parts:
            return self._namespaces()
        namespace = self.namespace(parts[0])
        match parts[1:]:
            case []:
                self._existing(namespace)
                if self.request.method == "HEAD":
                    return Answer(204)
                return _json({"namespace": self._shown(namespace), "properties": {}})
            case ["tables"]:
                names = tables.tables(self._existing(namespace), namespace)
                return self._page("identifiers", [{"namespace": self._shown(namespace), "name": n} for n in names])
            case ["views"]:
                self._existing(namespace)
                return _json({"identifiers": []})
            case ["views", name]:
                raise Refused(404, f"View does not exist: {'.'.join([*namespace, name])}", "NoSuchViewException")
            case ["tables", name]:
                return self._table(self._found(namespace, name))
            case ["tables", name, "credentials"]:
                return self._credentials(self._found(namespace, name))
        raise Refused(404, f"there is no {self.request.path}")

    # --- namespaces -----------------------------------------------------------------------------------------------

    def namespace(self, text: str) -> Namespace:
        """The namespace that a path means."""
        given = tuple(text.split(_SEPARATOR))
        if self.warehouse is None:
            return given
        return (self.warehouse,) if given == (_PUBLIC,) else (self.warehouse, *given)

    def _shown(self, namespace: Namespace) -> list[str]:
        if self.warehouse is None:
            return list(namespace)
        return list(namespace[1:]) or [_PUBLIC]

    def session(self, namespace: Namespace) -> Session:
        """A session in the database of a namespace."""
        try:
            return self.visitor.admit(self.outside, namespace[0])
        except PgError as error:
            if error.sqlstate == "3D000":
                raise no_namespace(self._shown(namespace)) from None
            raise

    def _existing(self, namespace: Namespace) -> Session:
        session = self.session(namespace)
        if not tables.has_namespace(session, namespace):
            raise no_namespace(self._shown(namespace))
        return session

    def _namespaces(self) -> Answer:
        parent = self.query.get("parent")
        if parent:
            within = self.namespace(parent)
            session = self._existing(within)
            namespaces = [] if self.warehouse is not None else tables.namespaces(session, within)
        elif self.warehouse is not None:
            top = (self.warehouse,)
            session = self.session(top)
            namespaces = [
                namespace
                for namespace in (top, *tables.namespaces(session, top))
                if tables.has_namespace(session, namespace)
            ]
        else:
            may_enter = self.visitor.databases(self.outside)
            role = admit_user(self.outside, self.visitor.user)
            anywhere = self.outside.elsewhere(self.outside.database_oid, role.oid)
            namespaces = [namespace for namespace in tables.namespaces(anywhere) if namespace[0] in may_enter]
        return self._page("namespaces", [self._shown(namespace) for namespace in namespaces])

    def _page(self, what: str, listed: list[Any]) -> Answer:
        """A list, or one page of it, if the reader knows pages. A page's token is where it begins."""
        token = self.query.get("pageToken")
        if token is None and "pageSize" not in self.query:
            return _json({what: listed})
        size, begin = _number(self.query.get("pageSize") or str(_PAGE)), _number(token or "0")
        if not size:
            raise Refused(400, "a page has a size of at least 1")
        end = begin + size
        return _json({what: listed[begin:end], "next-page-token": str(end) if end < len(listed) else None})

    # --- tables ---------------------------------------------------------------------------------------------------

    def _found(self, namespace: Namespace, name: str) -> Described:
        """The table. Spark asks for `schema.table`.`snapshots` as one before it reads a table's own metadata: what is
        in no namespace is no table."""
        described = None
        with suppress(Refused):
            described = tables.find(self.session(namespace), namespace, name)
        if described is None:
            raise no_table(self._shown(namespace), name)
        return described

    def _table(self, table: Described) -> Answer:
        if self.request.method == "HEAD":
            return Answer(204)
        kept = self.query.get("snapshots", "all")
        if kept not in ("all", "refs"):
            raise Refused(400, f'invalid value for parameter "snapshots": "{kept}"')
        place = place_of(table.session)
        storage = self._storage(table, place)
        state = state_of(table)
        tag = f'"{hashlib.sha256(json.dumps([state, kept, storage]).encode()).hexdigest()[:32]}"'
        if _matches(self.request.headers.get("if-none-match", ""), tag):
            promise(table.session, table.snapshot, int(table.session.settings.value("pgrepl.iceberg_grace")))
            return Answer(304, headers=(("ETag", tag),))
        metadata = table_metadata(table, place, state)
        text = metadata.json if kept == "all" else _only_referenced(metadata.json)
        head = json.dumps({"metadata-location": metadata.location, **storage})
        return Answer(200, f'{head[:-1]}, "metadata": {text}}}', _CONTENT, (("ETag", tag),))

    def _credentials(self, table: Described) -> Answer:
        return _json({_CREDENTIALS: self._storage(table, place_of(table.session)).get(_CREDENTIALS, [])})

    def _storage(self, table: Described, place: Place) -> dict[str, Any]:
        """What the reader is told of the folders with data and with metadata."""
        folders = sorted({table.session.catalog.data_path, f"{place.location}/"})
        config = self.routes.storage.config(table.session, folders)
        if "s3.access-key-id" not in config:
            return {"config": config}
        return {"config": config, _CREDENTIALS: [{"prefix": folder, "config": config} for folder in folders]}


def _config(visitor: Visitor, outside: Session, query: dict[str, str]) -> Answer:
    overrides = {}
    warehouse = query.get("warehouse", "")
    if warehouse:
        try:
            visitor.admit(outside, warehouse)
        except PgError as error:
            if error.sqlstate == "3D000":
                raise Refused(404, f"Warehouse does not exist: {warehouse}", "NoSuchWarehouseException") from None
            raise
        if warehouse == "namespaces":  # it would be taken for a path without a warehouse
            raise Refused(400, f'database "{warehouse}" cannot be a warehouse')
        overrides["prefix"] = quote(warehouse, safe="")
    else:
        visitor.databases(outside)
    return _json({"defaults": {}, "overrides": overrides, "endpoints": ENDPOINTS})


# --- texts ------------------------------------------------------------------------------------------------------------


def _parts(path: str) -> list[str]:
    """The parts of a path after /v1."""
    try:
        first, *parts = [unquote(part, errors="strict") for part in path.rstrip("/").split("/")[1:]]
    except ValueError:
        raise Refused(400, "the path is malformed") from None
    if any("\0" in part for part in parts):
        raise Refused(400, "the path is malformed")
    if first != "v1" or not parts:
        raise Refused(404, f"there is no {path}")
    return parts


def _query(request: Request) -> dict[str, str]:
    try:
        parameters = parse_qs(request.query, keep_blank_values=True, errors="strict", max_num_fields=32)
    except ValueError:
        raise Refused(400, "the query is malformed") from None
    if any("\0" in value for values in parameters.values() for value in values):
        raise Refused(400, "the query is malformed")
    return {name: values[0] for name, values in parameters.items()}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused(400, f'not a number of names: "{text}"')
    return int(text)


def _matches(header: str, tag: str) -> bool:
    return tag in [given.strip().removeprefix("W/") for given in header.split(",")]


def _only_referenced(text: str) -> str:
    """The metadata without snapshots that no branch and no tag names."""
    metadata = json.loads(text)
    named = {ref["snapshot-id"] for ref in metadata.get("refs", {}).values()}
    metadata["snapshots"] = [snapshot for snapshot in metadata.get("snapshots", []) if snapshot["snapshot-id"] in named]
    return json.dumps(metadata)


def _json(value: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Answer:
    return Answer(status, json.dumps(value), _CONTENT, tuple(headers))


def complaint(status: int, text: str, kind: str = "") -> Answer:
    """An error, as the specification's ErrorModel has it."""
    kind = kind or _KINDS.get(status, "BadRequestException" if status < 500 else "InternalServerError")
    challenge = (("WWW-Authenticate", 'Bearer realm="pgrepl"'),) if status == 401 else ()
    retry = (("Retry-After", "1"),) if status == 503 else ()
    return _json({"error": {"message": text, "type": kind, "code": status}}, status, challenge + retry)


def failure(request: Request, error: PgError) -> Answer:
    """The answer to a request that an error has ended."""
    report = error.report
    text = "\n".join(filter(None, (report.message, report.detail, report.hint)))
    status = STATUS.get(error.sqlstate, 500)
    if request.path.endswith(TOKENS) and status in (401, 403):
        return _json({"error": "invalid_client", "error_description": text}, 401)
    return complaint(status, text)


_THREADS = 4
_MOST_WAITING = 32  # requests; a reader is told to ask again
_WRONG = 1.0  # seconds until it is said that a password is wrong
_LIMITS = Limits(METHODS, body=1 << 20, sending=10.0, waiting=300.0)
_NICENESS = 5  # sessions come first
_ANY_DATABASE = 5  # postgres: roles belong to no database


class Answering(Protocol):
    """What a path means, and how its errors are told."""

    def answer(self, outside: Session, request: Request) -> Answer: ...

    def failure(self, request: Request, error: PgError) -> Answer: ...

    def complaint(self, status: int, text: str) -> Answer: ...

    def has_password(self, request: Request) -> bool:
        """Has the request a password, which may be a guess?"""


class Desk:
    """Answers requests by threads with a session each."""

    def __init__(self, routes: Answering, open_session: Callable[[], Session], log: ServerLog) -> None:
        self.on_done: Callable[[], None] = lambda: None
        self._routes, self._open, self._log = routes, open_session, log
        self._threads = ThreadPoolExecutor(_THREADS, "pgrepl-iceberg")
        self._mine = threading.local()
        self._asked: WeakKeyDictionary[Request, Future[Answer]] = WeakKeyDictionary()
        self._generation = 0  # of settings

    def serve(self, server: HttpServer) -> None:
        """Answer what a server is asked. SIGTERM ends it; SIGHUP has sessions begin anew with new settings."""
        self.on_done = server.wake
        signal.signal(signal.SIGTERM, lambda *_: server.stop())
        signal.signal(signal.SIGHUP, lambda *_: self.renew())
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def renew(self) -> None:
        self._generation += 1

    def respond(self, request: Request) -> Answer | None:
        future = self._asked.get(request)
        if future is None:
            if sum(not other.done() for other in self._asked.values()) >= _MOST_WAITING:
                return self._routes.complaint(503, "the server has too much to do")
            future = self._asked[request] = self._threads.submit(self._answer, request)
            future.add_done_callback(lambda _: self.on_done())
        if not future.done():
            return None
        answer = future.result()
        if answer.status == 401 and self._routes.has_password(request) and time.monotonic() < request.asked + _WRONG:
            return None
        return answer

    def _answer(self, request: Request) -> Answer:
        try:
            return self._routes.answer(self._session(), request)
        except PgError as error:
            answer = self._routes.failure(request, error)
            if answer.status >= 500:  # the catalog may have gone, and come again
                self._forget()
            if answer.status >= 500 or error.report.severity == "FATAL":
                self._log.report(error.report)
            return answer
        except ConnectionLost:
            return self._routes.complaint(500, "there is nobody to tell")
        except Exception as problem:  # a mistake of ours: the next request finds another session
            self._forget()
            self._log.log(f"could not answer a request by HTTP: {problem!r}")
            return self._routes.complaint(500, "the request could not be answered")

    def _session(self) -> Session:
        session: Session | None = getattr(self._mine, "session", None)
        if session is None or self._mine.generation != self._generation:
            self._forget()
            self._mine.generation = self._generation
            session = self._mine.session = self._open()
        return session

    def _forget(self) -> None:
        session: Session | None = getattr(self._mine, "session", None)
        self._mine.session = None
        if session is not None:
            with suppress(PgError):
                session.close(keep=True)
                session.catalog.close()


def open_outside(catalog: str, settings: ServerSettings) -> Session:
    """A session that has entered no database."""
    opened = open_catalog(catalog, folder=str(settings.folder))
    session = Session(HOOKS, opened, SessionIdentity(database=_ANY_DATABASE))
    with reading(session):
        login.start(session)
    for name, text in settings.given.items():
        session.settings.set_by_system(name, text)  # which sessions elsewhere take over
    return session


def iceberg_process(
    listening: socket.socket, routes: Routes, settings: ServerSettings, catalog: str, log: ServerLog,
    tls: ssl.SSLContext | None,
) -> Callable[[int], None]:  # fmt: skip
    """The function that the process runs: it is given its place in the table of activity."""

    def run(place: int) -> None:
        desk = Desk(routes, lambda: open_outside(catalog, settings), log)
        server = HttpServer(listening, desk.respond, _LIMITS, complain=complaint, tls=tls)
        desk.serve(server)
        os.nice(_NICENESS)
        activity.show_process(place, "pgrepl iceberg")
        server.run()

    return run
