"""Generated columns in publications, beside a real 18: lakes and the server publish and subscribe alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.dose import dose
from tests.postgres.both_replicas import Both
from tests.postgres.replicas import RealReplicas
from tests.postgres.replicas_ours import OurReplicas
from tests.postgres.test_server_workloads import PlayServed, ServedReplicas
from tests.server.lake_publishes import lake_publishes

STORED = "CREATE TABLE t (a int PRIMARY KEY, b text, g int GENERATED ALWAYS AS (a * 10) STORED, h text)"
PLAIN = "CREATE TABLE t (a int PRIMARY KEY, b text, g int, h text)"
ROWS = "INSERT INTO t SELECT n, 'x' || n FROM generate_series(1, 6) n"
CHANGES = (
    "INSERT INTO t VALUES (7, 'seven')",
    "UPDATE t SET b = 'y' WHERE a = 2",
    "UPDATE t SET a = 30 WHERE a = 3",
    "DELETE FROM t WHERE a = 4",
)


@pytest.fixture(scope="module")
def lake18() -> Iterator[RealReplicas]:
    """A lake of this release publishes to a real 18."""
    with lake_publishes(18) as found:
        for text in ("ALTER DATABASE pub SET", "SET"):
            found.run("pub", f"{text} pgrepl.postgres_version = 18")
        yield found


@pytest.fixture(params=["messages", *dose(["columns", "from the server", "to the server"], 3, 1)])
def both(real18: RealReplicas, request: pytest.FixtureRequest) -> Iterator[Both]:
    real18.renew()
    if request.param == "to the server":
        lake = request.getfixturevalue("lake18")
        lake.renew()
        yield Both(real18, lake)
        return
    by_columns = request.param == "columns"
    if request.param == "from the server":
        served = ServedReplicas(real18, release=18)
        yield PlayServed(real18, served)
        served.close()
        return
    ours = OurReplicas(by_spark=by_columns, release=18)
    yield Both(real18, ours)
    ours.close()


def played(both: Both) -> None:
    """A copy, and each kind of change."""
    both.pub(ROWS)
    assert both.subscribe() == []
    both.pub(*CHANGES)
    assert both.catch_up() == []


@pytest.mark.parametrize("publication", ["TABLE t WITH (publish_generated_columns = stored)", "TABLE t (a, g)"])
def test_stored_columns_are_published(both: Both, publication: str) -> None:
    both.pub(STORED, f"CREATE PUBLICATION p FOR {publication}")
    both.sub(PLAIN)
    played(both)
    assert both.rows("SELECT a, g FROM t WHERE a > 5") == [("30", "300"), ("6", "60"), ("7", "70")]
    both.rows("SELECT attnames FROM pg_publication_tables", "pub")
    both.rows("SELECT pubname, pubgencols FROM pg_publication", "pub")


def test_without_the_parameter_the_subscriber_computes_them(both: Both) -> None:
    both.each(STORED)
    both.pub("CREATE PUBLICATION p FOR TABLE t")
    played(both)
    both.pub("ALTER PUBLICATION p SET (publish_generated_columns = stored)", "INSERT INTO t VALUES (8)")
    (failure,) = both.catch_up()
    assert failure.message == 'logical replication target relation "public.t" has incompatible generated column: "g"'
    both.sub("ALTER TABLE t ALTER g DROP EXPRESSION")
    assert both.catch_up() == []


def test_a_column_that_is_not_here_is_missing(both: Both) -> None:
    both.pub(STORED, "CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns = 'stored')")
    both.sub("CREATE TABLE t (a int PRIMARY KEY, b text GENERATED ALWAYS AS ('b') STORED, h text)")
    (failure,) = both.subscribe()
    assert failure.message.endswith('is missing replicated column: "g"')


def test_publications_of_a_table_agree(both: Both) -> None:
    both.pub(STORED, "CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns = stored)")
    both.pub("CREATE PUBLICATION q FOR ALL TABLES", "CREATE PUBLICATION r FOR TABLE t (a, b, g, h)", ROWS)
    both.sub(PLAIN)
    assert both.subscribe("p, r") == []
    both.pub(*CHANGES)
    assert both.catch_up() == []
    both.sub("ALTER SUBSCRIPTION s SET PUBLICATION p, q WITH (refresh = false)")
    both.pub("INSERT INTO t VALUES (8)")
    assert both.catch_up() != []


def test_identities_and_filters(both: Both) -> None:
    both.pub(STORED, "ALTER TABLE t REPLICA IDENTITY FULL", "CREATE PUBLICATION p FOR TABLE t", ROWS)
    for text in ("UPDATE t SET b = 'z'", "DELETE FROM t"):
        assert both.refused("pub", text).startswith("cannot ")
    both.pub("ALTER PUBLICATION p SET (publish_generated_columns = stored)", "UPDATE t SET b = 'z'")
    both.pub("ALTER PUBLICATION p SET TABLE t (a, g)")
    assert both.refused("pub", "DELETE FROM t WHERE a = 1")
    both.pub("ALTER PUBLICATION p SET TABLE t WHERE (g > 30)", "DELETE FROM t WHERE a = 1")
    both.sub(PLAIN, "ALTER TABLE t REPLICA IDENTITY FULL")
    assert both.subscribe() == []
    both.pub("UPDATE t SET a = a + 100 WHERE a = 3", "UPDATE t SET a = 0 WHERE a = 6", "UPDATE t SET b = 'w'")
    assert both.catch_up() == []


def test_an_identity_of_a_generated_column(both: Both) -> None:
    both.pub(STORED, "ALTER TABLE t ALTER g SET NOT NULL", "CREATE UNIQUE INDEX k ON t (g)")
    both.pub("ALTER TABLE t REPLICA IDENTITY USING INDEX k", "CREATE PUBLICATION p FOR TABLE t", ROWS)
    assert both.refused("pub", "UPDATE t SET b = 'z'") == 'cannot update table "t"'
    both.pub("ALTER PUBLICATION p SET (publish_generated_columns = stored)")
    both.sub("CREATE TABLE t (a int, b text, g int PRIMARY KEY, h text)")
    assert both.subscribe() == []
    both.pub(*CHANGES)
    assert both.catch_up() == []


@pytest.mark.parametrize("via", ["", ", publish_via_partition_root"])
def test_partitions(both: Both, via: str) -> None:
    both.pub(
        "CREATE TABLE t (a int PRIMARY KEY, b text, g int GENERATED ALWAYS AS (a * 10) STORED) PARTITION BY RANGE (a)",
        "CREATE TABLE t1 (b text, a int NOT NULL, g int GENERATED ALWAYS AS (a * 11) STORED)",
        "ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (5) TO (100)",
        f"CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns = stored{via})",
    )
    for table in ("t", "t1", "t2"):
        both.sub(f"CREATE TABLE {table} (a int PRIMARY KEY, b text, g int)")
    played(both)


VIRTUAL = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, v int GENERATED ALWAYS AS (a * 10), "
    "g int GENERATED ALWAYS AS (a * 100) STORED, h text, CHECK (v < 1000))"
)


def test_virtual_columns_are_not_published(both: Both) -> None:
    both.each(VIRTUAL)
    both.pub("CREATE PUBLICATION p FOR TABLE t WHERE (v <> 10)")
    played(both)
    assert both.rows("SELECT a, v FROM t WHERE v > 50") == [("30", "300"), ("6", "60"), ("7", "70")]
    both.pub("ALTER TABLE t ADD w text GENERATED ALWAYS AS (b || '!')", "UPDATE t SET a = 8 WHERE v = 20")
    assert both.catch_up() == []
    both.pub("INSERT INTO t VALUES (50)")
    both.sub("ALTER TABLE t ADD CHECK (v < 500)")
    assert len(both.catch_up()) == 1
    assert both.refused("pub", "ALTER PUBLICATION p SET TABLE t (a, v)")
    both.pub("ALTER PUBLICATION p SET (publish_generated_columns = stored)", "ALTER TABLE t REPLICA IDENTITY FULL")
    assert both.refused("pub", "DELETE FROM t WHERE a = 6") == 'cannot delete from table "t"'


@pytest.mark.parametrize("text", dose(
    [
        "CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns = virtual)",
        "CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns)",
        "CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns = true)",
        "CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns = none, publish_generated_columns = none)",
        "CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns = STORED)",
        "CREATE PUBLICATION p FOR TABLE t (a, g, a)",
    ], 3, 2,
))  # fmt: skip
def test_what_is_said_of_the_parameter(both: Both, text: str) -> None:
    both.pub(STORED)
    both.say("pub", text)
