"""/metrics and /healthz tell how a server is, whatever its clients and its catalog do."""

from __future__ import annotations

import re
import signal
import socket
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.server import http, monitoring
from pgrepl.server.metrics import Family, text
from pgrepl.server.settings import ServerState
from tests.harness.programs import eventually
from tests.harness.serving import Serving, serving
from tests.postgres.server import free_port

SAMPLE = re.compile(r'([a-z_]+)(\{(?:[a-z_]+="(?:[^"\\]|\\["\\n])*",?)*\})? (-?[0-9.e+]+)')


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def samples(page: str) -> dict[str, float]:
    """The samples of a page, each behind the HELP and TYPE of its metric."""
    found: dict[str, float] = {}
    told: list[str] = []
    for line in page.splitlines():
        if line.startswith("#"):
            told.append(" ".join(line.split(" ")[1:3]))
            continue
        matched = SAMPLE.fullmatch(line)
        assert matched is not None, line
        assert told[-2:] == [f"HELP {matched[1]}", f"TYPE {matched[1]}"]
        name = matched[1] + (matched[2] or "")
        assert name not in found
        found[name] = float(matched[3])
    return found


@pytest.fixture(scope="module")
def metrics() -> int:
    return free_port()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, metrics: int) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served"), "--metrics", str(metrics)) as found:
        found.ask("CREATE DATABASE source")
        with found.connect(dbname="source") as con:
            con.execute("CREATE TABLE t (a int PRIMARY KEY)")
            con.execute("CREATE PUBLICATION p FOR TABLE t")
        found.ask("CREATE TABLE t (a int PRIMARY KEY)")
        found.ask("CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=source password=secret' PUBLICATION p")
        found.ask("SELECT pg_create_logical_replication_slot('waits', 'test_decoding')")
        yield found


def test_what_a_page_consists_of() -> None:
    family = Family("pgrepl_x_total", "A \\ and\nmore.")
    family.add(1, name='a "b"\n\\')
    family.add(2.5, name="")
    family.add(None, name="unknown")
    assert text([family, Family("pgrepl_y", "Without a sample.")]) == (
        "# HELP pgrepl_x_total A \\\\ and\\nmore.\n# TYPE pgrepl_x_total counter\n"
        'pgrepl_x_total{name="a \\"b\\"\\n\\\\"} 1\npgrepl_x_total{name=""} 2.5\n'
    )


def test_the_lag_of_subscriptions_and_slots(served: Serving, metrics: int) -> None:
    with served.connect(dbname="source") as con:
        con.execute("INSERT INTO t SELECT generate_series(1, 5)")
    names = '{database="postgres",subscription="s"}'
    eventually(lambda: samples(get(metrics, "/metrics")[1]).get(f"pgrepl_subscription_lag_rows{names}") == 0)
    eventually(lambda: samples(get(metrics, "/metrics")[1]).get(f"pgrepl_subscription_changes_total{names}", 0) >= 5)
    served.ask("ALTER SUBSCRIPTION s DISABLE")
    eventually(lambda: served.ask("SELECT pid FROM pg_stat_subscription WHERE subname = 's'") == [(None,)])
    with served.connect(dbname="source") as con:
        con.execute("INSERT INTO t VALUES (6), (7)")
    pages: list[str] = []

    def both_parts_are_new() -> bool:
        """The catalog and the publishers are asked by threads of their own: one part of a page may be the older."""
        pages.append(get(metrics, "/metrics")[1])
        found = samples(pages[-1])
        return (
            found[f"pgrepl_subscription_enabled{names}"] == 0
            and found['pgrepl_lake_rows{state="live"}'] == 12
            and found.get(f"pgrepl_subscription_lag_rows{names}") == 2
        )

    eventually(both_parts_are_new)
    page = pages[-1]
    found = samples(page)
    assert "secret" not in page
    assert found[f"pgrepl_subscription_lag_transactions{names}"] == 1
    assert found[f"pgrepl_subscription_lag_seconds{names}"] > 0
    assert found['pgrepl_subscription_tables{database="postgres",subscription="s",state="ready"}'] == 1
    assert found['pgrepl_replication_slot_lag_bytes{slot_name="waits",database="postgres"}'] > 0
    assert found['pgrepl_replication_slot_lag_seconds{slot_name="waits",database="postgres"}'] > 0
    assert found['pgrepl_replication_slot_retained_snapshots{slot_name="waits",database="postgres"}'] > 0
    assert found['pgrepl_replication_slot_retained_bytes{slot_name="waits",database="postgres"}'] == 0
    assert found["pgrepl_up"] == 1


def test_a_conflict_is_counted(served: Serving, metrics: int) -> None:
    served.ask("CREATE TABLE c (a int PRIMARY KEY)")
    with served.connect(dbname="source") as con:
        con.execute("CREATE TABLE c (a int PRIMARY KEY)")
        con.execute("CREATE PUBLICATION of_c FOR TABLE c")
    served.ask("CREATE SUBSCRIPTION conflicts CONNECTION 'host=localhost dbname=source' PUBLICATION of_c")
    eventually(lambda: served.ask("SELECT every(srsubstate = 'r') FROM pg_subscription_rel") == [(True,)])
    served.ask("INSERT INTO c VALUES (1)")
    with served.connect(dbname="source") as con:
        con.execute("INSERT INTO c VALUES (1)")
    name = 'pgrepl_subscription_conflicts_total{database="postgres",subscription="conflicts",type="insert_exists"}'
    eventually(lambda: samples(get(metrics, "/metrics")[1]).get(name, 0) >= 1)
    served.ask("DELETE FROM c")


def test_sessions_by_their_state(served: Serving, metrics: int) -> None:
    with served.connect() as con:
        con.execute("BEGIN")
        name = 'pgrepl_sessions{state="idle in transaction"}'
        eventually(lambda: samples(get(metrics, "/metrics")[1])[name] == 1)


def test_no_client_keeps_another_from_its_answer(served: Serving, metrics: int) -> None:
    many = [socket.create_connection(("127.0.0.1", metrics)) for _ in range(3 * http.MOST)]
    many[-1].sendall(b"GET /metrics HTT")
    try:
        assert get(metrics, "/healthz") == (200, "ok\n")
    finally:
        for each in many:
            each.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nothing HTTP/1.1", 404), (b"POST /metrics HTTP/1.1", 405), (b"\x16\x03\x01", 400),
        (b"GET /healthz HTTP/1.0", 200), (b"HEAD /healthz?x HTTP/1.1", 200), (b"x" * 10_000, 431),
    ],
)  # fmt: skip
def test_what_is_no_request(served: Serving, metrics: int, request_line: bytes, status: int) -> None:
    with socket.create_connection(("127.0.0.1", metrics)) as con:
        con.sendall(request_line + (b"" if status == 431 else b"\r\n\r\n"))
        assert con.recv(12) == f"HTTP/1.1 {status}".encode()


def test_a_locked_catalog_keeps_no_answer_back(served: Serving, metrics: int) -> None:
    get(metrics, "/metrics")
    with closing(sqlite3.connect(served.folder / "catalog.db", isolation_level=None)) as link:
        link.execute("BEGIN EXCLUSIVE")
        assert "pgrepl_lake_rows" in get(metrics, "/metrics")[1]
        assert get(metrics, "/healthz") == (200, "ok\n")


@pytest.mark.slow
def test_a_server_that_ends_is_not_healthy(tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path, "-c", f"pgrepl.metrics_listen=127.0.0.1:{port}") as served:
        with served.connect() as con:
            served.process.send_signal(signal.SIGTERM)
            eventually(lambda: get(port, "/healthz") == (503, "stopping\n"))
            assert samples(get(port, "/metrics")[1])["pgrepl_up"] == 0
            assert con.execute("SELECT 1").fetchall() == [(1,)]
        assert served.process.wait(60) == 0
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port))


def test_a_server_that_loads_is_not_healthy_yet() -> None:
    listening = http.listen(("127.0.0.1", 0), "statistics")
    port = listening.getsockname()[1]
    with monitoring.while_starting(listening, ServerState()):
        assert get(port, "/healthz") == (503, "starting\n")
        assert get(port, "/metrics") == (503, "starting\n")
    listening.close()
