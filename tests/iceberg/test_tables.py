"""Which tables there are for whom, as which tables, with which snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.iceberg import metadata, tables
from tests.iceberg.conftest import Shop
from tests.iceberg.readers import READERS, duck, pyiceberg_rows
from tests.lake import duck as lake


def seen(shop: Shop, user: str, ask: Callable[[Any], Any]) -> Any:
    session = shop.open(user)
    try:
        with reading(session):
            return ask(session)
    finally:
        session.close()


def test_databases_and_schemas_are_namespaces(shop: Shop) -> None:
    shop.sql(
        "CREATE SCHEMA sales", "CREATE TABLE sales.t (a int)", 'CREATE TABLE "Odd/Näme" (a int)', "CREATE TABLE u ()"
    )
    shop.sql(
        "CREATE VIEW v AS SELECT 1", "CREATE TEMP TABLE gone (a int)", "CREATE MATERIALIZED VIEW m AS SELECT 1 AS x"
    )
    with reading(shop.session):
        assert tables.namespaces(shop.session) == [("postgres",), ("shop",)]
        assert tables.namespaces(shop.session, ("shop",)) == [("shop", "sales")]
        assert tables.namespaces(shop.session, ("nosuch",)) == tables.namespaces(shop.session, ("shop", "sales")) == []
        assert tables.tables(shop.session, ("shop",)) == ["Odd/Näme", "m", "u"]
        assert tables.tables(shop.session, ("shop", "sales")) == ["t"]
        assert tables.tables(shop.session, ("nosuch", "sales")) == tables.tables(shop.session, ("shop", "t")) == []
        there = [("shop",), ("shop", "sales"), ("shop", "t"), ("shop", "public"), ("shop", "sales", "x"), ("no",), ()]
        assert [tables.has_namespace(shop.session, each) for each in there] == [True, True, *[False] * 5]
        assert [shop.find(name) is None for name in ("v", "gone", "nosuch", "t")] == [True] * 4
    assert shop.read("pyiceberg", "m") == [(1,)]
    assert shop.read("pyiceberg", "Odd/Näme") == []
    assert shop.metadata("Odd/Näme").location.rpartition("/metadata/")[0].endswith("/shop/Odd%2FN%C3%A4me")


def test_a_role_sees_what_it_may_read_whole(shop: Shop) -> None:
    shop.sql(
        "CREATE ROLE anna LOGIN", "CREATE ROLE otto LOGIN", "CREATE SCHEMA s", "CREATE DATABASE closed",
        "CREATE TABLE s.t (a int, b int)", "CREATE TABLE public.p (a int)", "CREATE TABLE parts (a int, b int)",
        "CREATE TABLE guarded (a int)", "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY", "GRANT SELECT ON p TO anna",
        "GRANT USAGE ON SCHEMA s TO anna", "GRANT SELECT ON s.t TO anna", "GRANT SELECT ON s.t TO otto",
        "GRANT SELECT ON guarded TO anna", "GRANT SELECT (a, b) ON parts TO anna", "GRANT SELECT (a) ON parts TO otto",
        "REVOKE CONNECT ON DATABASE closed FROM public",
    )  # fmt: skip

    def everything(session: Any) -> list[Any]:
        namespaces = tables.namespaces(session)
        namespaces += [each for parent in namespaces for each in tables.namespaces(session, parent)]
        return [(".".join(each), tables.tables(session, each)) for each in namespaces]

    assert seen(shop, "anna", everything) == [("postgres", []), ("shop", ["p", "parts"]), ("shop.s", ["t"])]
    assert seen(shop, "otto", everything) == [("postgres", []), ("shop", [])]
    every = [("closed", []), ("postgres", []), ("shop", ["guarded", "p", "parts"]), ("shop.s", ["t"])]
    assert seen(shop, "postgres", everything) == every
    for user, name, said in [
        ("otto", "p", "permission denied for table p"),
        ("anna", "guarded", 'row-level security is enabled for table "guarded"'),
        ("anna", "nosuch", 'relation "nosuch" does not exist'),
        ("anna", "a.b.c.d", "improper relation name (too many dotted names): a.b.c.d"),
    ]:
        with pytest.raises(PgError) as refused:
            seen(shop, user, lambda session, name=name: tables.named(session, name))
        assert refused.value.message == said
    assert seen(shop, "anna", lambda session: tables.named(session, "s.t").namespace) == ("shop", "s")


def test_the_state_changes_with_every_change(shop: Shop) -> None:
    shop.sql("CREATE TABLE t (a int)", "CREATE TABLE other (a int)")
    states = []
    for change in (
        "INSERT INTO t VALUES (1)", "INSERT INTO t SELECT generate_series(1, 300)", "DELETE FROM t WHERE a = 5",
        "DELETE FROM t WHERE a < 280", "UPDATE t SET a = 7 WHERE a = 281", "ALTER TABLE t ADD b int",
        "ALTER TABLE t RENAME b TO c", "VACUUM t", "ALTER TABLE t SET (iceberg.version = 3)",
        "ALTER TABLE t SET (iceberg.time = omit)", "TRUNCATE t",
    ):  # fmt: skip
        shop.sql(change)
        with reading(shop.session):
            found = shop.find("t")
            assert found is not None
            states.append(metadata.state_of(found))
            assert metadata.state_of(found) == states[-1]
    assert len(set(states)) == len(states)
    shop.sql("INSERT INTO other VALUES (1)")
    with reading(shop.session):
        found = shop.find("t")
        assert found is not None
        assert metadata.state_of(found) == states[-1], "changes of other tables do not count"


@pytest.mark.parametrize("reader", READERS)
def test_the_past_is_read_by_snapshot(shop: Shop, reader: str) -> None:
    shop.sql("CREATE TABLE t (a int, b text)")
    wanted = {}
    for change in (
        "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 300) g", "INSERT INTO t VALUES (1000, 'inlined')",
        "DELETE FROM t WHERE a = 5", "DELETE FROM t WHERE a < 280", "DELETE FROM t WHERE a < 282",
        "UPDATE t SET b = 'y' WHERE a > 290", "DELETE FROM t WHERE a = 1000",
    ):  # fmt: skip
        shop.sql(change)
        wanted[shop.snapshot()] = shop.rows("SELECT * FROM t")
    shop.sql("ALTER TABLE t DROP COLUMN b")
    told = [each["snapshot-id"] for each in json.loads(shop.metadata().json)["snapshots"]]
    assert set(wanted) < set(told)
    for snapshot, rows in wanted.items():
        assert shop.read(reader, snapshot=snapshot) == rows, snapshot
    assert shop.read(reader) == shop.rows("SELECT a FROM t")


def test_the_past_is_read_by_time_and_only_as_far_as_it_is_told(shop: Shop) -> None:
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    then = datetime.now(timezone.utc).replace(tzinfo=None)
    shop.sql("SELECT pg_sleep(0.01)", "INSERT INTO t VALUES (2)")
    location = shop.metadata().location
    asked = f"SELECT * FROM iceberg_scan('{location}', snapshot_from_timestamp => TIMESTAMP '{then}')"
    assert duck().sql(asked).fetchall() == [(1,)]
    shop.session.close()
    shop.session = shop.open(**{"pgrepl.iceberg_snapshots": "0"})
    assert [each["summary"]["total-records"] for each in json.loads(shop.metadata().json)["snapshots"]] == ["2"]


def test_the_past_is_never_amid_a_transaction(shop: Shop) -> None:
    shop.sql("CREATE TABLE t (a int)", "CREATE TABLE other (a int)", "INSERT INTO t VALUES (0), (0)")
    for _ in range(3):
        shop.sql(
            "BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (-1)", "INSERT INTO other VALUES (1)", "COMMIT"
        )
    told = [each["snapshot-id"] for each in json.loads(shop.metadata().json)["snapshots"]]
    sums = [sum(a for (a,) in shop.read("pyiceberg", snapshot=snapshot)) for snapshot in told]
    assert (set(sums), len(told) >= 4) == ({0}, True)


def test_snapshots_that_have_expired_are_not_told(shop: Shop) -> None:
    shop.sql("CREATE TABLE t (a int)", *[f"INSERT INTO t VALUES ({each})" for each in range(5)])
    assert len(json.loads(shop.metadata().json)["snapshots"]) == 6
    shop.sql("VACUUM FULL t")
    made = json.loads(shop.metadata().json)
    for snapshot in made["snapshots"]:
        assert len(pyiceberg_rows(shop.metadata().location, snapshot["snapshot-id"])) <= 5
    shop.forget_promises()
    shop.sql("INSERT INTO t VALUES (9)", "VACUUM")
    assert len(json.loads(shop.metadata().json)["snapshots"]) == 1


@pytest.mark.parametrize("reader", READERS)
def test_a_partitioned_table_is_one_table(shop: Shop, reader: str) -> None:
    shop.sql(
        "CREATE TABLE p (a int, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (1000) TO (2000) PARTITION BY LIST (b)",
        "CREATE TABLE p2x PARTITION OF p2 FOR VALUES IN ('x')",
        "CREATE TABLE p2y PARTITION OF p2 DEFAULT",
        "INSERT INTO p SELECT g, CASE WHEN g % 3 = 0 THEN 'x' ELSE 'y' END FROM generate_series(500, 1500) g",
        "INSERT INTO p VALUES (1, 'inlined'), (1999, 'x')",
        "DELETE FROM p WHERE a % 7 = 0",
        "DELETE FROM p WHERE a BETWEEN 600 AND 900",
        "ALTER TABLE p ADD c int DEFAULT 5",
        "UPDATE p SET a = a + 1000 WHERE a = 1",
    )
    wanted = shop.rows("SELECT * FROM p")
    assert shop.read(reader, "p") == wanted
    assert shop.read(reader, "p2y") == shop.rows("SELECT * FROM p2y")
    with reading(shop.session):
        assert tables.tables(shop.session, ("shop",)) == ["p", "p1", "p2", "p2x", "p2y"]


def test_partitions_that_number_their_columns_differently_are_tables_of_their_own(shop: Shop) -> None:
    shop.sql(
        "CREATE TABLE p (a int, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE q (b text, a int)",
        "INSERT INTO q VALUES ('x', 5)",
        "ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (0) TO (10)",
    )
    with reading(shop.session):
        assert tables.tables(shop.session, ("shop",)) == ["p1", "q"]
        with pytest.raises(PgError, match='table "p" cannot be an Iceberg table'):
            tables.named(shop.session, "p")
    assert shop.read("pyiceberg", "q") == [("x", 5)]


@pytest.mark.parametrize("reader", READERS)
def test_a_table_has_the_rows_of_those_that_inherit_from_it(shop: Shop, reader: str) -> None:
    shop.sql(
        "CREATE TABLE p (a int, b text)",
        "CREATE TABLE c (x int DEFAULT 7) INHERITS (p)",
        "CREATE TABLE d () INHERITS (c)",
        "INSERT INTO p SELECT g, 'p' FROM generate_series(1, 200) g",
        "INSERT INTO c SELECT g, 'c', g FROM generate_series(201, 400) g",
        "INSERT INTO d VALUES (500, 'inlined')",
        "DELETE FROM p WHERE a % 2 = 0 AND a <> 500",
    )
    for name in ("p", "c", "d"):
        assert shop.read(reader, name) == shop.rows(f"SELECT * FROM {name}"), name
    shop.sql("ALTER TABLE p ADD late int")  # has other ids in c and d, which agree
    with reading(shop.session):
        assert [shop.find(name) is None for name in ("p", "c", "d")] == [True, False, False]


def test_a_partitioned_table_has_the_past_since_its_partitions_are_what_they_are(shop: Shop) -> None:
    shop.sql(
        "CREATE TABLE p (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "INSERT INTO p VALUES (1)",
        "CREATE TABLE q (a int)",
        "INSERT INTO q VALUES (15)",
        "ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p VALUES (2)",
    )
    found = [len(pyiceberg_rows(shop.metadata("p").location, each["snapshot-id"]))
             for each in json.loads(shop.metadata("p").json)["snapshots"]]  # fmt: skip
    assert found[-1] == 3
    assert set(found) <= {2, 3}


def test_an_attached_table_numbers_its_columns_as_the_other_partitions(shop: Shop) -> None:
    """With rows in files, inlined and deleted ones; empty; and with partitions of its own."""
    shop.sql(
        "CREATE TABLE p (a int, gone int, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000)",
        "INSERT INTO p SELECT g, g, 'p' || g FROM generate_series(1, 200) g",
        "ALTER TABLE p DROP gone",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (1000) TO (2000)",
        "INSERT INTO p VALUES (1500, 'made later')",
        "CREATE TABLE q (a int, b text)",
        "INSERT INTO q SELECT g, 'q' || g FROM generate_series(2001, 2300) g",
        "INSERT INTO q VALUES (2999, 'inlined')",
        "DELETE FROM q WHERE a % 2 = 0",
        "ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (2000) TO (3000)",
        "CREATE TABLE empty (a int, b text)",
        "ALTER TABLE p ATTACH PARTITION empty FOR VALUES FROM (3000) TO (4000)",
        "INSERT INTO p VALUES (3500, 'into what was empty')",
        "CREATE TABLE r (a int, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE r1 PARTITION OF r DEFAULT",
        "INSERT INTO r VALUES (4001, 'below')",
        "ALTER TABLE p ATTACH PARTITION r FOR VALUES FROM (4000) TO (5000)",
        "ALTER TABLE p ADD c int DEFAULT 3",
        "ALTER TABLE p ALTER b TYPE int USING length(b)",
        "INSERT INTO p VALUES (4500, 9, 1)",
    )
    wanted = shop.rows("SELECT * FROM p")
    assert len(wanted) == 200 + 1 + 151 + 1 + 2
    for reader in READERS:
        assert shop.read(reader, "p") == wanted, reader
    assert lake.duck(shop.catalog.path, "SELECT count(*), sum(a) FROM lake.shop.p") == [
        tuple(map(str, shop.sql("SELECT count(*), sum(a) FROM p")[0]))
    ]
