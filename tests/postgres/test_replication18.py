"""What logical replication of 18 does otherwise than that of 17, beside a real 18: two_phase that is altered,
publications that are missing, statistics of conflicts, origins."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.harness.programs import eventually
from tests.postgres.both_replicas import Both, without_conflict_details
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


def test_conflicts_are_counted(ready: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    without_conflict_details(ready, monkeypatch)
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
