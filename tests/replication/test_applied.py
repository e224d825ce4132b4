"""How changes are applied: rows found by identity, conflicts and what follows from them, privileges, states."""

from __future__ import annotations

import re

import pytest

from pgrepl.lake.read import local
from tests.harness.pair import Pair

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"


def ready(pair: Pair, table: str = T, publication: str = "CREATE PUBLICATION p FOR TABLE t") -> None:
    pair.both(table)
    pair.pub(publication)
    pair.subscribe()


def test_a_conflict_stops_before_its_transaction_and_heals_when_the_row_is_gone(pair: Pair) -> None:
    ready(pair)
    pair.sub("INSERT INTO t VALUES (2, 'local')")
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    pair.pub("BEGIN; INSERT INTO t VALUES (3, 'y'); INSERT INTO t VALUES (2, 'z'); COMMIT")
    ((message, detail, context),) = pair.catch_up()
    assert (message, detail) == (
        'duplicate key value violates unique constraint "t_pkey"',
        "Key (a)=(2) already exists.",
    )
    assert context is not None
    assert re.fullmatch(
        r'processing remote data for replication origin "pg_\d+" during message type "INSERT" for replication target '
        r'relation "public.t" in transaction \d+, finished at 0/[0-9A-F]+',
        context,
    )
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "x"), ("2", "local")]
    pair.sub("DELETE FROM t WHERE a = 2")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "x"), ("2", "z"), ("3", "y")]
    assert pair.sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [("1",)]


def finish_lsn(context: str | None) -> str:
    assert context is not None
    return context.rpartition(" ")[2]


def test_skip_leaves_out_exactly_that_transaction(pair: Pair) -> None:
    ready(pair)
    pair.sub("INSERT INTO t VALUES (2, 'local')")
    pair.pub("BEGIN; INSERT INTO t VALUES (1, 'lost'); INSERT INTO t VALUES (2, 'z'); COMMIT")
    pair.pub("INSERT INTO t VALUES (3, 'after')")
    ((_, _, context),) = pair.catch_up()
    pair.sub(f"ALTER SUBSCRIPTION s SKIP (lsn = '{finish_lsn(context)}')")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("2", "local"), ("3", "after")]
    assert pair.sub("SELECT subskiplsn FROM pg_subscription") == [("0/0",)]
    assert [r.message.rpartition(" at LSN")[0] for r in pair.log.reports if "skipping" in r.message] == [
        "logical replication starts skipping transaction",
        "logical replication completed skipping transaction",
    ]


def test_a_skip_that_does_not_match_is_cleared_with_a_warning(pair: Pair) -> None:
    ready(pair)
    pair.sub("ALTER SUBSCRIPTION s SKIP (lsn = '0/FFFF')")
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    assert pair.catch_up() == []
    (warning,) = [r for r in pair.log.reports if r.severity == "WARNING"]
    assert warning.message == 'skip-LSN of subscription "s" cleared'
    assert pair.sub("SELECT * FROM t") == [("1", "x")]


def test_advancing_the_origin_behind_a_transaction_leaves_it_out(pair: Pair) -> None:
    """A5: the finish LSN itself does not, one more does."""
    ready(pair)
    pair.sub("INSERT INTO t VALUES (2, 'local')")
    pair.pub("INSERT INTO t VALUES (2, 'z')")
    ((_, _, context),) = pair.catch_up()
    finish = finish_lsn(context)
    origin = pair.sub("SELECT 'pg_' || oid FROM pg_subscription")[0][0]
    pair.sub(f"SELECT pg_replication_origin_advance('{origin}', '{finish}')")
    assert len(pair.catch_up()) == 1
    pair.sub(f"SELECT pg_replication_origin_advance('{origin}', '{finish}'::pg_lsn + 1)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("2", "local")]


def test_disable_on_error(pair: Pair) -> None:
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options="WITH (disable_on_error)")
    pair.sub("INSERT INTO t VALUES (1, 'local')")
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    assert len(pair.catch_up()) == 1
    assert pair.sub("SELECT subenabled FROM pg_subscription") == [("f",)]
    assert 'subscription "s" has been disabled because of an error' in pair.log.messages("LOG")


def test_constraints_are_checked_at_each_change(pair: Pair) -> None:
    """A3: what a later change would have repaired stops all the same; a value that does not fit names its column."""
    ready(pair, publication="CREATE PUBLICATION p FOR TABLE t")
    pair.sub("ALTER TABLE t ADD CHECK (b <> 'bad')")
    pair.pub("BEGIN; INSERT INTO t VALUES (1, 'bad'); UPDATE t SET b = 'good'; COMMIT")
    ((message, detail, _),) = pair.catch_up()
    assert (message, detail) == (
        'new row for relation "t" violates check constraint "t_b_check"',
        "Failing row contains (1, bad).",
    )
    pair.sub("ALTER TABLE t DROP CONSTRAINT t_b_check")
    assert pair.catch_up() == []
    pair.sub("ALTER TABLE t ALTER COLUMN b TYPE int USING 0")
    pair.pub("UPDATE t SET b = 'x1'")
    ((message, _, context),) = pair.catch_up()
    assert message == 'invalid input syntax for type integer: "x1"'
    assert context is not None
    assert 'relation "public.t" column "b" in transaction' in context


def test_missing_rows_are_skipped_and_changes_without_effect_overwrite(pair: Pair) -> None:
    """A17."""
    ready(pair)
    pair.pub("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    pair.catch_up()
    pair.sub("DELETE FROM t WHERE a = 1; UPDATE t SET b = 'local' WHERE a = 2")
    pair.pub("UPDATE t SET b = b; DELETE FROM t WHERE a = 1")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("2", "y")]


def test_changes_are_applied_by_key_not_by_row(pair: Pair) -> None:
    """A2: without updates a reused key meets the other row."""
    ready(pair, publication="CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert, delete')")
    pair.pub("INSERT INTO t VALUES (1, 'A'); INSERT INTO t VALUES (2, 'B'); UPDATE t SET a = 9 WHERE a = 2")
    pair.pub("UPDATE t SET a = 2 WHERE a = 1; DELETE FROM t WHERE b = 'A'")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("1", "A")]


def test_rows_without_a_key_are_found_whole_one_for_each_change(pair: Pair) -> None:
    ready(
        pair, "CREATE TABLE t (a int, b text)", "ALTER TABLE t REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE t"
    )
    pair.pub("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (1, 'x'), (NULL, NULL)")
    pair.catch_up()
    pair.pub("BEGIN; DELETE FROM t WHERE a IS NULL; COMMIT")
    pair.sub("INSERT INTO t VALUES (1, 'x')")
    pair.pub("UPDATE t SET b = 'y'")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY b") == [("1", "x"), ("1", "y"), ("1", "y"), ("1", "y")]


def test_updates_that_cannot_find_their_row_stop_with_the_reason(pair: Pair) -> None:
    pair.pub("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.sub("CREATE TABLE t (a int, b text)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    assert pair.catch_up() == []
    pair.pub("DELETE FROM t")
    ((message, _, _),) = pair.catch_up()
    assert message == (
        'logical replication target relation "public.t" has neither REPLICA IDENTITY index nor PRIMARY KEY '
        "and published relation does not have REPLICA IDENTITY FULL"
    )
    pair.sub("ALTER TABLE t ALTER b SET NOT NULL; ALTER TABLE t ADD PRIMARY KEY (b)")
    ((message, _, _),) = pair.catch_up()
    assert message == (
        'publisher did not send replica identity column expected by the logical replication target relation "public.t"'
    )


def test_tables_and_columns_that_are_missing_here(pair: Pair) -> None:
    ready(pair)
    pair.pub("ALTER TABLE t ADD COLUMN c int, ADD COLUMN d int; INSERT INTO t VALUES (1, 'x')")
    ((message, _, _),) = pair.catch_up()
    assert message == 'logical replication target relation "public.t" is missing replicated columns: "c", "d"'
    pair.sub("ALTER TABLE t RENAME TO elsewhere")
    ((message, _, _),) = pair.catch_up()
    assert message == 'logical replication target relation "public.t" does not exist'


def test_a_published_table_that_is_not_refreshed_is_ignored(pair: Pair) -> None:
    ready(pair)
    pair.both("CREATE TABLE u (a int PRIMARY KEY)")
    pair.pub("ALTER PUBLICATION p ADD TABLE u; INSERT INTO u VALUES (1); INSERT INTO t VALUES (1, 'x')")
    assert pair.catch_up() == []
    assert (pair.sub("SELECT * FROM t"), pair.sub("SELECT * FROM u")) == ([("1", "x")], [])
    pair.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM u") == [("1",)]


def test_a_copy_that_meets_a_row_stays_and_others_go_on(pair: Pair) -> None:
    """A6: it heals when the publisher deletes the row; other tables do not wait for it."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE u (a int PRIMARY KEY)")
    pair.pub("INSERT INTO t VALUES (1, 'x'), (2, 'y'); INSERT INTO u VALUES (7)")
    pair.sub("INSERT INTO t VALUES (2, 'local')")
    pair.pub("CREATE PUBLICATION p FOR TABLE t, u")
    pair.subscribe()
    assert pair.log.errors == [
        ('duplicate key value violates unique constraint "t_pkey"', "Key (a)=(2) already exists.", "COPY t, line 2")
    ]
    states = "SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1"
    assert pair.sub(states) == [("t", "d"), ("u", "r")]
    assert pair.pub("SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'pg_%sync%'") == [("1",)]
    pair.pub("INSERT INTO u VALUES (8); DELETE FROM t WHERE a = 2")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM u ORDER BY a") == [("7",), ("8",)]
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "x"), ("2", "local")]
    assert pair.sub(states) == [("t", "r"), ("u", "r")]
    assert pair.sub("SELECT sync_error_count FROM pg_stat_subscription_stats") == [("1",)]
    assert pair.pub("SELECT count(*) FROM pg_replication_slots") == [("1",)]


def test_values_travel_through_their_text(pair: Pair) -> None:
    """A16: output function to input function, never a cast."""
    pair.pub("CREATE TABLE t (a int PRIMARY KEY, b bool, c char(5), d numeric, e timestamptz, f double precision)")
    pair.sub("CREATE TABLE t (a bigint PRIMARY KEY, b text, c text, d text, e text, f numeric)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1, true, 'ab', 5.00, '2024-01-01 12:00:00+02', 0.1)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("1", "t", "ab   ", "5.00", "2024-01-01 10:00:00+00", "0.1")]


def test_foreign_keys_are_not_checked(pair: Pair) -> None:
    pair.both("CREATE TABLE k (id int PRIMARY KEY); CREATE TABLE t (a int PRIMARY KEY)")
    pair.sub("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES k")
    pair.pub("INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (2)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("1",), ("2",)]


def test_the_tables_owner_must_be_within_reach(pair: Pair) -> None:
    pair.both(T)
    pair.sub("CREATE ROLE ann LOGIN; CREATE ROLE bob; ALTER TABLE t OWNER TO bob")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("ALTER SUBSCRIPTION s SET (password_required = false); ALTER SUBSCRIPTION s OWNER TO ann")
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    ((message, _, _),) = pair.catch_up()
    assert message == 'role "ann" cannot SET ROLE to "bob"'
    pair.sub("GRANT bob TO ann")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("1", "x")]
    pair.sub("ALTER SUBSCRIPTION s SET (run_as_owner = true); REVOKE bob FROM ann")
    pair.pub("INSERT INTO t VALUES (2, 'y')")
    ((message, _, _),) = pair.catch_up()
    assert message == "permission denied for table t"


def test_a_subscriber_that_publishes_inserts_only_hears_of_each_insert(pair: Pair) -> None:
    """A13: what is inserted and deleted again is an insert for a third database."""
    ready(pair)
    pair.sub("CREATE PUBLICATION inserts FOR TABLE t WITH (publish = 'insert')")
    pair.sub("CREATE DATABASE third")
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    pair.pub("DELETE FROM t")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == []
    told = pair.sub("SELECT count(*) FROM pg_publication_tables")
    assert told == [("1",)]


def test_a_disabled_subscription_waits(pair: Pair) -> None:
    ready(pair)
    pair.sub("ALTER SUBSCRIPTION s DISABLE")
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == []
    pair.sub("ALTER SUBSCRIPTION s ENABLE")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("1", "x")]


def test_rows_are_looked_up_together_though_a_table_is_emptied_between_their_changes(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.both("CREATE TABLE u (a int)")
    ready(pair, publication="CREATE PUBLICATION p FOR TABLE t, u")
    pair.pub("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 50) g")
    assert pair.catch_up() == []
    for number in range(5):
        pair.pub(f"BEGIN; UPDATE t SET b = b || {number} WHERE a % 5 = {number}; TRUNCATE u; COMMIT")
    pair.pub(
        "BEGIN; UPDATE t SET b = 'last'; TRUNCATE t; INSERT INTO t VALUES (1, 'new'); UPDATE t SET b = 'y'; COMMIT"
    )
    lookups: list[object] = []
    lookup = local.lookup
    monkeypatch.setattr(local, "lookup", lambda *given: lookups.append(given[1]) or lookup(*given))
    assert pair.catch_up() == []
    assert len(lookups) <= 2
    assert pair.sub("SELECT * FROM t") == [("1", "y")]
