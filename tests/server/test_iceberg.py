"""Iceberg's REST catalog of a server: what is listed, loaded and refused, and for whom."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from pgrepl.server import http as server_http
from tests.harness.programs import eventually
from tests.harness.serving import Serving, serving
from tests.iceberg.readers import Row, duck, plain
from tests.postgres.server import free_port

RULES = """\
local  all        all                   trust
host   all        ann   127.0.0.1/32    scram-sha-256
host   shop       bob   127.0.0.1/32    trust
host   all        carl  127.0.0.1/32    password
host   "private"  postgres all          reject
host   all        postgres 127.0.0.1/32 trust
"""


@dataclass
class Asked:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def error(self) -> str:
        return str(self.body["error"]["type"])


@dataclass
class Catalog:
    serving: Serving
    port: int

    def ask(
        self, path: str, method: str = "GET", *, token: str | None = None, body: str | None = None, **headers: str
    ) -> Asked:
        con = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        con.request(method, f"/v1/{path}", body, {name.replace("_", "-"): text for name, text in headers.items()})
        answer = con.getresponse()
        text = answer.read().decode()
        con.close()
        return Asked(answer.status, json.loads(text) if text else None, dict(answer.getheaders()))

    def grant(self, user: str = "", secret: str = "", **form: str) -> Asked:
        given = {"grant_type": "client_credentials", "client_id": user, "client_secret": secret, **form}
        return self.ask("oauth/tokens", "POST", body=urlencode(given))

    def token(self, user: str, secret: str) -> str:
        return str(self.grant(user, secret).body["access_token"])

    def sql(self, text: str, database: str = "shop") -> None:
        with self.serving.connect(dbname=database) as con:
            con.execute(text)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    port, folder = free_port(), tmp_path_factory.mktemp("served")
    (folder / "pgrepl.toml").write_text(f'[settings]\n"pgrepl.iceberg_listen" = {port}\n')
    with serving(folder, rules=RULES) as served:
        found = Catalog(served, port)
        for role in ("ann", "bob", "carl"):
            served.ask(f"CREATE ROLE {role} LOGIN PASSWORD 'of {role}'")
        for database in ("shop", "private"):
            served.ask(f"CREATE DATABASE {database}")
        found.sql("CREATE TABLE orders (id bigint PRIMARY KEY, country text)")
        found.sql("CREATE SCHEMA sales; CREATE TABLE sales.days (day date); CREATE TABLE sales.hours (hour int)")
        found.sql("CREATE TABLE sales.hidden (a int); ALTER TABLE sales.hidden ENABLE ROW LEVEL SECURITY")
        found.sql("CREATE VIEW v AS SELECT 1")
        found.sql("GRANT USAGE ON SCHEMA sales TO ann; GRANT SELECT ON orders, sales.days, sales.hidden TO ann")
        found.sql("INSERT INTO orders VALUES (1, 'DE'), (2, 'AT')")
        yield found


# --- what is there ----------------------------------------------------------------------------------------------------


def test_databases_and_schemas_are_namespaces(catalog: Catalog) -> None:
    assert catalog.ask("config").body["overrides"] == {}
    assert catalog.ask("namespaces").body == {"namespaces": [["postgres"], ["shop"]]}
    assert catalog.ask("namespaces?parent=shop").body == {"namespaces": [["shop", "sales"]]}
    assert catalog.ask("namespaces/shop%1Fsales").body == {"namespace": ["shop", "sales"], "properties": {}}
    assert catalog.ask("namespaces/shop/tables").body == {"identifiers": [{"namespace": ["shop"], "name": "orders"}]}
    assert catalog.ask("namespaces/shop/views").body == {"identifiers": []}


def test_a_warehouse_is_a_database(catalog: Catalog) -> None:
    config = catalog.ask("config?warehouse=shop").body
    assert config["overrides"] == {"prefix": "shop"}
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
    assert not [each for each in config["endpoints"] if each.startswith(("PUT", "DELETE")) or each.endswith("s/{view}")]
    assert catalog.ask("shop/namespaces").body == {"namespaces": [["public"], ["sales"]]}
    assert catalog.ask("shop/namespaces?parent=sales").body == {"namespaces": []}
    names = [each["name"] for each in catalog.ask("shop/namespaces/sales/tables").body["identifiers"]]
    assert names == ["days", "hidden", "hours"]
    whole, part = (
        catalog.ask(path).body for path in ("namespaces/shop/tables/orders", "shop/namespaces/public/tables/orders")
    )
    assert whole["metadata"] == part["metadata"]
    assert whole["metadata-location"] == part["metadata-location"]
    assert catalog.ask("config?warehouse=nothing").error == "NoSuchWarehouseException"


def test_head(catalog: Catalog) -> None:
    for path in ("namespaces/shop", "namespaces/shop/tables/orders", "shop/namespaces/public/tables/orders"):
        assert (catalog.ask(path, "HEAD").status, catalog.ask(path + "x", "HEAD").status) == (204, 404), path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("namespaces/none", "NoSuchNamespaceException"), ("namespaces?parent=none", "NoSuchNamespaceException"),
        ("namespaces/none/tables", "NoSuchNamespaceException"), ("namespaces/none/views", "NoSuchNamespaceException"),
        ("namespaces/shop%1Fsales%1Fmore", "NoSuchNamespaceException"),
        ("shop/namespaces/shop", "NoSuchNamespaceException"), ("none/namespaces", "NoSuchNamespaceException"),
        ("namespaces/shop/tables/v", "NoSuchTableException"), ("namespaces/none/tables/t", "NoSuchTableException"),
        # Spark asks for metadata tables as tables first
        ("namespaces/shop%1Forders/tables/snapshots", "NoSuchTableException"),
        ("shop/namespaces/public%1Forders/tables/snapshots", "NoSuchTableException"),
        ("namespaces/shop/views/v", "NoSuchViewException"), ("nothing", "NotFoundException"),
        ("namespaces/shop/nothing", "NotFoundException"),
    ],
)  # fmt: skip
def test_what_is_not_there(catalog: Catalog, path: str, kind: str) -> None:
    found = catalog.ask(path)
    assert (found.status, found.error) == (404, kind)


def test_pages(catalog: Catalog) -> None:
    found, token = [], ""
    for _ in range(3):
        page = catalog.ask(f"shop/namespaces/sales/tables?pageSize=1&pageToken={token}").body
        found += [each["name"] for each in page["identifiers"]]
        token = page["next-page-token"]
    assert (found, token) == (["days", "hidden", "hours"], None)
    assert catalog.ask("namespaces?pageToken=").body == {
        "namespaces": [["postgres"], ["shop"]],
        "next-page-token": None,
    }
    assert catalog.ask("namespaces?pageSize=0").error == "BadRequestException"
    assert catalog.ask("namespaces?pageSize=1&pageToken=x").error == "BadRequestException"


def test_a_table_that_has_not_changed(catalog: Catalog) -> None:
    path = "namespaces/shop%1Fsales/tables/days"
    first = catalog.ask(path)
    tag = first.headers["ETag"]
    again = catalog.ask(path, if_none_match=f'"x", W/{tag}')
    assert (again.status, again.body, again.headers["ETag"]) == (304, None, tag)
    assert catalog.ask(f"{path}?snapshots=refs", if_none_match=tag).status == 200
    catalog.sql("INSERT INTO sales.days VALUES ('2026-01-01')")
    changed = catalog.ask(path, if_none_match=tag)
    assert (changed.status, changed.headers["ETag"] != tag) == (200, True)


def test_snapshots_that_are_asked_for(catalog: Catalog) -> None:
    catalog.sql("INSERT INTO sales.hours VALUES (1)")
    catalog.sql("INSERT INTO sales.hours VALUES (2)")
    path = "namespaces/shop%1Fsales/tables/hours"
    every, named = (catalog.ask(path + query).body["metadata"] for query in ("", "?snapshots=refs"))
    assert [each["snapshot-id"] for each in named["snapshots"]] == [every["current-snapshot-id"]]
    assert every["current-snapshot-id"] in [each["snapshot-id"] for each in every["snapshots"]]
    assert catalog.ask(path + "?snapshots=some").error == "BadRequestException"
    catalog.sql("ALTER ROLE ann SET pgrepl.iceberg_snapshots = 0; GRANT SELECT ON sales.hours TO ann")
    last = catalog.ask(path, token=catalog.token("ann", "of ann")).body["metadata"]["snapshots"]
    assert (len(every["snapshots"]) > 1, len(last)) == (True, 1)
    catalog.sql("ALTER ROLE ann RESET pgrepl.iceberg_snapshots; REVOKE SELECT ON sales.hours FROM ann")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "namespaces"), ("DELETE", "namespaces/shop"), ("POST", "namespaces/shop/properties"),
        ("POST", "namespaces/shop/tables"), ("POST", "namespaces/shop/tables/orders"),
        ("DELETE", "namespaces/shop/tables/orders"), ("POST", "namespaces/shop/register"),
        ("POST", "tables/rename"), ("POST", "transactions/commit"), ("POST", "shop/transactions/commit"),
        ("POST", "namespaces/shop/views"), ("PUT", "config"),
    ],
)  # fmt: skip
def test_it_is_read_only(catalog: Catalog, method: str, path: str) -> None:
    found = catalog.ask(path, method, body="{}")
    assert (found.status, found.error) == (406, "UnsupportedOperationException"), found.body
    assert "read-only" in found.body["error"]["message"]


def test_reports_of_readers_are_taken(catalog: Catalog) -> None:
    assert catalog.ask("namespaces/shop/tables/orders/metrics", "POST", body='{"report-type": "x"}').status == 204


# --- who may ----------------------------------------------------------------------------------------------------------


def test_privileges_decide(catalog: Catalog) -> None:
    token = catalog.token("ann", "of ann")
    assert catalog.ask("shop/namespaces", token=token).body == {"namespaces": [["public"], ["sales"]]}
    names = [each["name"] for each in catalog.ask("shop/namespaces/sales/tables", token=token).body["identifiers"]]
    assert names == ["days"]  # not hidden, whose rows are secured
    for name in ("hours", "hidden"):
        assert catalog.ask(f"shop/namespaces/sales/tables/{name}", token=token).error == "NoSuchTableException"
    catalog.sql("REVOKE USAGE ON SCHEMA sales FROM ann")
    assert catalog.ask("shop/namespaces/sales/tables/days", token=token).error == "NoSuchTableException"
    assert catalog.ask("shop/namespaces", token=token).body == {"namespaces": [["public"]]}
    catalog.sql("GRANT USAGE ON SCHEMA sales TO ann")


def test_rules_of_pg_hba_decide(catalog: Catalog) -> None:
    """Who has no token is postgres, whom a rule keeps from one database."""
    assert catalog.ask("private/namespaces").error == "ForbiddenException"
    assert catalog.ask("namespaces/private/tables").error == "ForbiddenException"
    assert catalog.ask("namespaces", token=catalog.token("ann", "of ann")).body == {
        "namespaces": [["postgres"], ["private"], ["shop"]]
    }
    bob = catalog.token("bob", "whatever")  # trusted, but in one database only
    assert catalog.ask("namespaces", token=bob).body == {"namespaces": [["shop"]]}
    assert catalog.ask("namespaces/postgres", token=bob).error == "ForbiddenException"


def test_a_token_takes_the_password(catalog: Catalog) -> None:
    wrong = catalog.grant("ann", "of bob")
    assert (wrong.status, wrong.body["error"]) == (401, "invalid_client")
    assert catalog.grant("nobody", "x").body == {
        **wrong.body, "error_description": 'password authentication failed for user "nobody"'
    }  # fmt: skip
    basic = base64.b64encode(b"ann:of ann").decode()
    granted = catalog.ask("oauth/tokens", "POST", body="grant_type=client_credentials", Authorization=f"Basic {basic}")
    assert granted.body["token_type"] == "bearer"
    assert granted.body["expires_in"] == 3600
    assert catalog.grant(grant_type="password").body["error"] == "unsupported_grant_type"
    assert catalog.ask("oauth/tokens", "POST", body="%ff=%ff").body["error"] == "invalid_request"
    assert catalog.ask("oauth/tokens").status == 405


def test_a_token_is_exchanged_for_a_new_one(catalog: Catalog) -> None:
    exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
    new = catalog.grant(grant_type=exchange, subject_token=catalog.token("carl", "of carl")).body["access_token"]
    assert catalog.ask("namespaces", token=new).status == 200
    assert catalog.grant(grant_type=exchange, subject_token=new + "x").body["error"] == "invalid_grant"


def test_a_token_ends_with_its_password(catalog: Catalog) -> None:
    token = catalog.token("carl", "of carl")
    assert catalog.ask("namespaces", token=token).status == 200
    catalog.sql("ALTER ROLE carl PASSWORD 'another'")
    assert catalog.ask("namespaces", token=token).status == 401
    again = catalog.token("carl", "another")
    catalog.sql("ALTER ROLE carl NOLOGIN")
    assert catalog.ask("namespaces", token=again).error == "ForbiddenException"
    catalog.sql("ALTER ROLE carl LOGIN PASSWORD 'of carl'")


def test_a_token_that_was_changed(catalog: Catalog) -> None:
    text, _, signature = catalog.token("ann", "of ann").partition(".")
    claims = json.loads(base64.urlsafe_b64decode(text + "=="))
    forged = base64.urlsafe_b64encode(json.dumps({**claims, "role": "postgres"}).encode()).decode().rstrip("=")
    for token in (
        f"{forged}.{signature}",
        f"{text}.",
        f"{text}.{signature[:-2]}",
        ".",
        "é",
        f"{text}.\xff",
        "x" * 2000,
    ):
        refused = catalog.ask("namespaces", token=token)
        assert (refused.status, refused.error) == (401, "NotAuthorizedException")
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_token_ends(catalog: Catalog) -> None:
    """A setting that was changed is taken without a restart."""
    catalog.sql("ALTER SYSTEM SET pgrepl.iceberg_token_lifetime = 1")
    catalog.sql("SELECT pg_reload_conf()")
    eventually(lambda: catalog.grant("ann", "of ann").body["expires_in"] == 1)
    token = catalog.token("ann", "of ann")
    eventually(lambda: catalog.ask("namespaces", token=token).status == 401)
    catalog.sql("ALTER SYSTEM RESET pgrepl.iceberg_token_lifetime")
    catalog.sql("SELECT pg_reload_conf()")
    eventually(lambda: catalog.grant("ann", "of ann").body["expires_in"] == 3600)


# --- readers ----------------------------------------------------------------------------------------------------------

EVERY = "SELECT id, name, price, at, day, tags, ok, ratio, key FROM every"


@pytest.fixture(scope="module")
def every(catalog: Catalog) -> list[Row]:
    """The rows of a table that has files, deleted rows, and rows in the catalog."""
    catalog.sql(
        "CREATE TABLE every (id bigint PRIMARY KEY, name text, price numeric(9,2), at timestamptz, day date,"
        " tags text[], ok bool, ratio double precision, key uuid); GRANT SELECT ON every TO ann"
    )
    values = "g, 'n' || g, g * 1.25, '2026-01-01Z'::timestamptz + g * interval '1 hour', '2026-01-01'::date + g"
    values += ", ARRAY['a', NULL, g::text], g % 3 = 0, g / 7.0, '00000000-0000-0000-0000-000000000001'"
    catalog.sql(f"INSERT INTO every SELECT {values} FROM generate_series(1, 500) g")
    catalog.sql("UPDATE every SET name = name || '!' WHERE id % 50 = 0")
    catalog.sql("DELETE FROM every WHERE id BETWEEN 100 AND 140")
    catalog.sql("INSERT INTO every (id, name) VALUES (1001, NULL)")
    with catalog.serving.connect(dbname="shop") as con:
        return in_order(con.execute(EVERY).fetchall())


def in_order(rows: list[tuple[Any, ...]]) -> list[Row]:
    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


@pytest.mark.parametrize("given", [{}, {"warehouse": "shop"}, {"warehouse": "shop", "credential": "ann:of ann"}])
def test_pyiceberg(catalog: Catalog, every: list[Row], given: dict[str, str]) -> None:
    rest = pytest.importorskip("pyiceberg.catalog.rest")
    at = f"http://127.0.0.1:{catalog.port}"
    lake = rest.RestCatalog("lake", uri=at, **{"oauth2-server-uri": f"{at}/v1/oauth/tokens", **given})
    table = lake.load_table("public.every" if given else "shop.every")
    assert in_order([tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]) == every
    assert not lake.table_exists("shop.nothing")
    with pytest.raises(NotImplementedError, match="does not support endpoint"):
        lake.create_namespace("mine")


@pytest.mark.parametrize("option", ["AUTHORIZATION_TYPE 'none'", "SECRET ann"])
def test_duckdb(catalog: Catalog, every: list[Row], option: str) -> None:
    at = f"http://127.0.0.1:{catalog.port}"
    link = duck().cursor()
    who = "CLIENT_ID 'ann', CLIENT_SECRET 'of ann'"
    link.execute(f"CREATE OR REPLACE SECRET ann (TYPE iceberg, {who}, OAUTH2_SERVER_URI '{at}/v1/oauth/tokens')")
    link.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{at}', {option})")
    link.execute(f"ATTACH 'shop' AS shop (TYPE iceberg, ENDPOINT '{at}', {option})")
    try:
        for name in ("lake.shop.every", "shop.public.every"):
            found = link.sql(f"SELECT * FROM {name}").to_arrow_table().to_pylist()
            assert in_order([tuple(row.values()) for row in found]) == every
        assert link.sql("SELECT count(*) FROM shop.public.every WHERE price > 600").fetchall() == [(20,)]
        with pytest.raises(Exception, match="read-only"):
            link.execute("CREATE TABLE shop.public.mine (a int)")
    finally:
        link.execute("DETACH lake; DETACH shop; DROP SECRET ann")


def test_what_was_handed_out_stays_readable(catalog: Catalog) -> None:
    rest = pytest.importorskip("pyiceberg.catalog.rest")
    catalog.sql("CREATE TABLE moved (a int)")
    catalog.sql("INSERT INTO moved SELECT generate_series(1, 300)")
    table = rest.RestCatalog("lake", uri=f"http://127.0.0.1:{catalog.port}").load_table("shop.moved")
    with catalog.serving.connect(dbname="shop") as con:
        con.execute("SET pgrepl.file_grace = 0")
        con.execute("SET pgrepl.keep_snapshots = 0")
        con.execute("DELETE FROM moved WHERE a <= 100")
        con.execute("VACUUM FULL moved")
        con.execute("VACUUM moved")
    assert table.scan().to_arrow().num_rows == 300
    assert table.refresh().scan().to_arrow().num_rows == 200


# --- who means no good ------------------------------------------------------------------------------------------------

_WORDS = ["namespaces", "shop", "tables", "orders", "config", "oauth", "tokens", "metrics", "views", "..", "%1F", "%00",
          "%ff", "%", "é", "?", "&", "=", "parent=", "pageToken=", "pageSize=-1", "warehouse=", "%2F", "'", '"', "\\",
          "snapshots=", "x" * 300]  # fmt: skip


def test_nonsense_is_answered(catalog: Catalog) -> None:
    chance = random.Random(7)
    seen = set()
    for _ in range(200):
        path = "".join(chance.choice(_WORDS) + chance.choice(["/", "", "?"]) for _ in range(chance.randrange(1, 9)))
        body = chance.choice(["", "{", "grant_type=client_credentials&client_id=%00&client_secret=%ff", "a=b&" * 100])
        method = chance.choice(["GET", "GET", "HEAD", "POST", "DELETE", "PUT"])
        authorization = chance.choice(["", "", "Basic x", "Basic YQ==", "Bearer a.b", "Bearer", "Digest x"])
        request = (
            f"{method} /v1/{path} HTTP/1.1\r\nAuthorization: {authorization}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", catalog.port), timeout=60) as con:
            con.sendall(request.encode() + body.encode())
            answer = con.makefile("rb").read().decode()
        seen.add(int(answer[9:12]))
        assert answer.startswith("HTTP/1.1 2") or method == "HEAD" or '"error"' in answer, (request, answer)
    assert seen <= {200, 204, 400, 401, 403, 404, 405, 406}
    assert {200, 400, 404, 406} <= seen
    assert "Traceback" not in catalog.serving.log
    assert "could not answer" not in catalog.serving.log


def test_clients_that_say_nothing(catalog: Catalog) -> None:
    waiting = [socket.create_connection(("127.0.0.1", catalog.port)) for _ in range(2 * server_http.MOST)]
    assert catalog.ask("namespaces").status == 200
    for each in waiting:
        each.close()


def test_no_secret_is_logged(catalog: Catalog) -> None:
    token = catalog.token("ann", "of ann")
    catalog.ask("namespaces", token=token + "x")
    catalog.grant("ann", "a wrong secret")
    log = catalog.serving.log
    assert 'password authentication failed for user "ann"' in log
    for secret in ("of ann", "a wrong secret", token, token[:20]):
        assert secret not in log


@pytest.mark.slow
def test_a_server_begins_again(tmp_path: Path) -> None:
    """Tokens hold as long as the server that has granted them; its process may end."""
    port = free_port()
    with serving(tmp_path, "--iceberg", str(port), rules=RULES) as served:
        found = Catalog(served, port)
        served.ask("CREATE ROLE ann LOGIN PASSWORD 'of ann'")
        token = found.token("ann", "of ann")
        ((pid,),) = served.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgrepl iceberg'")
        os.kill(pid, signal.SIGKILL)
        eventually(
            lambda: (
                served.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgrepl iceberg'")
                not in ([], [(pid,)])
            )
        )
        assert found.ask("namespaces", token=token).status == 200
    with serving(tmp_path, "--iceberg", str(port), rules=RULES) as served:
        assert Catalog(served, port).ask("namespaces", token=token).status == 401
