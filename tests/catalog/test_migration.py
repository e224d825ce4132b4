"""A catalog of an older format is brought up when it is opened, and DuckLake learns of what it holds."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.facts.subscription import subscription_facts
from pgrepl.catalog.store import declarative
from pgrepl.catalog.store.connection import APPLICATION_ID, FORMAT_VERSION
from pgrepl.catalog.store.declarative import disagreeing
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.run import run
from tests.harness.older import without_format_9, without_format_11, without_format_14
from tests.harness.pair import Pair
from tests.lake import duck


@pytest.fixture
def old(path: Path) -> Path:
    """As format 1 left it: a table with an array column dropped, a partitioned table in a schema, a database shop."""
    script = Path(__file__).with_name("format1.sql").read_text("utf-8")
    with closing(sqlite3.connect(path)) as made:
        made.executescript(script)
        made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        made.execute("PRAGMA user_version = 1")
        made.execute("PRAGMA journal_mode = WAL")
    return path


def seen_by_duckdb(path: Path) -> list[tuple[object, ...]]:
    return duck.duck(
        path,
        "SELECT table_schema, table_name, column_name, data_type, is_nullable, column_default"
        " FROM information_schema.columns WHERE table_catalog = 'lake' AND table_name <> 'answer'"
        " ORDER BY ALL",
    )


def test_what_was_defined_is_in_the_lake(old: Path) -> None:
    catalog = open_catalog(old)
    session = open_session(catalog)
    assert [r.rows for r in run(session, "SELECT pubname FROM pg_publication; SELECT * FROM t")] == [[("p",)], []]
    list(run(session, "INSERT INTO t VALUES (1)"))
    list(run(session, "INSERT INTO x.p VALUES (2)"))
    session.close()
    catalog.close()
    assert seen_by_duckdb(old) == [
        ("postgres", "t", "a", "INTEGER", "NO", "NULL"),
        ("postgres", "t", "c", "DECIMAL(5,2)", "YES", "'1.00'"),
        ("postgres.x", "p", "a", "INTEGER", "YES", None),
        ("postgres.x", "p1", "a", "INTEGER", "YES", "NULL"),
    ]
    assert duck.duck(old, "SELECT * FROM postgres.t") == [("1", "1.00")]
    assert duck.duck(old, 'SELECT * FROM "postgres.x".p') == [("2",)]
    duck.run(old, "CREATE TABLE shop.t (a INT)")
    duck.close(old)
    catalog = open_catalog(old)
    session = open_session(catalog, "shop")
    assert [r.rows for r in run(session, "SELECT * FROM t")] == [[]]
    session.close()
    catalog.close()


def test_all_who_come_at_once_find_it_brought_up_once(old: Path) -> None:
    found: list[object] = []

    def arrive() -> None:
        catalog = open_catalog(old)
        session = open_session(catalog)
        list(run(session, "SELECT 1"))
        found.append(session.link.execute("SELECT count(*) FROM ducklake_table"))
        session.close()
        catalog.close()

    threads = [threading.Thread(target=arrive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(2,)]] * 4
    with closing(sqlite3.connect(old)) as link:
        assert link.execute("PRAGMA user_version").fetchone() == (FORMAT_VERSION,)
        assert link.execute("SELECT format_version, lake_schema_version FROM pgrepl_instance").fetchall() == [
            (FORMAT_VERSION, 1)
        ]
        assert link.execute("SELECT count(*) FROM ducklake_metadata").fetchone() == (4,)
        snapshots = link.execute("SELECT snapshot_id, schema_version FROM ducklake_snapshot ORDER BY 1 DESC").fetchall()
    assert snapshots[:2] == [(8, 1), (7, 0)]


def test_subscriptions_of_format_7_follow_no_definitions(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.close()
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as link:
        link.execute("ALTER TABLE pg_subscription DROP COLUMN subschemachanges")
        link.execute("DROP TABLE pgrepl_subscription_schema")
        without_format_9(link)
        link.execute("UPDATE pgrepl_instance SET format_version = 7")
        link.execute("PRAGMA user_version = 7")
        link.commit()
    catalog = open_catalog(tmp_path / "catalog.db")
    session = open_session(catalog, "sub")
    assert [each.schema_changes for each in subscription_facts(session)] == ["none"]
    assert not disagreeing(session.link, declarative.every)
    list(run(session, "ALTER SUBSCRIPTION s SET (schema_changes = columns)"))
    assert [each.schema_changes for each in subscription_facts(session)] == ["columns"]
    assert not disagreeing(session.link, declarative.every)
    session.close()
    catalog.close()


def test_a_catalog_of_format_9_gets_default_privileges(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    session = open_session(catalog)
    list(run(session, "CREATE ROLE joe; CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN d AS int CHECK (VALUE > 0)"))
    session.close()
    catalog.close()
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as link:
        without_format_11(link)
        link.execute("DROP TABLE pg_default_acl")
        link.execute("UPDATE pgrepl_instance SET format_version = 9")
        link.execute("PRAGMA user_version = 9")
        link.commit()
    catalog = open_catalog(tmp_path / "catalog.db")
    session = open_session(catalog)
    list(run(session, "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO joe; CREATE TABLE t (a mood, b d)"))
    found = [r.rows for r in run(session, "SELECT relacl::text FROM pg_class WHERE relname = 't'")]
    assert found == [[("{postgres=arwdDxtm/postgres,joe=r/postgres}",)]]
    assert not disagreeing(session.link, declarative.every)
    session.close()
    catalog.close()


def test_format_12_had_one_position_of_a_walsender(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    open_session(catalog).close()
    catalog.close()
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as link:
        without_format_14(link)
        for column in ("write_lsn", "replay_lsn"):
            link.execute(f"ALTER TABLE pgrepl_walsender DROP COLUMN {column}")
        link.execute("INSERT INTO pgrepl_walsender (slot_name, flush_lsn) VALUES ('of one that has ended', 7)")
        link.execute("UPDATE pgrepl_instance SET format_version = 12")
        link.execute("PRAGMA user_version = 12")
        link.commit()
    catalog = open_catalog(tmp_path / "catalog.db")
    session = open_session(catalog)
    list(run(session, "CREATE TABLE t (a int)"))
    assert [r.rows for r in run(session, "SELECT write_lsn, replay_lsn FROM pg_stat_replication")] == [[]]
    assert not disagreeing(session.link, declarative.every)
    session.close()
    catalog.close()
