"""What logical replication of 18 does otherwise than that of 17, beside a real 18: two_phase that is altered,
publications that are missing, statistics of conflicts, origins."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.harness.dose import dose
from tests.harness.programs import eventually
from tests.postgres.both_replicas import Both
from tests.postgres.replicas import RealReplicas
from tests.postgres.replicas_ours import OurReplicas
from tests.postgres.test_server_workloads import PlayServed, ServedReplicas

PREPARED = "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"
TWO_PHASE = "SELECT subtwophasestate FROM pg_subscription"
SLOT = "SELECT two_phase FROM pg_replication_slots WHERE slot_name !~ '^pg_'"


@pytest.fixture(params=["lake", "from the server"])
def both(real18: RealReplicas, request: pytest.FixtureRequest) -> Iterator[Both]:
    real18.renew()
    if request.param == "lake":
        ours = OurReplicas(release=18)
        yield Both(real18, ours)
    else:
        ours = ServedReplicas(real18, release=18)
        yield PlayServed(real18, ours)
    ours.close()


@pytest.fixture
def ready(both: Both) -> Both:
    both.each("CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE, c int UNIQUE)")
    both.pub("CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)")
    assert both.subscribe() == []
    return both


def prepare(both: Both, key: int, gid: str) -> None:
    for text in ("BEGIN", f"INSERT INTO t VALUES ({key})", f"PREPARE TRANSACTION '{gid}'"):
        both.pub(text)


def test_two_phase_is_altered(ready: Both) -> None:
    ready.sub("ALTER SUBSCRIPTION s ENABLE")
    enabled = 'cannot set option "two_phase" for enabled subscription'
    assert ready.refused("sub", "ALTER SUBSCRIPTION s SET (two_phase = true)") == enabled
    assert ready.rest() == []
    prepare(ready, 2, "before")
    assert ready.catch_up() == []
    ready.sub("ALTER SUBSCRIPTION s SET (two_phase = true)")
    assert ready.rows(TWO_PHASE) == [("p",)]
    prepare(ready, 3, "since")
    eventually(lambda: ready.catch_up() == [] and ready.rows(PREPARED) == [("1",)])
    assert ready.rows(TWO_PHASE) == [("e",)]
    assert set(ready.rows(SLOT, "pub")) == {("t",)}
    refused = 'cannot disable "two_phase" when prepared transactions exist'
    assert ready.refused("sub", "ALTER SUBSCRIPTION s SET (two_phase = false)") == refused
    ready.pub("COMMIT PREPARED 'before'", "COMMIT PREPARED 'since'")
    assert ready.catch_up() == []
    assert ready.rows("SELECT a FROM t") == [("1",), ("2",), ("3",)]
    ready.sub("ALTER SUBSCRIPTION s SET (two_phase = false)")
    assert ready.rows(TWO_PHASE) == [("d",)]
    assert set(ready.rows(SLOT, "pub")) == {("f",)}
    prepare(ready, 4, "again")
    assert ready.catch_up() == []
    assert ready.rows(PREPARED) == [("0",)]
    ready.pub("COMMIT PREPARED 'again'")
    assert ready.catch_up() == []
    assert len(ready.rows("SELECT a FROM t")) == 4


def test_a_prepared_transaction_without_a_name(ready: Both) -> None:
    ready.sub("ALTER SUBSCRIPTION s SET (two_phase = true)")
    prepare(ready, 2, "")
    assert ready.catch_up() == []
    assert ready.rows(PREPARED) == [("1",)]
    ready.pub("ROLLBACK PREPARED ''", "INSERT INTO t VALUES (3)")
    assert ready.catch_up() == []
    assert ready.rows(PREPARED) == [("0",)]


def test_a_publication_that_is_missing_is_passed_over(ready: Both) -> None:
    ready.pub("DROP PUBLICATION p", "INSERT INTO t VALUES (2)")
    assert ready.catch_up() == []
    ready.pub("CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (3)")
    assert ready.catch_up() == []
    assert ready.rows("SELECT a FROM t") == [("1",), ("3",)]
    ready.sub("ALTER SUBSCRIPTION s ADD PUBLICATION q WITH (refresh = false)")
    ready.pub("INSERT INTO t VALUES (4)")
    assert ready.catch_up() == []


def test_conflicts_are_counted(ready: Both) -> None:
    ready.sub("INSERT INTO t VALUES (6, 6, 6), (7, 7, 7), (8, 8, 8)")
    ready.pub("DELETE FROM t", "INSERT INTO t VALUES (6, 7, 8)")
    (failure,) = ready.catch_up()
    assert failure.message == 'conflict detected on relation "public.t": conflict=multiple_unique_conflicts'
    ready.sub("DELETE FROM t WHERE a IN (6, 8)")
    (failure,) = ready.catch_up()
    assert failure.message == 'conflict detected on relation "public.t": conflict=insert_exists'
    ready.sub("DELETE FROM t")
    assert ready.catch_up() == []
    ready.sub("TRUNCATE t")
    ready.pub("UPDATE t SET b = 1", "DELETE FROM t")
    assert ready.catch_up() == []
    kinds = "insert_exists update_origin_differs update_exists update_missing delete_origin_differs delete_missing"
    columns = ", ".join(f"confl_{kind}" for kind in [*kinds.split(), "multiple_unique_conflicts"])
    query = f"SELECT subname, apply_error_count, sync_error_count, {columns} FROM pg_stat_subscription_stats"
    until = time.monotonic() + 60  # a server's workers report at their leisure
    while ready.real.rows("sub", query) != ready.ours.rows("sub", query) and time.monotonic() < until:
        time.sleep(0.05)
    assert ready.rows(query) == [("s", "2", "0", "1", "0", "0", "1", "0", "1", "1")]


def test_as_many_origins_as_the_setting_allows(both: Both) -> None:
    both.sub("SELECT pg_replication_origin_create('o' || g) FROM generate_series(1, 11) g")
    for number in range(1, 11):
        both.sub(f"SELECT pg_replication_origin_advance('o{number}', '0/1')")
    refused = both.refused("sub", "SELECT pg_replication_origin_advance('o11', '0/1')")
    assert refused.startswith("could not find free replication state slot for replication origin with ID ")
    both.sub("SELECT pg_replication_origin_drop('o1')", "SELECT pg_replication_origin_advance('o11', '0/1')")


TEMPORAL = (
    "CREATE TABLE t (id int4range, valid daterange, a text{})",
    "INSERT INTO t SELECT int4range(n, n + 1), daterange('2000-01-01', '2010-01-01'), 'a' FROM generate_series(1, 4) n",
)
KEY = ", PRIMARY KEY (id, valid WITHOUT OVERLAPS)"
UNIQUE = ", UNIQUE (id, valid WITHOUT OVERLAPS)"
USING = "ALTER TABLE t ALTER id SET NOT NULL, ALTER valid SET NOT NULL, REPLICA IDENTITY USING INDEX t_id_valid_key"


@pytest.mark.parametrize(
    ("key", "identity", "is_refused"),
    dose(
        [
            (KEY, "ALTER TABLE t REPLICA IDENTITY USING INDEX t_pkey", False),
            (UNIQUE, USING, False),
            (UNIQUE, "ALTER TABLE t REPLICA IDENTITY FULL", False),
            ("", "ALTER TABLE t REPLICA IDENTITY FULL", False),
            (KEY, "ALTER TABLE t REPLICA IDENTITY DEFAULT", False),
            (KEY, "ALTER TABLE t REPLICA IDENTITY FULL", False),
            (UNIQUE, "ALTER TABLE t REPLICA IDENTITY DEFAULT", True),
            (KEY, "ALTER TABLE t REPLICA IDENTITY NOTHING", True),
        ],
        4,
        1,
    ),
)
def test_temporal_keys_identify_rows(both: Both, key: str, identity: str, is_refused: bool) -> None:
    table, rows = TEMPORAL
    both.each(table.format(key), identity)
    both.pub(rows, "CREATE PUBLICATION p FOR ALL TABLES")
    assert both.subscribe() == []
    changes = ("UPDATE t SET a = 'b' WHERE id = '[2,3)'", "DELETE FROM t WHERE id = '[3,4)'")
    if is_refused:
        assert [both.refused("pub", text)[:6] for text in changes] == ["cannot"] * 2
    else:
        both.pub(*changes, "UPDATE t SET valid = daterange('2011-01-01', '2012-01-01') WHERE id = '[4,5)'")
    both.pub("INSERT INTO t VALUES ('[1,2)', '[2020-01-01,2021-01-01)', 'c')")
    assert both.catch_up() == []
    assert len(both.rows("SELECT id, valid, a FROM t")) == (5 if is_refused else 4)


def test_a_publication_changes_within_a_transaction(both: Both) -> None:
    """Each change belongs to the publications of its time, or to none if they are rolled back."""
    both.each("CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE u (a int PRIMARY KEY)")
    both.pub("CREATE PUBLICATION p FOR TABLE t, u")
    assert both.subscribe() == []
    both.pub("BEGIN", "INSERT INTO u VALUES (1)", "ALTER PUBLICATION p DROP TABLE u", "INSERT INTO u VALUES (2)")
    both.pub("ALTER PUBLICATION p ADD TABLE u", "INSERT INTO u VALUES (3)", "COMMIT", "INSERT INTO u VALUES (4)")
    both.pub("BEGIN", "ALTER PUBLICATION p DROP TABLE t", "INSERT INTO t VALUES (5)", "ROLLBACK")
    both.pub("INSERT INTO t VALUES (6)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM u") == [("1",), ("3",), ("4",)]


def test_conflicts_are_counted_anew(ready: Both) -> None:
    ready.sub("INSERT INTO t VALUES (6)")
    ready.pub("INSERT INTO t VALUES (6)")
    assert len(ready.catch_up()) == 1
    ready.sub("SELECT pg_stat_reset_subscription_stats(oid) FROM pg_subscription", "TRUNCATE t")
    assert ready.catch_up() == []
    ready.pub("UPDATE t SET b = 1 WHERE a = 1")
    assert ready.catch_up() == []
    counted = (
        "SELECT apply_error_count, confl_insert_exists, confl_update_missing, stats_reset IS NOT NULL"
        " FROM pg_stat_subscription_stats"
    )
    eventually(lambda: ready.real.rows("sub", counted) == [("0", "0", "1", "t")])
    ready.rows(counted)
