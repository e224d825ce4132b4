"""Who may enter: pg_hba.conf, peers, passwords, TLS; and how the server ends."""

from __future__ import annotations

import getpass
import json
import signal
import socket
import ssl
import struct
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest

from pgrepl.server.hba import BadLine, Rule, read_rules
from tests.harness.programs import eventually
from tests.harness.serving import Serving, serving
from tests.postgres.server import free_port

ICEBERG = free_port()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with TLS, whose rules ask for passwords over TCP; its socket is for the catalog's owner."""
    folder = tmp_path_factory.mktemp("guarded")
    certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    files = ["-keyout", "server.key", "-out", "server.crt"]
    subprocess.run([*certificate, *files], cwd=folder, check=True, capture_output=True)
    (folder / "server.key").chmod(0o600)
    rules = (
        "local all all peer map=owner\n"
        "hostssl all app 127.0.0.1/32 scram-sha-256\n"
        'host shop "app" 127.0.0.1 255.255.255.255 scram-sha-256\n'
        "host all refused all reject\n"
        "host older old,app,bare 127.0.0.1/32 md5\n"
        "host postgres old,app,bare 127.0.0.1/32 password\n"
    )
    (folder / "pg_ident.conf").write_text(f"owner {getpass.getuser()} all\n")
    with serving(folder, "-c", "ssl=on", "-c", f"pgrepl.iceberg_listen={ICEBERG}", rules=rules) as found:
        with found.connect() as con:
            con.execute("CREATE ROLE app LOGIN PASSWORD 'sécret'")
            con.execute("CREATE ROLE refused LOGIN")
            con.execute("CREATE ROLE bare LOGIN; SET password_encryption = md5; CREATE ROLE old LOGIN PASSWORD 'öld'")
            con.execute("CREATE DATABASE shop")
            con.execute("CREATE DATABASE older")
        yield found


def refused(served: Serving, **options: object) -> str:
    with pytest.raises(psycopg.OperationalError) as failed:
        served.connect(**{"host": "127.0.0.1", "connect_timeout": 30, **options})
    return str(failed.value).rpartition("FATAL:  ")[2].strip()


def test_readers_of_iceberg_are_let_in_by_the_same_rules(guarded: Serving) -> None:
    trusting = ssl.create_default_context(cafile=str(guarded.folder / "server.crt"))

    def asked(path: str, body: dict[str, str] | None = None, token: str = "", scheme: str = "https") -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else urlencode(body).encode()
        request = urllib.request.Request(f"{scheme}://localhost:{ICEBERG}/v1/{path}", data, headers)
        with urllib.request.urlopen(request, context=trusting, timeout=60) as answer:
            return json.loads(answer.read())

    given = {"grant_type": "client_credentials", "client_id": "app", "client_secret": "sécret"}
    token = asked("oauth/tokens", given)["access_token"]
    assert asked("namespaces", token=token) == {"namespaces": [["older"], ["postgres"], ["shop"]]}
    assert asked("template1/namespaces", token=token) == {"namespaces": []}
    assert asked("shop/namespaces", token=token, scheme="http") == {"namespaces": [["public"]]}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        asked("template1/namespaces", token=token, scheme="http")


def test_a_password_opens_with_and_without_tls(guarded: Serving) -> None:
    secret = {"host": "127.0.0.1", "user": "app", "password": "sécret"}
    with guarded.connect(**secret, sslmode="require", channel_binding="require") as con:
        assert con.execute("SELECT current_user").fetchall() == [("app",)]
    with guarded.connect(**secret, dbname="shop", sslmode="disable") as con:
        assert con.execute("SELECT current_database()").fetchall() == [("shop",)]


@pytest.mark.parametrize("database", ["older", "postgres"])  # by md5, by password
def test_older_methods_ask_for_passwords(guarded: Serving, database: str) -> None:
    there = {"host": "127.0.0.1", "dbname": database, "sslmode": "disable"}
    for role, password in (("old", "öld"), ("app", "sécret")):
        with guarded.connect(**there, user=role, password=password) as con:
            assert con.execute("SELECT current_user").fetchall() == [(role,)]
        wrong = f'password authentication failed for user "{role}"'
        assert refused(guarded, **there, user=role, password="x") == wrong
    assert refused(guarded, **there, user="bare", password="x") == 'password authentication failed for user "bare"'


def test_refusals_name_what_was_asked_for(guarded: Serving) -> None:
    wrong = 'password authentication failed for user "app"'
    assert refused(guarded, user="app", password="x", sslmode="require") == wrong
    assert refused(guarded, user="nobody", sslmode="disable") == (
        'no pg_hba.conf entry for host "127.0.0.1", user "nobody", database "postgres", no encryption'
    )
    assert refused(guarded, user="refused", sslmode="require") == (
        'pg_hba.conf rejects connection for host "127.0.0.1", user "refused", database "postgres", SSL encryption'
    )
    assert refused(guarded, host=str(guarded.folder), dbname="none") == 'database "none" does not exist'


def test_lines_of_pg_hba(tmp_path: Path) -> None:
    file = tmp_path / "pg_hba.conf"

    def read(text: str) -> list[Rule | BadLine]:
        file.write_text(text)
        return read_rules(file)

    (rule,) = read('# who\nhost a,"all" +b , /^c 10.0.0.0/8 \\\n  scram-sha-256 # end\n')
    assert isinstance(rule, Rule)
    assert [(word.text, word.quoted) for word in rule.databases] == [("a", False), ("all", True)]
    assert [word.text for word in rule.users] == ["+b", "/^c"]
    assert str(rule.networks[0]) == "10.0.0.0/8"
    bad = {
        "hosts all all all trust": 'invalid connection type "hosts"',
        "local all all": "end-of-line before authentication method",
        "host all all 10.0.0.0/40 trust": 'invalid CIDR mask in address "10.0.0.0/40"',
        "host all all all peer": "peer authentication is only supported on local sockets",
        "local all all kerberos": 'invalid authentication method "kerberos"',
    }
    for text, message in bad.items():
        assert [each.message for each in read(text) if isinstance(each, BadLine)] == [message]


def packet(text: bytes, code: int = 3 << 16) -> bytes:
    return struct.pack("!II", len(text) + 8, code) + text


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!I", 1 << 30),
        struct.pack("!II", 8, 2 << 16),
        packet(b"user\0postgres"),
        packet(b"user\0postgres\0\0junk"),
        packet(b"database\0postgres\0\0"),
        packet(b"user\0postgres\0replication\0maybe\0\0"),
        packet(b"x", (1234 << 16) | 5678),
        packet(b"user\0postgres\0\0") + b"Q" + struct.pack("!I", 3),
        packet(b"user\0postgres\0\0") + b"\xff" * 100,
        packet(b"user\0postgres\0\0") + b"B" + struct.pack("!I", 1 << 30),
        packet(b"user\0postgres\0\0") + b"P" + struct.pack("!I", 6) + b"\0\0",
    ],
)
def test_bad_input_ends_in_an_error_or_a_closed_connection(guarded: Serving, sent: bytes) -> None:
    where = f"{guarded.folder}/.s.PGSQL.{guarded.port}"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(where)
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    assert guarded.ask("SELECT 1") == [(1,)]
    assert "Traceback" not in guarded.log


def test_shutdowns(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as served:
        con = served.connect()
        served.process.send_signal(signal.SIGTERM)  # smart: waits for the client
        eventually(lambda: "smart shutdown" in served.log)
        assert con.execute("SELECT 1").fetchall() == [(1,)]
        assert refused(served) == "the database system is shutting down"
        con.close()
        assert served.process.wait(60) == 0
    with serving(tmp_path / "a") as served:
        con = served.connect()
        con.execute("BEGIN")
        assert served.end(signal.SIGINT) == 0
        with pytest.raises(psycopg.errors.AdminShutdown):
            con.execute("SELECT 1")
    assert not list((tmp_path / "a").glob(".s.PGSQL*"))


def test_one_server_for_a_catalog_and_a_killed_one_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        with pytest.raises(AssertionError, match="already exists"), serving(tmp_path):
            pass
        served.process.kill()
        served.process.wait()
    with serving(tmp_path) as served:
        assert served.ask("SELECT 1") == [(1,)]
