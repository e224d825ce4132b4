"""Who may ask for Iceberg's tables, from where and over what; and a catalog on a PostgreSQL server."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import pgrepl
from pgrepl.replication.log import ServerLog
from pgrepl.server.authentication import AuthenticationConfig
from pgrepl.server.http import Answer, HttpServer, Limits, Request, listen
from pgrepl.server.iceberg import METHODS, Desk, Routes, complaint, open_outside
from pgrepl.server.iceberg_access import Access, Storage
from pgrepl.server.settings import server_settings
from pgrepl.server.startup import server_context
from tests.iceberg.readers import READERS, Row, plain
from tests.postgres.server import Server, wheel_binaries

NEAR, FAR, INSIDE = "127.0.0.1", "192.0.2.7", "10.0.0.7"


class Peer:
    """The connection of a client at an address, without TLS."""

    family = socket.AF_INET

    def __init__(self, address: str) -> None:
        self._address = address

    def getpeername(self) -> tuple[str, int]:
        return self._address, 4242


class Asking:
    """Asks by no network."""

    def __init__(self, folder: Path, rules: str, catalog: str, data_path: str | None = None) -> None:
        (folder / "pg_hba.conf").write_text(rules)
        (folder / "pg_ident.conf").touch()
        self.log = folder / "log"
        with pgrepl.connect(catalog, autocommit=True, data_path=data_path) as con:
            settings = server_settings(con.session, folder, {})
        routes = Routes(
            Access(AuthenticationConfig(settings.hba_file, settings.ident_file, None, b""), b"k"), Storage()
        )
        self.desk = Desk(routes, lambda: open_outside(catalog, settings), ServerLog(self.log))

    def ask(self, path: str, address: str = NEAR, body: dict[str, str] | None = None, token: str = "") -> Any:
        """The status, and the answer."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        method, where, form = "GET" if body is None else "POST", f"/v1/{path}", urlencode(body or {}).encode()
        path, _, query = where.partition("?")
        request = Request(method, path, query, headers, form, Peer(address), time.monotonic())  # type: ignore[arg-type]
        answer: Answer | None = None
        while answer is None:
            answer = self.desk.respond(request)
            time.sleep(0.001)
        return answer.status, json.loads(answer.body or "null")

    def grant(self, user: str, secret: str, address: str) -> Any:
        form = {"grant_type": "client_credentials", "client_id": user, "client_secret": secret}
        return self.ask("oauth/tokens", address, form)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    folder = tmp_path_factory.mktemp("asked")
    catalog = str(folder / "catalog.db")
    with pgrepl.connect(catalog, autocommit=True) as con:
        for role in ("ann", "bob", "carl"):
            con.cursor().execute(f"CREATE ROLE {role} LOGIN PASSWORD 'of {role}'")
    rules = (
        f"host postgres ann {NEAR}/32 scram-sha-256\nhost all ann {FAR}/32 scram-sha-256\n"
        f"host all bob {FAR}/32 password\nhostssl all carl 0.0.0.0/0 scram-sha-256\n"
        f"hostssl all postgres {FAR}/32 trust\nhost all postgres {INSIDE}/32 trust\n"
    )
    yield Asking(folder, rules, catalog)


def test_a_password_is_not_asked_for_where_others_can_read_it(asking: Asking) -> None:
    """As SCRAM never tells it; the method password allows it."""
    assert asking.grant("ann", "of ann", NEAR)[0] == 200
    refused = asking.grant("ann", "of ann", FAR)
    assert refused == (400, {"error": "invalid_request", "error_description": "a password is taken over TLS only"})
    assert asking.grant("bob", "of bob", FAR)[0] == 200


def test_rules_for_tls(asking: Asking) -> None:
    token = asking.grant("carl", "of carl", NEAR)[1]["access_token"]
    status, answer = asking.ask("postgres/namespaces", NEAR, token=token)
    assert status == 403
    assert answer["error"]["message"] == (
        f'no pg_hba.conf entry for host "{NEAR}", user "carl", database "postgres", no encryption'
    )
    assert asking.ask("namespaces", FAR)[0] == 403


def test_rules_for_addresses(asking: Asking) -> None:
    token = asking.grant("ann", "of ann", NEAR)[1]["access_token"]
    assert asking.ask("namespaces", NEAR, token=token) == (200, {"namespaces": [["postgres"]]})
    assert asking.ask("namespaces", INSIDE, token=token)[0] == 403
    assert asking.ask("namespaces", INSIDE) == (200, {"namespaces": [["postgres"]]})


def test_who_has_no_token_and_needs_one_is_told(tmp_path: Path) -> None:
    asking = Asking(tmp_path, f"host all all {NEAR}/32 scram-sha-256\n", str(tmp_path / "catalog.db"))
    for path in ("config", "namespaces", "config?warehouse=postgres", "postgres/namespaces", "namespaces/postgres"):
        assert asking.ask(path)[0] == 401, path
    assert asking.ask("namespaces", FAR)[0] == 403
    assert "Traceback" not in (asking.log.read_text() if asking.log.exists() else "")


def test_a_certificate_says_who_a_reader_is(tmp_path: Path) -> None:
    for name in ("localhost", "ann"):
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-days", "2"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
        subprocess.run([*made, *files], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "localhost.key").chmod(0o600)
    asking = Asking(tmp_path, f"hostssl all all {NEAR}/32 cert\n", str(tmp_path / "catalog.db"))
    with pgrepl.connect(str(tmp_path / "catalog.db"), autocommit=True) as con:
        con.cursor().execute("CREATE ROLE ann LOGIN")
    context = server_context(*(tmp_path / each for each in ("localhost.crt", "localhost.key", "ann.crt")), "http/1.1")
    listening = listen((NEAR, 0), "a test")
    server = HttpServer(listening, asking.desk.respond, Limits(METHODS, 1000), complain=complaint, tls=context)
    thread = threading.Thread(target=server.run)
    thread.start()

    def asked(path: str, mine: bool, body: str | None = None, token: str = "") -> Any:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "localhost.crt"))
        if mine:
            trusting.load_cert_chain(tmp_path / "ann.crt", tmp_path / "ann.key")
        con = http.client.HTTPSConnection("localhost", listening.getsockname()[1], timeout=60, context=trusting)
        con.request("GET" if body is None else "POST", f"/v1/{path}", body, {"Authorization": f"Bearer {token}"})
        answer = con.getresponse()
        found = json.loads(answer.read())
        con.close()
        return answer.status, found

    try:
        ann, postgres = (
            asked("oauth/tokens", True, f"grant_type=client_credentials&client_id={name}")[1]["access_token"]
            for name in ("ann", "postgres")
        )
        assert asked("namespaces", True, token=ann) == (200, {"namespaces": [["postgres"]]})
        status, answer = asked("namespaces", False, token=ann)
        assert (status, answer["error"]["message"]) == (403, "connection requires a valid client certificate")
        status, answer = asked("namespaces", True, token=postgres)
        assert (status, answer["error"]["message"]) == (403, 'Certificate authentication failed for user "postgres"')
    finally:
        server.stop()
        thread.join()
        listening.close()


def test_more_than_can_be_answered(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers are told to come again while threads are stuck; and then they are answered."""
    stuck = threading.Event()
    answer = Routes.answer

    def slow(*given: Any) -> Answer:
        stuck.wait(60)
        return answer(*given)

    monkeypatch.setattr(Routes, "answer", slow)
    waiting = [Request("GET", "/v1/config", "", {}, b"", Peer(INSIDE), 0.0) for _ in range(32)]  # type: ignore[arg-type]
    assert [asking.desk.respond(each) for each in waiting] == [None] * 32
    status, refused = asking.ask("config", INSIDE)
    assert (status, refused["error"]["type"]) == (503, "ServiceUnavailableException")
    stuck.set()
    for each in waiting:
        while (found := asking.desk.respond(each)) is None:
            time.sleep(0.001)
        assert found.status == 200


@pytest.mark.slow
def test_a_catalog_on_a_server(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    server = Server(wheel_binaries(16)).start()
    try:
        catalog = f"postgresql+psycopg://postgres@localhost:{server.port}/postgres"
        asking = Asking(tmp_path, f"host all all {NEAR}/32 trust\n", catalog, f"{tmp_path}/lake/")
        with pgrepl.connect(catalog, autocommit=True) as con:
            cursor = con.cursor()
            for text in (
                "CREATE TABLE t (a int PRIMARY KEY, b text)",
                "INSERT INTO t SELECT g, 'b' || g FROM generate_series(1, 300) g",
                "DELETE FROM t WHERE a < 100",
                "INSERT INTO t VALUES (1000, NULL)",
                "SELECT a, b FROM t",
            ):
                cursor.execute(text)
            rows: list[Row] = sorted((tuple(map(plain, row)) for row in cursor.fetchall()), key=repr)
        assert asking.ask("namespaces") == (200, {"namespaces": [["postgres"]]})
        status, answer = asking.ask("postgres/namespaces/public/tables/t")
        assert status == 200
        assert sorted(READERS["pyiceberg"](answer["metadata-location"]), key=repr) == rows
    finally:
        server.stop()
