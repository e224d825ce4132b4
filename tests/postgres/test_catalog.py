"""A catalog in a PostgreSQL database: `--catalog postgresql://…`, shared by several machines."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading, statement
from pgrepl.catalog.store.connection import FORMAT_VERSION, Catalog
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.catalog.store.store import rows, update
from pgrepl.catalog.store.tables import pg_subscription, pgrepl_worker
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.launcher import Launcher
from pgrepl.replication.subscriber.status import subscription_status
from pgrepl.replication.subscriber.worker import Worker
from pgrepl.statements.run import run
from tests.harness.database import HeardLog, identifiers_seen
from tests.harness.programs import PATIENCE, eventually
from tests.postgres.play import Pair


@pytest.fixture
def url(pair16: Pair) -> Iterator[str]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    server = pair16.publisher
    pair16.ask(server, "postgres", "CREATE DATABASE shared;\n", "-q")
    yield f"postgresql://postgres@/shared?host={server.host}&port={server.port}"
    pair16.ask(server, "postgres", "DROP DATABASE shared WITH (FORCE);\n", "-q")


@pytest.fixture
def catalog(url: str, tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(url, data_path=str(tmp_path))
    yield opened
    opened.close()


def play(session: Session, *texts: str) -> list[object]:
    answers: list[object] = []
    for text in texts:
        try:
            for result in run(session, text):
                answers.append(list(result.rows) if result.columns else result.tag)
        except PgError as error:
            answers.append(error.message)
    return answers


SCHEMAS = "SELECT nspname FROM pg_namespace WHERE oid >= 16384 ORDER BY 1"


def test_statements_transactions_and_savepoints(catalog: Catalog) -> None:
    session = open_session(catalog)
    assert play(
        session,
        "CREATE SCHEMA a",
        "CREATE SCHEMA a",
        "BEGIN",
        "CREATE SCHEMA b",
        "SAVEPOINT s",
        "CREATE SCHEMA c",
        "CREATE SCHEMA c",
        "ROLLBACK TO s",
        "CREATE ROLE reader",
        "COMMIT",
        "CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x')",
        "CREATE PUBLICATION p FOR TABLE t WHERE (a > 5)",
        "GRANT SELECT ON t TO reader",
        "SELECT relacl FROM pg_class WHERE relname = 't'",
        "SELECT rowfilter FROM pg_publication_tables",
        SCHEMAS,
        "DROP TABLE t",
    ) == [
        "CREATE SCHEMA",
        'schema "a" already exists',
        "BEGIN",
        "CREATE SCHEMA",
        "SAVEPOINT",
        "CREATE SCHEMA",
        'schema "c" already exists',
        "ROLLBACK",
        "CREATE ROLE",
        "COMMIT",
        "CREATE TABLE",
        "CREATE PUBLICATION",
        "GRANT",
        [("{postgres=arwdDxtm/postgres,reader=r/postgres}",)],
        [("(a > 5)",)],
        [("a",), ("b",)],
        "DROP TABLE",
    ]
    session.close()


def test_sessions_see_each_other_and_take_turns(catalog: Catalog) -> None:
    first, second = open_session(catalog), open_session(catalog)
    assert play(second, SCHEMAS) == [[]]
    play(first, "CREATE SCHEMA a")
    assert play(second, SCHEMAS) == [[("a",)]]
    play(first, "BEGIN", "CREATE SCHEMA b")
    assert play(second, SCHEMAS) == [[("a",)]]
    waiting = threading.Thread(target=play, args=(second, "CREATE SCHEMA c"))
    waiting.start()
    waits = "SELECT 1 FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND NOT granted"
    eventually(lambda: first.link.execute(waits))
    play(first, "CREATE SCHEMA d", "COMMIT")
    waiting.join(PATIENCE)
    assert play(first, SCHEMAS) == play(second, SCHEMAS) == [[("a",), ("b",), ("c",), ("d",)]]
    first.close()
    second.close()


def test_who_waits_too_long_is_told_so(catalog: Catalog) -> None:
    first, second = open_session(catalog), open_session(catalog)
    play(first, "BEGIN", "CREATE SCHEMA a")
    answer = play(second, "SET lock_timeout = '100ms'", "CREATE SCHEMA b")
    assert answer == ["SET", f'could not lock catalog "{catalog.name}" within 0.1 s']
    first.close()
    second.close()


def test_a_block_with_one_snapshot_cannot_write_over_what_came_after(catalog: Catalog) -> None:
    """As in PostgreSQL, what others have defined is in nobody's way; rows that they have changed are."""
    first, second = open_session(catalog), open_session(catalog)
    play(first, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    play(first, "BEGIN ISOLATION LEVEL REPEATABLE READ", SCHEMAS)
    play(second, "CREATE SCHEMA b")
    assert play(first, "CREATE SCHEMA a", "COMMIT") == ["CREATE SCHEMA", "COMMIT"]
    play(first, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM t")
    play(second, "UPDATE t SET a = 2")
    assert play(first, "UPDATE t SET a = a + 10", "COMMIT") == [
        "could not serialize access due to concurrent update",
        "ROLLBACK",
    ]
    assert play(first, "SELECT * FROM t") == [[("2",)]]
    first.close()
    second.close()


def test_all_who_come_first_at_once_find_one_catalog(url: str, tmp_path: Path) -> None:
    assert len(set(identifiers_seen(lambda: open_catalog(url, data_path=str(tmp_path)), visitors=4))) == 1


def test_a_schema_of_that_name_that_is_not_ours_is_left_alone(url: str, pair16: Pair) -> None:
    pair16.ask(pair16.publisher, "shared", "CREATE SCHEMA pgrepl CREATE TABLE mine (a int);\n", "-q")
    with pytest.raises(PgError) as caught:
        open_catalog(url)
    assert caught.value.report.severity == "FATAL"
    assert caught.value.message.endswith('has a schema "pgrepl" that is not a pgrepl catalog')
    listed = pair16.ask(
        pair16.publisher, "shared", "SELECT relname FROM pg_class WHERE relnamespace = 'pgrepl'::regnamespace;\n", "-At"
    )
    assert listed == "mine\n"


def test_a_newer_catalog_is_refused(catalog: Catalog, url: str, pair16: Pair) -> None:
    pair16.ask(
        pair16.publisher, "shared", f"UPDATE pgrepl.pgrepl_instance SET format_version = {FORMAT_VERSION + 1};\n", "-q"
    )
    with pytest.raises(PgError, match=f"was made by a newer pgrepl: it has format {FORMAT_VERSION + 1}"):
        open_catalog(url)


def test_a_new_catalog_must_be_told_where_its_data_are(url: str) -> None:
    with pytest.raises(PgError) as caught:
        open_catalog(url)
    assert caught.value.report.severity == "FATAL"
    assert caught.value.message.endswith(" needs a place for the data of its tables")
    assert caught.value.report.hint is not None
    assert "--data-path" in caught.value.report.hint


def test_tables_and_their_rows(catalog: Catalog, tmp_path: Path) -> None:
    session = open_session(catalog, settings={"pgrepl.engine": "local"})
    assert play(
        session,
        "CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x', c int[], d uuid, e bool, f timestamptz)",
        "INSERT INTO t VALUES (1, 'one', '{1,2}', '550e8400-e29b-41d4-a716-446655440000', true, 'epoch'),"
        " (2, NULL, NULL, NULL, NULL, NULL)",
        "UPDATE t SET b = 'uno' WHERE a = 1",
        "ALTER TABLE t RENAME c TO list",
        "ALTER TABLE t ALTER a TYPE bigint, ADD g int DEFAULT 7",
        "INSERT INTO t (a) VALUES (3)",
        "DELETE FROM t WHERE a = 2",
        "SELECT a, b, list, d, e, g FROM t ORDER BY a",
    ) == [
        "CREATE TABLE",
        "INSERT 0 2",
        "UPDATE 1",
        "ALTER TABLE",
        "ALTER TABLE",
        "INSERT 0 1",
        "DELETE 1",
        [("1", "uno", "{1,2}", "550e8400-e29b-41d4-a716-446655440000", "t", "7"), ("3", "x", None, None, None, "7")],
    ]
    session.close()
    assert any((tmp_path / "postgres" / "t").glob("*.parquet"))


def test_what_others_define_there_is_adopted(catalog: Catalog, url: str, pair16: Pair) -> None:
    session = open_session(catalog)
    assert play(session, "SELECT relname FROM pg_class WHERE oid >= 16384") == [[]]
    made = pair16.ask(
        pair16.publisher,
        "shared",
        """BEGIN;
        SET search_path = pgrepl;
        INSERT INTO ducklake_snapshot SELECT snapshot_id + 1, now(), schema_version + 1, next_catalog_id + 1,
          next_file_id FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1;
        INSERT INTO ducklake_snapshot_changes SELECT max(snapshot_id), 'created_table:"postgres"."theirs"'
          FROM ducklake_snapshot;
        INSERT INTO ducklake_table (table_id, table_uuid, begin_snapshot, schema_id, table_name, path, path_is_relative)
          SELECT next_catalog_id - 1, gen_random_uuid(), snapshot_id, 1, 'theirs', 'theirs/', true
          FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1;
        INSERT INTO ducklake_column (column_id, begin_snapshot, table_id, column_order, column_name, column_type,
          nulls_allowed, default_value, default_value_type)
          SELECT 1, begin_snapshot, table_id, 1, 'a', 'int32', true, '5', 'literal' FROM ducklake_table;
        COMMIT;
        """,
        "-q",
    )
    assert made == ""
    assert play(session, "INSERT INTO theirs DEFAULT VALUES", "SELECT * FROM theirs") == ["INSERT 0 1", [("5",)]]
    session.close()


# --- replication ------------------------------------------------------------------------------------------------------


@pytest.fixture
def subscribed(catalog: Catalog) -> Iterator[tuple[Session, Session]]:
    """A publisher and a subscriber of two subscriptions, which have copied nothing yet."""
    made = open_session(catalog)
    play(made, "CREATE DATABASE pub", "CREATE DATABASE sub")
    made.close()
    pub, sub = open_session(catalog, "pub"), open_session(catalog, "sub")
    for name in "tu":
        for session in (pub, sub):
            play(session, f"CREATE TABLE {name} (a int PRIMARY KEY, b text)")
        play(pub, f"INSERT INTO {name} VALUES (1, 'copied')", f"CREATE PUBLICATION p{name} FOR TABLE {name}")
        create = f"CREATE SUBSCRIPTION s{name} CONNECTION 'host=localhost dbname=pub' PUBLICATION p{name}"
        assert play(sub, create) == ["CREATE SUBSCRIPTION"]
    yield pub, sub
    pub.close()
    sub.close()


BOTH = "SELECT * FROM t UNION ALL SELECT * FROM u ORDER BY 1, 2"


def test_workers_copy_and_apply_one_at_a_time(catalog: Catalog, subscribed: tuple[Session, Session]) -> None:
    pub, sub = subscribed
    log = HeardLog()
    subid = int(str(play(sub, "SELECT oid FROM pg_subscription WHERE subname = 'st'")[0][0][0]))  # type: ignore[index]
    holder, other = Worker(sub, subid, log, keeps_lease=True), Worker(sub, subid, log)
    assert holder.round().tables_copied == ["t"]
    play(
        pub, "INSERT INTO t VALUES (2, 'applied')", "UPDATE t SET b = 'changed' WHERE a = 1", "INSERT INTO u VALUES (2)"
    )
    error = other.round().error
    assert error is not None
    assert (error.sqlstate, error.message.partition(" is active")[0]) == (
        "08P01",
        'could not start WAL streaming: ERROR:  replication slot "st"',
    )
    assert holder.round().transactions == 2
    assert play(sub, "SELECT * FROM t ORDER BY a") == [[("1", "changed"), ("2", "applied")]]
    assert [
        (status.name, status.pid, status.applied > 0) for status in subscription_status(sub, (), everywhere=True)
    ] == [("st", os.getpid(), True), ("su", None, False)]
    holder.close()
    play(pub, "DELETE FROM t WHERE a = 1")
    assert [other.round().transactions for _ in range(2)] == [1, 0]
    other.close()
    assert play(sub, "SELECT active FROM pg_replication_slots") == [[("f",), ("f",)]]


def test_a_heartbeat_is_no_change_of_the_catalog_and_everybody_sees_it(
    catalog: Catalog, subscribed: tuple[Session, Session]
) -> None:
    _pub, sub = subscribed
    subid = int(str(play(sub, "SELECT oid FROM pg_subscription WHERE subname = 'st'")[0][0][0]))  # type: ignore[index]
    holder = Worker(sub, subid, HeardLog(), keeps_lease=True)
    assert holder.round().error is None
    heart = holder.context.heartbeat
    assert heart is not None
    heart.stop()

    def seen() -> tuple[object, float]:
        with reading(sub):
            (row,) = rows(sub, pgrepl_worker)
            return sub.transaction.contents(), row.beat

    before, beat = seen()
    heart._beat()
    after, later = seen()
    assert after == before
    assert later > beat
    holder.close()


@pytest.mark.slow
def test_followers_go_on_until_they_are_stopped(catalog: Catalog, subscribed: tuple[Session, Session]) -> None:
    """Also where somebody else's transaction holds the lock that they wait for."""
    pub, sub = subscribed
    log, over = HeardLog(), threading.Event()
    own = open_session(catalog, "sub")
    launcher = Launcher(own, log, keeps_leases=True)
    following = threading.Thread(
        target=launcher.follow, args=(0.05, lambda _, worker: worker.round(), lambda _: over.is_set()), daemon=True
    )
    following.start()
    eventually(lambda: play(sub, BOTH) == [[("1", "copied"), ("1", "copied")]])
    play(pub, "INSERT INTO t VALUES (2, 'x')", "INSERT INTO u VALUES (2, 'y')")
    eventually(lambda: play(sub, BOTH) == [[("1", "copied"), ("1", "copied"), ("2", "x"), ("2", "y")]])
    play(pub, "BEGIN", "CREATE SCHEMA held")
    over.set()
    following.join(PATIENCE)
    launcher.close()
    play(pub, "COMMIT")
    own.close()
    assert log.errors == []


def test_followers_of_several_machines_share_subscriptions(
    catalog: Catalog, subscribed: tuple[Session, Session]
) -> None:
    """Each subscription has one worker. Who ends leaves its subscriptions to the others, and so does, after a minute,
    a machine that has not been heard of."""
    pub, sub = subscribed
    play(sub, "ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'")
    sessions = [open_session(catalog, "sub") for _ in range(2)]
    launchers = [Launcher(session, HeardLog(), keeps_leases=True) for session in sessions]
    over = [threading.Event(), threading.Event()]

    def follow(number: int) -> None:
        launchers[number].follow(0.05, lambda _, worker: worker.round(), lambda _: over[number].is_set())
        launchers[number].close()

    def holders() -> list[str]:
        with reading(sub):
            return [str(row.token) for row in rows(sub, pgrepl_worker) if not row.relid]

    with reading(sub):
        first = min(int(row.oid) for row in rows(sub, pg_subscription))
    with statement(sub, writes=True):
        lease.begin(sub, first, lease.APPLY, "a token of elsewhere")
        update(sub, pgrepl_worker, {"subid": first}, host="elsewhere", beat=lock_file.now())
    following = [threading.Thread(target=follow, args=(number,), daemon=True) for number in range(2)]
    for thread in following:
        thread.start()
    eventually(lambda: len(holders()) == 2)
    assert "a token of elsewhere" in holders()
    with statement(sub, writes=True):
        update(sub, pgrepl_worker, {"subid": first}, beat=lock_file.now() - lock_file.SILENCE - 1)
    eventually(lambda: play(sub, BOTH) == [[("1", "copied"), ("1", "copied")]])
    assert len(set(holders())) == 2
    over[0].set()
    following[0].join(PATIENCE)
    play(pub, "INSERT INTO t VALUES (2, 'x')", "INSERT INTO u VALUES (2, 'y')")
    eventually(lambda: play(sub, BOTH) == [[("1", "copied"), ("1", "copied"), ("2", "x"), ("2", "y")]])
    over[1].set()
    following[1].join(PATIENCE)
    for session in sessions:
        session.close()
