"""What goes wrong between a server and pgrepl: kills of pgrepl, restarts of the server, slots that somebody touched.
Afterwards each transaction has been applied once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pgrepl.catalog.store.store import update
from pgrepl.catalog.store.tables import pgrepl_publisher
from pgrepl.replication.conninfo import ConnectionFailure, parse_conninfo
from pgrepl.replication.publisher.postgres import slots
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.publisher import PostgresPublisher, to_server
from pgrepl.replication.publisher.protocol import PublisherError
from tests.harness.forked import pgrepl
from tests.harness.programs import PATIENCE, eventually, started
from tests.postgres.served import PublishingServer, Served
from tests.postgres.server import wheel_binaries

COPYING = ("copy.begun", "copy.slot", "copy.received", "copy.written", "copy.committed")
APPLYING = ("apply.received", "apply.settled", "apply.committed")
ON_ONE = pytest.mark.parametrize("publishing", [18], indirect=True)  # what takes long, and depends on no version
# rows have no key: what is applied twice is there twice
T = "CREATE TABLE t (a int, b text); ALTER TABLE t REPLICA IDENTITY FULL"
NO_SENDER = (
    "permission denied to start WAL sender\n"
    "DETAIL:  Only roles with the REPLICATION attribute may start a WAL sender process."
)
ALL_T = "SELECT * FROM t ORDER BY a, b"


def command(served: Served, *options: str) -> tuple[str, ...]:
    return ("apply", "--catalog", str(served.folder / "catalog.db"), "-d", "sub", *options)


def apply(served: Served, kill_at: str = "") -> int:
    return pgrepl(*command(served), PGREPL_KILL_AT=kill_at).returncode


@contextmanager
def following(served: Served, interval: float = 0.05) -> Iterator[subprocess.Popen[str]]:
    served.sub("ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'")  # what failed is tried again soon
    nowhere = subprocess.DEVNULL
    with started(*command(served, "--follow", "--interval", str(interval)), stdout=nowhere, stderr=nowhere) as process:
        yield process


def eventually_same(served: Served, query: str) -> None:
    eventually(lambda: served.pub(query) == served.sub(query))


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(("copy.written", "apply.settled"), id="some"),
        pytest.param((*COPYING, *APPLYING), id="all", marks=pytest.mark.slow),
    ],
)
@ON_ONE
def test_killed_at_each_step(served: Served, steps: tuple[str, ...]) -> None:
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.pub("INSERT INTO t SELECT g, 'first' FROM generate_series(1, 20) g")
    served.subscribe_only()
    for number, name in enumerate(steps):
        served.pub(f"INSERT INTO t VALUES ({100 + number}, '{name}')")
        assert apply(served, name) == -signal.SIGKILL, name
        served.pub(f"UPDATE t SET b = 'changed' WHERE a = {number + 1}")
    assert apply(served) == 0
    assert len(served.same(ALL_T)) == 20 + len(steps)
    left = f"SELECT slot_name FROM pg_replication_slots WHERE database = '{served.database}'"
    assert served.pub(left) == [(served.slot,)]


@ON_ONE
def test_following_survives_a_restart_and_a_lost_connection(served: Served) -> None:
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.pub("INSERT INTO t VALUES (1, 'before')")
    served.subscribe_only()
    with following(served):
        eventually_same(served, ALL_T)
        for number, mode in enumerate(("immediate", "fast")):
            served.pub(f"INSERT INTO t SELECT g, 'more' FROM generate_series({number * 10 + 2}, {number * 10 + 9}) g")
            served.link.close()
            served.publishing.restart(mode)
            served.pub(f"DELETE FROM t WHERE a = {number * 10 + 3}; INSERT INTO t VALUES ({number}, 'after')")
            eventually_same(served, ALL_T)
        served.pub("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        served.pub("INSERT INTO t VALUES (99, 'again')")
        eventually_same(served, ALL_T)


def test_a_slot_that_somebody_else_has_read_from_stops_the_subscription(served: Served) -> None:
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.pub("INSERT INTO t VALUES (1, 'lost')")
    served.pub(f"SELECT pg_replication_slot_advance('{served.slot}', pg_current_wal_flush_lsn())")
    served.pub("INSERT INTO t VALUES (2, 'not before')")
    ((message, _, _),) = served.catch_up()
    assert message.startswith(f'could not start WAL streaming: ERROR:  replication slot "{served.slot}" stands at 0/')
    assert "the changes in between are lost" in message
    assert served.sub(ALL_T) == []
    position = served.pub(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{served.slot}'")
    origin = served.sub("SELECT roname FROM pg_replication_origin")
    served.sub("ALTER SUBSCRIPTION s DISABLE")
    served.sub(f"SELECT pg_replication_origin_advance('{origin[0][0]}', '{position[0][0]}')")
    served.sub("ALTER SUBSCRIPTION s ENABLE")
    assert served.catch_up() == []
    assert served.sub(ALL_T) == [("2", "not before")]


@contextmanager
def hung(served: Served) -> Iterator[None]:
    """The server is there, takes connections and says nothing."""
    pids = [int(row[0] or 0) for row in served.pub("SELECT pid FROM pg_stat_activity")]
    pids.insert(0, int((served.publishing.server.folder / "data" / "postmaster.pid").read_text().split()[0]))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
@ON_ONE
def test_a_server_that_hangs_is_not_waited_for(served: Served) -> None:
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.sub("ALTER SYSTEM SET wal_receiver_timeout = '500ms'")
    options = parse_conninfo(served.conninfo)
    link = Link(options, "test", patience=0.3)
    assert link.value("SELECT pg_sleep(1)::text || 'silent, but there'") == "silent, but there"
    publisher = PostgresPublisher(link, "")
    with hung(served):
        with pytest.raises(PublisherError, match="terminating logical replication worker due to timeout") as caught:
            publisher.stream.current_lsn()
        assert (caught.value.sqlstate, publisher.is_open) == ("08006", False)
        publisher.close()
        with pytest.raises(ConnectionFailure, match="failed: timeout expired"):
            to_server(options, "", 0.3)
        done = pgrepl(*command(served))
        assert "could not connect to the publisher: " in done.stderr and "timeout expired" in done.stderr
    served.pub("INSERT INTO t VALUES (1, 'awake')")
    assert served.catch_up() == []
    assert served.same(ALL_T) == [("1", "awake")]


def test_another_server_is_not_followed_but_a_promoted_standby_is(tmp_path: Path) -> None:
    """Both have the slot, and logs that are as far on."""
    first, other = PublishingServer(18), PublishingServer(18)
    try:
        served = Served(first, tmp_path)
        served.both(T)
        served.pub("CREATE PUBLICATION p FOR TABLE t")
        served.subscribe()
        served.pub("INSERT INTO t VALUES (1, 'before')")
        assert served.catch_up() == []
        with psycopg.connect(other.conninfo(other.new_database()), autocommit=True) as there:
            there.execute(T.encode())
            there.execute("CREATE PUBLICATION p FOR TABLE t")
            there.execute(f"SELECT pg_create_logical_replication_slot('{served.slot}', 'pgoutput')".encode())
            there.execute("SELECT pg_switch_wal()")
            there.execute("INSERT INTO t VALUES (2, 'another')")
        served.sub(f"ALTER SUBSCRIPTION s CONNECTION '{other.conninfo('pub1')}'")
        ((message, detail, _),) = served.catch_up()
        assert message == 'the publisher of subscription "s" is another server than before'
        identifiers = [made.system_identifier() for made in (other, first)]
        assert detail == (
            f"The server's identifier is {identifiers[0]}, that of the server whose changes are applied here is "
            f"{identifiers[1]}."
        )
        assert served.sub(ALL_T) == [("1", "before")]
        served.link.close()
        other.take_over_from(first)
        assert other.system_identifier() == identifiers[1]
        with psycopg.connect(other.conninfo(served.database), autocommit=True) as there:
            there.execute("INSERT INTO t VALUES (3, 'promoted')")
        served.sub(f"ALTER SUBSCRIPTION s CONNECTION '{other.conninfo(served.database)}'")
        assert served.catch_up() == []
        assert served.sub(ALL_T) == [("1", "before"), ("3", "promoted")]
        served.sub("DROP SUBSCRIPTION s")
        assert served.sub("SELECT count(*) FROM pg_subscription") == [("0",)]
        served.close()
    finally:
        first.server.stop()
        other.server.stop()


def test_a_slot_named_anew_is_believed(served: Served) -> None:
    """As after pg_upgrade, which gives the server another identifier."""
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    transaction = served.sub.session.transaction
    transaction.begin_statement(writes=True)
    update(served.sub.session, pgrepl_publisher, {}, system_identifier="4711")
    transaction.end_statement()
    served.pub("INSERT INTO t VALUES (1, 'upgraded')")
    served.sub(f"ALTER SUBSCRIPTION s CONNECTION '{served.conninfo} application_name=again'")
    ((message, detail, _),) = served.catch_up()
    assert message == 'the publisher of subscription "s" is another server than before'
    assert detail is not None and detail.endswith(" 4711.")
    served.sub(f"ALTER SUBSCRIPTION s SET (slot_name = '{served.slot}')")
    assert served.catch_up() == []
    assert served.same(ALL_T) == [("1", "upgraded")]


def test_a_slot_that_went_back_gives_nothing_twice(served: Served) -> None:
    """As after a crash of the server, which writes the position down only now and then."""
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    copy = f"copy_{served.database}"
    served.pub(f"SELECT pg_copy_logical_replication_slot('{served.slot}', '{copy}')")
    served.pub("INSERT INTO t VALUES (1, 'once')")
    assert served.catch_up() == []
    served.pub(f"SELECT pg_drop_replication_slot('{served.slot}')")
    served.pub(f"SELECT pg_copy_logical_replication_slot('{copy}', '{served.slot}')")
    served.pub(f"SELECT pg_drop_replication_slot('{copy}')")
    served.pub("INSERT INTO t VALUES (2, 'once')")
    assert served.catch_up() == []
    assert served.same(ALL_T) == [("1", "once"), ("2", "once")]


def test_slots_that_are_gone_or_in_use(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_PATIENCE", 0.1)
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.pub("INSERT INTO t VALUES (1, 'x')")
    with psycopg.connect(f"{served.conninfo} replication=database", autocommit=True) as reader:
        reader.pgconn.send_query(
            f"START_REPLICATION SLOT {served.slot} LOGICAL 0/0 (proto_version '1', publication_names 'p')".encode()
        )
        active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{served.slot}'"
        eventually(lambda: served.pub(active) == [("t",)])
        ((message, _, _),) = served.catch_up()
        assert message.startswith(
            f'could not start WAL streaming: ERROR:  replication slot "{served.slot}" is active for PID '
        )
        reader.pgconn.finish()
    eventually(lambda: served.pub(active) == [("f",)])
    assert served.catch_up() == []
    served.pub(f"SELECT pg_drop_replication_slot('{served.slot}')")
    ((message, _, _),) = served.catch_up()
    assert message == f'could not start WAL streaming: ERROR:  replication slot "{served.slot}" does not exist'
    served.sub("ALTER SUBSCRIPTION s DISABLE")
    served.sub("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    served.sub("DROP SUBSCRIPTION s")


def test_what_create_subscription_meets_at_a_server(served: Served) -> None:
    served.both("CREATE TABLE t (a int PRIMARY KEY)")
    served.pub("CREATE TABLE there (a int); CREATE PUBLICATION p FOR TABLE t; CREATE PUBLICATION q FOR TABLE there")
    served.pub(f"CREATE ROLE plain_{served.database} LOGIN PASSWORD 'secret'")
    conninfo = served.conninfo

    def refused(text: str) -> str:
        with pytest.raises(Exception) as caught:
            served.sub(text)
        return str(caught.value).replace(served.publishing.server.host, "HOST")

    there = f'connection to server on socket "HOST/.s.PGSQL.{served.publishing.server.port}" failed: FATAL:  '
    assert refused(f"CREATE SUBSCRIPTION s CONNECTION '{conninfo} dbname=nosuch' PUBLICATION p") == (
        f'could not connect to the publisher: {there}database "nosuch" does not exist'
    )
    assert refused(f"CREATE SUBSCRIPTION s CONNECTION '{conninfo} user=plain_{served.database}' PUBLICATION p") == (
        f"could not connect to the publisher: {there}"
        + (NO_SENDER if served.publishing.version >= 16 else "must be superuser or replication role to start walsender")
    )
    assert refused(f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION q") == (
        'relation "public.there" does not exist'
    )
    served.pub(f"SELECT pg_create_logical_replication_slot('{served.slot}', 'pgoutput')")
    assert refused(f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p WITH (slot_name = {served.slot})") == (
        f'could not create replication slot "{served.slot}": ERROR:  replication slot "{served.slot}" already exists'
    )
    served.sub.notices.clear()
    served.sub(
        f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p, nosuch "
        f"WITH (slot_name = {served.slot}, create_slot = false)"
    )
    assert served.sub.notices == ['publication "nosuch" does not exist on the publisher']
    served.sub("CREATE ROLE alice LOGIN")
    served.sub("GRANT pg_create_subscription TO alice")
    served.sub("GRANT CREATE ON DATABASE sub TO alice")
    served.sub("SET ROLE alice")
    assert refused(f"CREATE SUBSCRIPTION mine CONNECTION '{conninfo} password=any' PUBLICATION p") == (
        "password is required"
    )  # which the server does not ask for
    served.sub("RESET ROLE")


def test_a_server_without_logical_decoding(tmp_path: Path) -> None:
    publishing = PublishingServer(16)
    try:
        served = Served(publishing, tmp_path)
        served.pub("ALTER SYSTEM SET wal_level = replica")
        served.link.close()
        publishing.restart("fast")
        served.both("CREATE TABLE t (a int)")
        served.pub("CREATE PUBLICATION p FOR TABLE t")
        with pytest.raises(Exception, match=r'logical decoding requires "?wal_level"? >= "?logical'):
            served.subscribe_only()
        assert served.sub("SELECT count(*) FROM pg_subscription") == [("0",)]
        served.close()
    finally:
        publishing.server.stop()


@pytest.mark.slow
@ON_ONE
def test_pgbench_with_a_filter_and_a_column_list_ends_as_at_postgresqls_own_subscriber(served: Served) -> None:
    served.publishing.needs(15)
    bench = str(wheel_binaries(16) / "pgbench")
    server = served.publishing.server
    where = ["-h", server.host, "-p", str(server.port), "-U", "postgres", served.database]
    subprocess.run([bench, "-i", "-q", "-s", "1", *where], check=True, capture_output=True)
    publish = (
        "CREATE PUBLICATION p FOR TABLE pgbench_accounts (aid, abalance) WHERE (aid % 3 = 0), "
        "pgbench_branches, pgbench_tellers (tid, tbalance)"
    )
    served.pub("ALTER TABLE pgbench_history REPLICA IDENTITY FULL")
    served.pub(publish)
    tables = (
        "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, abalance int);"
        "CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));"
        "CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, tbalance int)"
    )
    own = PublishingServer(served.publishing.version)
    try:
        database = own.new_database()
        with psycopg.connect(own.conninfo(database), autocommit=True) as other:
            other.execute("ALTER SYSTEM SET max_logical_replication_workers = 4")
            other.close()
            own.restart("fast")
        with psycopg.connect(own.conninfo(database), autocommit=True) as other:
            other.execute(tables.encode())
            other.execute(
                f"CREATE SUBSCRIPTION own_{served.database} CONNECTION '{served.conninfo}' PUBLICATION p".encode()
            )
            served.sub(tables)
            served.subscribe_only()
            with following(served):
                subprocess.run([bench, "-n", "-c", "2", "-T", "3", *where], check=True, capture_output=True)
                for table in ("pgbench_accounts", "pgbench_branches", "pgbench_tellers"):
                    value = f"{table.removeprefix('pgbench_')[0]}balance"
                    query = f"SELECT count(*), sum({value}), sum({value} * {value}::bigint) FROM {table}"
                    condition = " WHERE aid % 3 = 0" if "accounts" in table else ""
                    wanted = served.pub(query + condition)
                    until = time.monotonic() + PATIENCE
                    while True:
                        here, there = served.sub(query), other.execute(query.encode()).fetchall()
                        texts = [tuple([str(part) for part in row]) for row in there]
                        if here == wanted == texts:
                            break
                        assert time.monotonic() < until, (table, wanted, here, texts)
                        time.sleep(0.1)
            other.execute(f"DROP SUBSCRIPTION own_{served.database}".encode())
    finally:
        own.server.stop()
