"""Real PostgreSQL servers subscribe to a lake, and PostgreSQL's own tools read its slots."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.harness.dose import dose
from tests.harness.programs import eventually
from tests.harness.serving import Serving, program, serving
from tests.postgres.server import Server, new_server

WORKERS = "max_logical_replication_workers = 8\nmax_worker_processes = 16\nwal_retrieve_retry_interval = 200\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("lake")) as found:
        yield found


@pytest.fixture(scope="module", params=dose([16, 18], 2))
def subscriber(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = new_server(request.param, WORKERS)
    yield server
    server.stop()


class Pair:
    """A database of the lake and one of a server, with the same name."""

    def __init__(self, served: Serving, server: Server, name: str) -> None:
        self.served, self.name = served, name
        served.ask(f"CREATE DATABASE {name}")
        self.lake = served.connect(dbname=name)
        where = f"host={server.host} port={server.port} user=postgres"
        with psycopg.connect(f"{where} dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        self.server: Any = psycopg.connect(f"{where} dbname={name}", autocommit=True)

    def subscribe(self, publications: str, options: str = "") -> None:
        where = f"host=127.0.0.1 port={self.served.port} user=postgres dbname={self.name}"
        self.server.execute(
            f"CREATE SUBSCRIPTION {self.name} CONNECTION '{where}' PUBLICATION {publications} {options}"
        )

    def arrives(self, query: str, wanted: list[tuple[Any, ...]]) -> None:
        eventually(lambda: self.server.execute(query).fetchall() == wanted, 60)

    def close(self) -> None:
        self.server.execute(f"DROP SUBSCRIPTION {self.name}")
        assert self.lake.execute("SELECT slot_name FROM pg_replication_slots").fetchall() == []
        self.server.close()
        self.lake.close()


@pytest.fixture
def pair(served: Serving, subscriber: Server, request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(
        served, subscriber, request.node.name.partition("[")[0][5:25] + str(subscriber.binaries.parent)[-2:].strip("al")
    )
    yield made
    made.close()


def test_copy_then_changes(pair: Pair) -> None:
    table = "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(5,2), d timestamptz)"
    pair.lake.execute(table)
    pair.server.execute(table)
    pair.lake.execute(
        "INSERT INTO t SELECT g, 'row ' || g, g / 10.0, '2026-05-04 12:00+02' FROM generate_series(1, 500) g"
    )
    pair.lake.execute("CREATE PUBLICATION p FOR TABLE t (a, b, d) WHERE (a <> 7)")
    pair.subscribe("p")
    pair.arrives("SELECT srsubstate FROM pg_subscription_rel", [("r",)])
    pair.arrives("SELECT count(*), max(b), count(c) FROM t", [(499, "row 99", 0)])
    pair.lake.execute("UPDATE t SET b = 'new' WHERE a = 5")
    with pair.lake.transaction():
        pair.lake.execute("DELETE FROM t WHERE a IN (7, 8)")
        pair.lake.execute("UPDATE t SET a = 7 WHERE a = 6")  # leaves the filter
        pair.lake.execute("INSERT INTO t VALUES (1000, NULL, 1, NULL)")
    pair.arrives("SELECT count(*), min(a), max(a) FROM t WHERE a > 5 AND a < 10 OR a = 1000", [(2, 9, 1000)])
    pair.lake.execute("TRUNCATE t")
    pair.arrives("SELECT count(*) FROM t", [(0,)])


@pytest.mark.slow
def test_conflict_and_skip(pair: Pair) -> None:
    for side in (pair.lake, pair.server):
        side.execute("CREATE TABLE t (a int PRIMARY KEY)")
    pair.lake.execute("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe("p", "WITH (disable_on_error = true, binary = true)")
    pair.arrives("SELECT srsubstate FROM pg_subscription_rel", [("r",)])
    pair.server.execute("INSERT INTO t VALUES (1)")
    pair.lake.execute("INSERT INTO t VALUES (1)")
    pair.arrives(f"SELECT subenabled FROM pg_subscription WHERE subname = '{pair.name}'", [(False,)])
    pair.server.execute("DELETE FROM t")
    pair.server.execute(f"ALTER SUBSCRIPTION {pair.name} ENABLE")
    pair.lake.execute("INSERT INTO t VALUES (2)")
    pair.arrives("SELECT a FROM t ORDER BY a", [(1,), (2,)])


def test_pg_recvlogical_reads_a_slot(served: Serving, tmp_path: Path) -> None:
    served.ask("CREATE TABLE heard (a int)")
    command = [program("pg_recvlogical"), "-h", str(served.folder), "-p", str(served.port), "-U", "postgres"]
    command += ["-d", "postgres", "--slot", "ear"]
    subprocess.run([*command, "--create-slot", "-P", "test_decoding"], check=True, cwd=tmp_path)
    with open(tmp_path / "out", "wb") as out, subprocess.Popen([*command, "--start", "-f", "-"], stdout=out) as process:
        served.ask("INSERT INTO heard VALUES (1), (2)")
        wanted = ["table public.heard: INSERT: a[integer]:1", "table public.heard: INSERT: a[integer]:2"]
        eventually(lambda: [each for each in (tmp_path / "out").read_text().splitlines() if "INSERT" in each] == wanted)
        assert served.ask("SELECT active FROM pg_replication_slots WHERE slot_name = 'ear'") == [(True,)]
        process.terminate()
    eventually(lambda: served.ask("SELECT active FROM pg_replication_slots WHERE slot_name = 'ear'") == [(False,)])
    subprocess.run([*command, "--drop-slot"], check=True, cwd=tmp_path)


def test_replication_commands(served: Serving) -> None:
    with served.connect(replication="database") as con:
        ((identifier, timeline, _, database),) = con.execute("IDENTIFY_SYSTEM").fetchall()
        assert (timeline, database) == (1, "postgres")
        assert served.ask("SELECT system_identifier FROM pg_control_system()") == [(int(identifier),)]
        assert con.execute("SHOW wal_level").fetchall() == [("logical",)]
        made = con.execute("CREATE_REPLICATION_SLOT \"tmp\" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')").fetchall()
        assert [row[0] for row in made] == ["tmp"]
        with pytest.raises(psycopg.errors.ObjectInUse):
            served.ask("SELECT pg_drop_replication_slot('tmp')")
        with pytest.raises(psycopg.errors.SyntaxError):
            con.execute("DROP_REPLICATION_SLOT")
        assert con.execute("SELECT 1").fetchall() == [(1,)]
    eventually(lambda: served.ask("SELECT * FROM pg_replication_slots") == [])


def test_two_that_subscribe_to_each_other_come_to_rest(pair: Pair) -> None:
    for at in (pair.lake, pair.server):
        at.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        at.execute("CREATE PUBLICATION p FOR TABLE t")
    options = "WITH (origin = none, copy_data = false)"
    pair.subscribe("p", options)
    there = f"host={pair.server.info.host} port={pair.server.info.port} user=postgres dbname={pair.name}"
    pair.lake.execute(f"CREATE SUBSCRIPTION s CONNECTION '{there}' PUBLICATION p {options}")
    try:
        pair.lake.execute("INSERT INTO t VALUES (1, 'lake')")
        pair.server.execute("INSERT INTO t VALUES (2, 'server')")
        everywhere = "SELECT * FROM t ORDER BY a"
        both = [(1, "lake"), (2, "server")]
        pair.arrives(everywhere, both)
        eventually(lambda: pair.lake.execute(everywhere).fetchall() == both)
        pair.lake.execute("UPDATE t SET b = 'of both' WHERE a = 2")
        pair.server.execute("DELETE FROM t WHERE a = 1")
        rest = [(2, "of both")]
        pair.arrives(everywhere, rest)
        eventually(lambda: pair.lake.execute(everywhere).fetchall() == rest)
        pair.server.execute("INSERT INTO t VALUES (3, 'last')")
        eventually(lambda: pair.lake.execute("SELECT count(*) FROM t").fetchall() == [(2,)])
        pair.arrives("SELECT count(*) FROM t", [(2,)])
        errors = "SELECT sum(apply_error_count + sync_error_count) FROM pg_stat_subscription_stats"
        assert pair.lake.execute(errors).fetchall() == pair.server.execute(errors).fetchall() == [(0,)]
    finally:
        pair.lake.execute("DROP SUBSCRIPTION s")
