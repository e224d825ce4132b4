"""Exported tables are registered in a REST catalog of others: here a small one, read by pyiceberg."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.harness.programs import environment, eventually, started
from tests.iceberg.readers import pyiceberg_rows
from tests.iceberg.test_export import export, shop, sql

TOKEN = "a-token"


class Catalog(ThreadingHTTPServer):
    """Namespaces, and where the metadata of each table is."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.uri = f"http://127.0.0.1:{self.server_address[1]}/api"
        self.tables: dict[tuple[str, ...], dict[str, str]] = {}
        self.asked: list[str] = []
        self.overwrites = True  # does it know that word?
        self.tokens = [TOKEN]  # that hold; the first one is granted
        self.grants, self.refused = True, 0
        self.forms: list[dict[str, list[str]]] = []

    def granted(self, form: dict[str, list[str]]) -> tuple[int, Any]:
        self.forms.append(form)
        if not self.grants or (form["client_id"], form["client_secret"]) != (["ann:of"], ["ann"]):
            self.refused += 1
            return 401, {"error": "invalid_client"}
        return 200, {"access_token": self.tokens[0], "token_type": "bearer"}

    def answer(self, method: str, parts: list[str], query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if parts == ["config"]:
            return 200, {"defaults": {}, "overrides": {"prefix": f"in/{query['warehouse'][0]}"}}
        assert parts[:3] == ["in", "w", "namespaces"]
        if parts[3:] == []:
            self.tables[tuple(body["namespace"])] = {}
            return 200, body
        tables = self.tables.get(tuple(parts[3].split("\x1f")))
        if tables is None:
            return 404, {"error": {"message": "no such namespace"}}
        match method, parts[4:]:
            case "GET", []:
                return 200, {}
            case "POST", ["register"]:
                if body["name"] in tables and not (self.overwrites and body["overwrite"]):
                    return 409, {"error": {"message": "it exists"}}
                tables[body["name"]] = body["metadata-location"]
                return 200, {}
            case "DELETE", ["tables", name]:
                assert query == {"purgeRequested": ["false"]}
                del tables[name]
                return 204, None
            case "GET", ["tables", name]:
                if name not in tables:
                    return 404, {"error": {"message": "no such table"}}
                where = tables[name]
                return 200, {"metadata-location": where, "metadata": json.loads(Path(where).read_text()), "config": {}}
        return 400, None


class _Answers(BaseHTTPRequestHandler):
    server: Catalog

    def _any(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length).decode()
        self.server.asked.append(self.command)
        if parts.path.endswith("/oauth/tokens"):
            status, said = self.server.granted(parse_qs(sent))
        elif self.headers.get("Authorization", "").removeprefix("Bearer ") not in self.server.tokens:
            status, said = 401, {"error": {"message": "who are you?"}}
        else:
            path = [unquote(each) for each in parts.path.removeprefix("/api/v1/").split("/")]
            status, said = self.server.answer(self.command, path, parse_qs(parts.query), json.loads(sent or "null"))
        self.send_response(status)
        self.end_headers()
        if said is not None:
            self.wfile.write(json.dumps(said).encode())

    do_GET = do_POST = do_DELETE = _any

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with Catalog() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def register(shop: Path, catalog: Catalog, *names: str) -> tuple[int, str, str]:
    return export(shop, *names, "--register", catalog.uri, "--warehouse", "w", PGREPL_ICEBERG_TOKEN=TOKEN)


def read(catalog: Catalog, name: str) -> list[dict[str, Any]]:
    from pyiceberg.catalog.rest import RestCatalog

    there = RestCatalog("lake", uri=catalog.uri, warehouse="w", token=TOKEN)
    rows: list[dict[str, Any]] = there.load_table(name).scan().to_arrow().to_pylist()
    return rows


@pytest.mark.parametrize("overwrites", [True, False])
def test_each_version_is_registered(shop: Path, catalog: Catalog, overwrites: bool) -> None:
    catalog.overwrites = overwrites
    code, told, errors = register(shop, catalog)
    assert (code, errors) == (0, "")
    assert [line.rpartition(": ")[2] for line in told.splitlines()] == 2 * ["version 1, registered"]
    assert catalog.tables.keys() == {("shop",), ("shop", "sales")}
    assert read(catalog, "shop.orders") == [{"id": 1, "what": "a"}, {"id": 2, "what": "b"}]
    sql(shop, "DELETE FROM orders WHERE id = 1")
    code, told, errors = register(shop, catalog)
    assert (code, errors) == (0, "")
    assert [line.rpartition(": ")[2] for line in told.splitlines()] == ["version 2, registered", "version 1"]
    assert read(catalog, "shop.orders") == [{"id": 2, "what": "b"}]
    assert ("DELETE" in catalog.asked) is not overwrites
    catalog.asked.clear()
    _, told, _ = register(shop, catalog, "--json")
    assert [json.loads(line)["registered"] for line in told.splitlines()] == [False, False]
    assert set(catalog.asked) == {"GET"}


def test_a_table_that_is_another_one_stays(shop: Path, catalog: Catalog) -> None:
    register(shop, catalog, "orders")
    theirs = catalog.tables["shop",]["orders"]
    sql(shop, "DROP TABLE orders; CREATE TABLE orders (a int)")
    code, told, errors = register(shop, catalog, "orders")
    assert (code, told) == (1, "")
    assert errors == (
        f'ERROR:  table "shop.orders" already exists in the catalog "{catalog.uri}"\nDETAIL:  It is another one.\n'
        'HINT:  Drop it there first.\nCONTEXT:  export of table "shop.orders"\n'
    )
    assert catalog.tables["shop",]["orders"] == theirs


def test_what_cannot_be_registered(shop: Path, catalog: Catalog) -> None:
    def says(*arguments: str, **variables: str) -> str:
        code, told, errors = export(shop, "orders", *arguments, **variables)
        assert (code, told) == (1, "")
        return errors

    for uri in ("file:///etc/passwd", "http://ann:secret@127.0.0.1/", "127.0.0.1:80", "http://[", "http://h:99999999"):
        errors = says("--register", uri)
        assert errors.startswith("ERROR:  invalid URI of an Iceberg catalog\nHINT:  "), errors
        assert "secret" not in errors
    assert "could not ask the Iceberg catalog" in says("--register", "http://127.0.0.1:9")
    errors = says("--register", catalog.uri, PGREPL_ICEBERG_TOKEN="another")
    assert errors.endswith("HTTP status 401\nDETAIL:  who are you?\n"), errors
    assert "another" not in errors
    assert says("--register", catalog.uri).endswith(
        "Give a token in PGREPL_ICEBERG_TOKEN, or client:secret in PGREPL_ICEBERG_CREDENTIAL.\n"
    )
    assert export(shop, "--warehouse", "w")[0] == 2


__all__ = ["shop"]


def test_a_follower_outlives_its_token(shop: Path, catalog: Catalog) -> None:
    catalog.tokens = ["first", "second"]
    arguments = ("--follow", "--interval", "0.1", "--register", catalog.uri, "--warehouse", "w")
    given = environment(PGREPL_ICEBERG_CREDENTIAL="ann:of:ann", PGREPL_ICEBERG_SCOPE="all")
    with started("iceberg", "export", "-d", "shop", "orders", *arguments, cwd=shop, env=given) as follower:
        eventually(lambda: read_or_nothing(catalog) == [1, 2])
        catalog.tokens = ["second"]  # the first is not good any more
        sql(shop, "INSERT INTO orders VALUES (3, 'c')")
        eventually(lambda: read_or_nothing(catalog) == [1, 2, 3])
        catalog.tokens, catalog.grants = ["third"], False
        sql(shop, "INSERT INTO orders VALUES (4, 'd')")
        eventually(lambda: catalog.refused)
        catalog.grants = True
        eventually(lambda: read_or_nothing(catalog) == [1, 2, 3, 4])
        follower.send_signal(signal.SIGINT)
        assert follower.wait(30) == 0
        told = follower.stderr.read()
    assert "has granted no token" in told
    assert "of:ann" not in told
    assert catalog.forms[0]["scope"] == ["all"]


def read_or_nothing(catalog: Catalog) -> list[int]:
    where = catalog.tables.get(("shop",), {}).get("orders")
    return [] if where is None else [row[0] for row in pyiceberg_rows(where)]
