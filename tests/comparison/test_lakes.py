"""Two lakes are compared as of the LSN up to which the subscriber has applied its publisher's changes, and repaired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.ground.errors import PgError
from tests.harness.comparing import compare, differences, is_equal, repair
from tests.harness.database import Database
from tests.harness.pair import Pair
from tests.harness.tasks import played_here

TYPES = """id int PRIMARY KEY, n numeric, m numeric(10,3), f float8, g float4, t timestamp, z timestamptz, d date,
    b bytea, a int[], j jsonb, u uuid, c char(5), v varchar(9), o bool, i interval, r int4range"""
ROW = """'1.50', 2.5, '-0', 'NaN', '2024-01-01 10:00', '2024-01-01 10:00+02', '2024-02-29', '\\x00ff', '{1,NULL}',
    '{"b": 1}', '00000000-0000-0000-0000-000000000001', 'ab', 'x', true, '1 day', '[1,5)'"""
OTHERS = {
    "n": "1.5", "m": "2.501", "f": "0.0", "g": "1", "t": "2024-01-01 10:00:00.000001", "z": "2024-01-01 10:00+01",
    "d": "infinity", "b": "\\\\x00fe", "a": "{1,0}", "j": '{"b": 1.0}', "u": "00000000-0000-0000-0000-000000000002",
    "c": "ac", "v": "x ", "o": "false", "i": "24:00", "r": "empty",
}  # fmt: skip


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def test_each_kind_of_difference_is_found_and_repaired(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.pub("INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 100) i; CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    assert is_equal(pair.sub.session)
    pair.sub("DELETE FROM t WHERE id = 5; UPDATE t SET v = NULL WHERE id = 7; INSERT INTO t VALUES (200, 'extra')")
    assert differences(compare(pair.sub.session)) == [
        ("public.t", "different", {"id": "7"}, {"v": (None, "v7")}),
        ("public.t", "extra", {"id": "200"}, {}),
        ("public.t", "missing", {"id": "5"}, {}),
    ]
    done = repair(pair.sub.session)
    assert done is not None
    assert (done.inserted, done.deleted, done.updated) == (1, 1, 1)
    assert is_equal(pair.sub.session)
    assert repair(pair.sub.session) is None


def test_what_is_not_applied_yet_is_no_difference(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.pub("INSERT INTO t VALUES (1, 'a'); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("UPDATE t SET v = 'b'; INSERT INTO t VALUES (2, 'c')")
    assert is_equal(pair.sub.session)
    pair.catch_up()
    assert is_equal(pair.sub.session)


def test_each_type_is_compared_to_the_last_digit(pair: Pair) -> None:
    pair.both(f"CREATE TABLE t ({TYPES})")
    pair.pub(f"INSERT INTO t VALUES (1, {ROW}); INSERT INTO t VALUES (2); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    assert is_equal(pair.sub.session)
    for column, other in OTHERS.items():
        before = pair.sub(f"SELECT {column} FROM t WHERE id = 1")[0][0]
        pair.sub(f"UPDATE t SET {column} = E'{other}' WHERE id = 1")
        ((_, kind, _, columns),) = differences(compare(pair.sub.session))
        assert (kind, set(columns)) == ("different", {column})
        text = str(before).replace("\\", "\\\\")
        pair.sub(f"UPDATE t SET {column} = E'{text}' WHERE id = 1")
    pair.sub("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1)")
    ((_, kind, key, columns),) = differences(compare(pair.sub.session))
    assert (kind, key, set(columns)) == ("different", {"id": "1"}, set(OTHERS))
    repair(pair.sub.session)
    assert is_equal(pair.sub.session)


def test_filters_column_lists_conversions_and_own_columns_count_as_replication_counts_them(pair: Pair) -> None:
    pair.pub("CREATE TABLE t (id int PRIMARY KEY, v int, w text, n numeric)")
    pair.sub("CREATE TABLE t (own text DEFAULT 'mine', n text, id bigint PRIMARY KEY, v varchar(20))")
    pair.pub("INSERT INTO t SELECT i, i, 'w', i + 0.50 FROM generate_series(1, 20) i")
    pair.pub("CREATE PUBLICATION p FOR TABLE t (id, v, n) WHERE (id % 2 = 0)")
    pair.subscribe()
    assert is_equal(pair.sub.session)
    pair.pub("UPDATE t SET w = 'other'; UPDATE t SET v = -1 WHERE id IN (1, 2)")
    pair.sub("UPDATE t SET own = 'yours'")
    pair.catch_up()
    assert is_equal(pair.sub.session)
    pair.sub("UPDATE t SET n = '4.5' WHERE id = 4; INSERT INTO t (id) VALUES (3)")
    assert differences(compare(pair.sub.session)) == [
        ("public.t", "different", {"id": "4"}, {"n": ("4.5", "4.50")}),
        ("public.t", "extra", {"id": "3"}, {}),
    ]
    repair(pair.sub.session)
    assert is_equal(pair.sub.session)
    assert pair.sub("SELECT own FROM t WHERE id = 4") == [("yours",)]


@pytest.mark.parametrize("by_tasks", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_large_tables_are_hashed_by_tasks_of_spark(by_tasks: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """As elsewhere: with a filter, conversions and partitions. Without Spark the tasks are played here."""
    seen = played_here(monkeypatch) if by_tasks else []
    pair.pub(f"CREATE TABLE t ({TYPES}, w text)")
    pair.sub(f"CREATE TABLE t ({TYPES.replace('n numeric,', 'n text,')}) PARTITION BY HASH (id)")
    for n in range(2):
        pair.sub(f"CREATE TABLE t{n} PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER {n})")
    for n in range(3):
        pair.pub(f"INSERT INTO t SELECT i, {ROW}, 'w' FROM generate_series({n * 2000 + 1}, {n * 2000 + 2000}) i")
    names = "id, n, m, f, g, t, z, d, b, a, j, u, c, v, o, i, r"
    pair.pub(f"CREATE PUBLICATION p FOR TABLE t ({names}) WHERE (id % 2 = 0)")
    pair.subscribe()
    pair.sub(f"ALTER DATABASE {pair.sub.name} SET pgrepl.engine = spark")
    session = pair.sub.session
    assert is_equal(session)
    assert len(seen) >= 4 or not by_tasks
    pair.sub("UPDATE t SET f = 0 WHERE id = 10; DELETE FROM t WHERE id = 5998; INSERT INTO t (id) VALUES (7)")
    assert differences(compare(session)) == [
        ("public.t", "different", {"id": "10"}, {"f": ("0", "-0")}),
        ("public.t", "extra", {"id": "7"}, {}),
        ("public.t", "missing", {"id": "5998"}, {}),
    ]
    repair(session)
    assert is_equal(session)
    assert ("comparison", "spark") in pair.sub("SELECT DISTINCT work, engine FROM pgrepl_stat_engine")


def test_rows_without_a_key_are_counted(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int, b text); ALTER TABLE t REPLICA IDENTITY FULL")
    pair.pub("INSERT INTO t SELECT i % 3, 'b' FROM generate_series(1, 9) i; CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    assert is_equal(pair.sub.session)
    pair.sub("INSERT INTO t VALUES (1, 'b'), (NULL, NULL); UPDATE t SET a = 7 WHERE a = 2")
    found = differences(compare(pair.sub.session))
    assert [(kind, key["a"]) for _, kind, key, _ in found] == [
        ("extra", "1"), ("extra", "7"), ("extra", "7"), ("extra", "7"), ("extra", None),
        ("missing", "2"), ("missing", "2"), ("missing", "2"),
    ]  # fmt: skip
    repair(pair.sub.session)
    assert is_equal(pair.sub.session)


def test_partitions_are_compared_as_their_root(pair: Pair) -> None:
    pair.pub("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    pair.pub("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE t2 PARTITION OF t DEFAULT")
    pair.sub("CREATE TABLE t (v text, id int PRIMARY KEY) PARTITION BY HASH (id)")
    pair.sub("CREATE TABLE u1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0)")
    pair.sub("CREATE TABLE u2 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)")
    pair.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 20) i")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root)")
    pair.subscribe()
    assert is_equal(pair.sub.session)
    pair.sub("UPDATE t SET v = 'w' WHERE id = 3; DELETE FROM t WHERE id = 15; INSERT INTO t VALUES ('x', 21)")
    assert [kind for _, kind, _, _ in differences(compare(pair.sub.session))] == ["different", "extra", "missing"]
    repair(pair.sub.session)
    assert is_equal(pair.sub.session)


def test_what_replication_does_not_bring_is_no_difference(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.pub("INSERT INTO t VALUES (1, 'a'), (2, 'b'); CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert')")
    pair.subscribe()
    pair.pub("DELETE FROM t WHERE id = 1; UPDATE t SET v = 'c' WHERE id = 2")
    pair.catch_up()
    pair.sub("INSERT INTO t VALUES (9, 'own')")
    found = compare(pair.sub.session)
    assert found.is_equal
    assert len(found.tables[0].unjudged) == 2
    pair.sub("DELETE FROM t WHERE id = 2")
    assert [kind for _, kind, _, _ in differences(compare(pair.sub.session))] == ["missing"]


def test_a_table_that_has_not_been_copied_cannot_be_told(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("ALTER PUBLICATION p ADD TABLE u; INSERT INTO u VALUES (1)")
    pair.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    found = compare(pair.sub.session)
    assert [table.error is None for table in found.tables] == [True, False]
    assert not found.is_told
    assert compare(pair.sub.session, tables=("t",)).is_told
    with pytest.raises(PgError, match='subscription "s" has no table "nope"'):
        compare(pair.sub.session, tables=("nope",))


def test_a_limit_ends_the_look(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.pub("INSERT INTO t SELECT generate_series(1, 50); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("DELETE FROM t")
    (table,) = compare(pair.sub.session, limit=7).tables
    assert (len(table.differences), table.is_complete) == (7, False)


def test_a_repair_is_of_what_still_differs(pair: Pair) -> None:
    """Between the look and the repair the publisher changes rows, and the changes arrive."""
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 9) i; CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("UPDATE t SET v = 'wrong' WHERE id < 4; DELETE FROM t WHERE id IN (5, 6)")

    def meanwhile() -> None:
        pair.pub(
            "UPDATE t SET v = 'new' WHERE id = 1; UPDATE t SET v = 'later' WHERE id = 5; DELETE FROM t WHERE id = 6"
        )
        pair.catch_up()
        pair.sub("DELETE FROM t WHERE id = 9")  # that has not been shown

    done = repair(pair.sub.session, between=meanwhile)
    assert done is not None
    assert (done.inserted, done.deleted, done.updated) == (1, 0, 2)
    assert differences(compare(pair.sub.session)) == [("public.t", "missing", {"id": "9"}, {})]
    pair.pub("UPDATE t SET v = 'at last'")
    assert pair.catch_up() == []
    assert pair.sub("SELECT DISTINCT v, count(*) FROM t GROUP BY v") == [("at last", "7")]


def test_a_lost_slot_of_two_phase_is_made_again(tmp_path: Path) -> None:
    """What was prepared here is rolled back: its end is in the rows that are compared, or comes as a whole later."""
    first = Database(tmp_path)
    first("ALTER SYSTEM SET max_prepared_transactions = 10")
    first.close()
    pair = Pair(tmp_path)
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 9) i; CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options="WITH (two_phase = on)")
    states = "SELECT subtwophasestate, two_phase FROM pg_subscription, pg_replication_slots"
    waiting = "SELECT count(*) FROM pg_prepared_xacts WHERE database = 'sub'"
    for name, change in (("ends", "UPDATE t SET v = 'ends' WHERE id = 1"), ("stays", "DELETE FROM t WHERE id = 2")):
        pair.pub(f"BEGIN; {change}")
        pair.pub(f"PREPARE TRANSACTION '{name}'")
    assert pair.catch_up() == []
    assert pair.sub(states, waiting) == [("2",)]
    pair.sub.leave()
    pair.pub("SELECT pg_drop_replication_slot('s')")
    pair.pub("COMMIT PREPARED 'ends'")
    done = repair(pair.sub.session)
    assert done is not None
    assert (done.new_slot, done.inserted, done.deleted, done.updated) == ("s", 0, 0, 1)
    assert pair.sub(waiting) == [("0",)]
    assert pair.sub(states) == [("p", "f")]
    pair.pub("COMMIT PREPARED 'stays'")
    pair.pub("BEGIN; INSERT INTO t VALUES (20, 'after')")
    pair.pub("PREPARE TRANSACTION 'later'")
    assert pair.catch_up() == []
    assert pair.sub(states) == [("e", "t")]
    assert is_equal(pair.sub.session)
    pair.pub("COMMIT PREPARED 'later'")
    assert pair.catch_up() == []
    assert is_equal(pair.sub.session)
    assert pair.sub("SELECT count(*), max(id), min(v) FROM t") == [("9", "20", "after")]
    pair.close()


def test_a_lost_slot_is_made_again(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 9) i; CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub.leave()
    pair.pub("SELECT pg_drop_replication_slot('s'); DELETE FROM t WHERE id = 1; UPDATE t SET v = 'w' WHERE id = 2")
    done = repair(pair.sub.session)
    assert done is not None
    assert (done.new_slot, done.inserted, done.deleted, done.updated) == ("s", 0, 1, 1)
    pair.pub("INSERT INTO t VALUES (20, 'after')")
    assert pair.catch_up() == []
    assert is_equal(pair.sub.session)
    assert pair.sub("SELECT count(*), max(id) FROM t") == [("9", "20")]


def test_a_repair_fires_the_triggers_of_replicas_alone(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.pub("INSERT INTO t VALUES (1, 'v'); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("CREATE TABLE seen (name text)")
    pair.sub(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.seen VALUES (TG_NAME); RETURN NEW; END $$"
    )
    for name in ("usual", "always"):
        pair.sub(f"CREATE TRIGGER {name} BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()")
    pair.sub("ALTER TABLE t ENABLE ALWAYS TRIGGER always", "DELETE FROM t")
    repair(pair.sub.session)
    assert pair.sub("SELECT name FROM seen") == [("always",)]


def test_values_that_rows_have_exchanged(pair: Pair) -> None:
    """No order of updates gets by: each takes what another row still has."""
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE, w text)")
    pair.pub("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z'); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("DELETE FROM t", "INSERT INTO t VALUES (1, 'b', 'x'), (2, 'a', 'y'), (3, 'd', 'z'), (4, 'c', '')")
    done = repair(pair.sub.session)
    assert done is not None
    assert (done.inserted, done.deleted, done.updated) == (0, 1, 3)
    assert is_equal(pair.sub.session)
