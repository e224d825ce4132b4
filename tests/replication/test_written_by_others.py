"""A18: tables that others write, who know nothing of replica identities, slots and transactions."""

from __future__ import annotations

from tests.harness.database import by_columns
from tests.harness.pair import Pair
from tests.lake import duck


def others(pair: Pair, *statements: str) -> None:
    """DuckDB writes to the publisher."""
    path = pair.pub.session.catalog.path
    assert path is not None
    duck.run(path, *statements)
    duck.close(path)


def ready(pair: Pair, more: str = "", publication: str = "FOR TABLE t") -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.pub(f"INSERT INTO t VALUES (1, 'x'), (2, 'y'); {more}; CREATE PUBLICATION p {publication}")
    pair.subscribe()


def test_what_duckdb_writes_arrives(pair: Pair) -> None:
    ready(pair)
    others(
        pair,
        "INSERT INTO pub.t VALUES (3, 'z')",
        "UPDATE pub.t SET b = 'new' WHERE a = 1",
        "DELETE FROM pub.t WHERE a = 2",
    )
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "new"), ("3", "z")]


def test_one_snapshot_is_one_transaction_that_deletes_first(pair: Pair) -> None:
    """A18."""
    ready(pair)
    inserted = "INSERT INTO pub.t VALUES (9, 'z'), (1, 'again')"
    others(pair, "BEGIN", inserted, "DELETE FROM pub.t WHERE b = 'x'", "COMMIT")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "again"), ("2", "y"), ("9", "z")]


def test_a_change_that_could_not_have_been_published_stops_its_slot(pair: Pair) -> None:
    """A18."""
    pair.both("CREATE TABLE t (a int, b text)")
    pair.pub("INSERT INTO t VALUES (1, 'x'); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    others(pair, "INSERT INTO pub.t VALUES (2, 'y')", "DELETE FROM pub.t WHERE a = 1")
    ((message, _, _),) = pair.catch_up()
    assert message.startswith(
        'could not receive data from WAL stream: ERROR:  cannot delete from table "t" because it does not have a '
        "replica identity and publishes deletes\nHINT:  To enable deleting from the table, set REPLICA IDENTITY using "
        'ALTER TABLE.\nCONTEXT:  slot "s", output plugin "pgoutput", in the change callback, associated LSN '
    )
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "x"), ("2", "y")]


def test_a_filter_that_needs_more_than_the_identity_stops_a_change_of_others(pair: Pair) -> None:
    ready(pair, publication="FOR TABLE t WHERE (b <> 'y')")
    others(pair, "UPDATE pub.t SET b = 'new' WHERE a = 1")
    ((message, _, _),) = pair.catch_up()
    assert message.startswith(
        'could not receive data from WAL stream: ERROR:  cannot update table "t"\n'
        "DETAIL:  Column used in the publication WHERE expression is not part of the replica identity.\nCONTEXT:  "
    )


def test_keys_and_checks_that_others_break_are_judged_by_the_subscriber(pair: Pair) -> None:
    pair.pub("CREATE TABLE t (a int PRIMARY KEY, b text CHECK (b <> 'bad')); CREATE TABLE u (a int PRIMARY KEY)")
    pair.sub("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE u (a int)")
    pair.pub("INSERT INTO t VALUES (1, 'x'); CREATE PUBLICATION p FOR TABLE t, u")
    pair.subscribe()
    others(pair, "INSERT INTO pub.t VALUES (2, 'bad')", "INSERT INTO pub.u VALUES (1), (1)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "x"), ("2", "bad")]
    assert pair.sub("SELECT * FROM u") == [("1",), ("1",)]
    others(pair, "INSERT INTO pub.t VALUES (1, 'twice')")
    ((message, detail, _),) = pair.catch_up()
    assert (message, detail) == (
        'duplicate key value violates unique constraint "t_pkey"',
        "Key (a)=(1) already exists.",
    )


def test_a_slot_whose_snapshots_others_have_expired_is_lost(pair: Pair) -> None:
    ready(pair)
    others(pair, "INSERT INTO pub.t VALUES (3, 'z')", "INSERT INTO pub.t VALUES (4, 'z')")
    path = pair.pub.session.catalog.path
    ((last,),) = duck.duck(path or "", "SELECT max(snapshot_id) - 1 FROM lake.snapshots()")
    duck.duck(path or "", f"SELECT count(*) FROM ducklake_expire_snapshots('lake', versions => [{last}])")
    duck.close(path or "")
    ((message, _, _),) = pair.catch_up()
    assert message == (
        'could not start WAL streaming: ERROR:  can no longer get changes from replication slot "s"\n'
        "DETAIL:  This slot has been invalidated because it exceeded the maximum reserved size."
    )
    lost = "SELECT wal_status, invalidation_reason FROM pg_replication_slots WHERE slot_name = 's'"
    assert pair.pub(lost) == [("lost", "wal_removed")]


def test_what_a_hugeint_cannot_hold_is_an_error_by_columns_too(pair: Pair) -> None:
    pair.pub("CREATE TABLE t (a int PRIMARY KEY, h numeric(39,0)); CREATE PUBLICATION p FOR TABLE t")
    path = pair.sub.session.catalog.path
    assert path is not None
    duck.run(path, "CREATE TABLE sub.t (a INTEGER, h HUGEINT)")
    duck.close(path)
    by_columns(pair.sub)
    pair.sub("SELECT FROM t", "ALTER TABLE t ADD PRIMARY KEY (a)")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1, 'NaN')")
    ((message, _, _),) = pair.catch_up()
    assert message == "value NaN is out of range for lake type int128"
    assert pair.sub("SELECT * FROM t") == []


def test_deletion_vectors_arrive(pair: Pair) -> None:
    """DuckDB 1.5 forgets when a vector's earlier positions were deleted: their deletes come twice, and are skipped."""
    ready(pair, "INSERT INTO t SELECT g, 'x' FROM generate_series(10, 5000) g")
    assert pair.catch_up() == []
    others(pair, "CALL lake.set_option('write_deletion_vectors', true)")
    for condition, left in (("a < 500", 4501), ("a > 4000", 3501)):
        others(pair, f"DELETE FROM pub.t WHERE {condition}")
        assert pair.catch_up() == []
        assert pair.sub("SELECT count(*) FROM t") == [(str(left),)]
    pair.pub("DELETE FROM t WHERE a % 2 = 0", "VACUUM t")
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*), min(a), max(a) FROM t") == pair.pub("SELECT count(*), min(a), max(a) FROM t")
