"""How changes are applied, on a real server and here: by key, checked one by one, found by identity, through their
text.
"""

from __future__ import annotations

import pytest

from tests.harness.dose import dose
from tests.postgres.both_replicas import Both

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
CONTEXT = (
    'processing remote data for replication origin "pg_N" during message type "{}" for replication target relation '
    '"public.t"{} in transaction N, finished at LSN'
)


def ready(both: Both, table: str = T, *more: str, publication: str = "CREATE PUBLICATION p FOR TABLE t") -> None:
    both.each(table, *more)
    both.pub(publication)
    assert both.subscribe() == []


# --- A2, A3 -----------------------------------------------------------------------------------------------------------


def test_changes_are_applied_by_key(both: Both) -> None:
    ready(both, publication="CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert, delete')")
    both.pub("INSERT INTO t VALUES (1, 'A')", "INSERT INTO t VALUES (2, 'B')", "UPDATE t SET a = 9 WHERE b = 'B'")
    both.pub("UPDATE t SET a = 2 WHERE b = 'A'", "DELETE FROM t WHERE b = 'A'")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", "A")]


def test_a_row_that_comes_and_goes_meets_the_local_one(both: Both) -> None:
    ready(both)
    both.sub("INSERT INTO t VALUES (5, 'local')")
    both.pub("BEGIN", "INSERT INTO t VALUES (4)", "INSERT INTO t VALUES (5)", "DELETE FROM t WHERE a = 5", "COMMIT")
    (failure,) = both.catch_up()
    assert failure.message == both.violated("t_pkey", "insert_exists")
    assert "Key (a)=(5)" in str(failure.detail)
    assert failure.context == CONTEXT.format("INSERT", "")
    assert both.rows("SELECT * FROM t") == [("5", "local")]


def test_a_check_is_not_repaired_by_what_follows(both: Both) -> None:
    ready(both)
    both.sub("ALTER TABLE t ADD CHECK (b <> 'bad')")
    both.pub("BEGIN", "INSERT INTO t VALUES (1, 'bad')", "UPDATE t SET b = 'good'", "COMMIT")
    (failure,) = both.catch_up()
    assert failure.message == 'new row for relation "t" violates check constraint "t_b_check"'
    assert failure.detail == "Failing row contains (1, bad)."


def test_a_swap_under_a_unique_key_of_the_subscribers_fails(both: Both) -> None:
    ready(both)
    both.sub("ALTER TABLE t ADD UNIQUE (b)")
    both.pub("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    both.pub("UPDATE t SET b = CASE b WHEN 'x' THEN 'y' ELSE 'x' END")
    (failure,) = both.catch_up()
    assert failure.message == both.violated("t_b_key", "update_exists")
    assert failure.context == CONTEXT.format("UPDATE", "")


def test_a_shift_that_the_publisher_checked_at_its_end_fails(both: Both) -> None:
    both.pub("CREATE TABLE t (a int PRIMARY KEY DEFERRABLE, b text)", "ALTER TABLE t REPLICA IDENTITY FULL")
    both.sub(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1), (2)")
    both.subscribe()
    both.pub("UPDATE t SET a = a + 1")
    (failure,) = both.catch_up()
    assert "Key (a)=(2)" in str(failure.detail)


def test_the_first_index_in_order_is_named(both: Both) -> None:
    ready(both)
    both.sub("CREATE UNIQUE INDEX second ON t (b)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    both.pub("INSERT INTO t VALUES (2, 'x')")
    (failure,) = both.catch_up()
    assert failure.message == both.violated("t_pkey", "multiple_unique_conflicts")
    both.sub("DELETE FROM t WHERE a = 2")
    (failure,) = both.catch_up()
    assert failure.message == both.violated("second", "insert_exists")


def test_a_deferrable_key_of_the_subscribers_is_not_checked(both: Both) -> None:
    """Its trigger does not fire in a worker."""
    both.pub(T, "CREATE PUBLICATION p FOR TABLE t")
    both.sub("CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE DEFERRABLE)", "INSERT INTO t VALUES (1, 'x')")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (2, 'x')")
    both.catch_up()


# --- A5 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("behind", "passes"), [(0, False), (1, True)])
def test_an_origin_that_stands_behind_the_finish_leaves_the_transaction_out(
    both: Both, behind: int, passes: bool
) -> None:
    ready(both)
    both.sub("INSERT INTO t VALUES (2, 'local')")
    both.pub("INSERT INTO t VALUES (2, 'z')", "INSERT INTO t VALUES (3, 'z')")
    assert len(both.catch_up()) == 1
    both.at_finish(
        f"SELECT pg_replication_origin_advance('pg_' || oid, '{{}}'::pg_lsn + {behind}) FROM pg_subscription"
    )
    assert (both.catch_up() == []) is passes
    assert both.rows("SELECT * FROM t") == [("2", "local"), *([("3", "z")] if passes else [])]


def test_skip_leaves_out_the_transaction_that_finishes_there(both: Both) -> None:
    ready(both)
    both.sub("INSERT INTO t VALUES (2, 'local')")
    both.pub("BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "COMMIT", "INSERT INTO t VALUES (3)")
    assert len(both.catch_up()) == 1
    both.at_finish("ALTER SUBSCRIPTION s SKIP (lsn = '{}')")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("2",), ("3",)]
    assert both.rows("SELECT subskiplsn FROM pg_subscription") == [("0/0",)]


def test_skip_is_cleared_by_the_first_transaction_that_is_not_empty(both: Both) -> None:
    ready(both, "CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE other (a int)")
    both.sub("ALTER SUBSCRIPTION s SKIP (lsn = '7F/FFFFFFFF')")
    both.pub("INSERT INTO other VALUES (1)")
    both.catch_up()
    assert both.rows("SELECT subskiplsn FROM pg_subscription") == [("7F/FFFFFFFF",)]
    both.pub("INSERT INTO t VALUES (1)")
    assert both.catch_up() == []
    assert both.rows("SELECT subskiplsn FROM pg_subscription") == [("0/0",)]
    assert both.rows("SELECT * FROM t") == [("1",)]


# --- A8 ---------------------------------------------------------------------------------------------------------------

FULL = "ALTER TABLE t REPLICA IDENTITY FULL"


def test_with_a_key_at_the_subscriber_a_whole_old_row_is_found_by_it_alone(both: Both) -> None:
    both.pub(
        "CREATE TABLE t (a int, b text)", FULL, "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1, 'x')"
    )
    both.sub(T)
    both.subscribe()
    both.sub("UPDATE t SET b = 'local'")
    both.pub("UPDATE t SET b = 'y' WHERE b = 'x'")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", "y")]


def test_without_a_key_a_column_that_is_not_sent_must_be_null(both: Both) -> None:
    both.pub("CREATE TABLE t (a int, b text)", FULL, "CREATE PUBLICATION p FOR TABLE t")
    both.pub("INSERT INTO t VALUES (1, 'x'), (2, 'x')")
    both.sub("CREATE TABLE t (a int, b text, c text DEFAULT 'hr')")
    both.subscribe()
    both.sub("UPDATE t SET c = NULL WHERE a = 2")
    both.pub("UPDATE t SET b = 'y'", "DELETE FROM t")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", "x", "hr")]


def test_without_a_key_nulls_are_equal_and_generated_columns_do_not_count(both: Both) -> None:
    both.pub("CREATE TABLE t (a int, b text)", FULL, "CREATE PUBLICATION p FOR TABLE t")
    both.pub("INSERT INTO t VALUES (NULL, 'x'), (1, NULL)")
    both.sub("CREATE TABLE t (a int, g int GENERATED ALWAYS AS (a * 2) STORED, b text)")
    both.subscribe()
    both.pub("UPDATE t SET b = 'y' WHERE a IS NULL", "DELETE FROM t WHERE b IS NULL")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [(None, None, "y")]


def test_a_change_hits_one_of_several_equal_rows(both: Both) -> None:
    ready(both, "CREATE TABLE t (a int, b text)", FULL)
    both.pub("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (1, 'x')")
    both.catch_up()
    both.sub("INSERT INTO t VALUES (1, 'x')")
    both.pub("UPDATE t SET b = 'y'")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", "x"), ("1", "y"), ("1", "y"), ("1", "y")]


def test_values_of_a_type_without_equality_are_compared_only_where_the_rest_is_equal(both: Both) -> None:
    ready(both, "CREATE TABLE t (a int, b json)", FULL)
    both.pub("INSERT INTO t VALUES (1, '1'), (2, NULL)")
    both.pub("DELETE FROM t WHERE a = 2")
    assert both.catch_up() == []
    both.pub("DELETE FROM t WHERE a = 1")
    (failure,) = both.catch_up()
    assert failure.message == "could not identify an equality operator for type json"


def test_what_cannot_tell_a_row_stops_once_an_update_or_delete_arrives(both: Both) -> None:
    both.pub(T, "CREATE PUBLICATION p FOR TABLE t")
    both.sub("CREATE TABLE t (a int, b text)")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (1, 'x')")
    assert both.catch_up() == []
    both.pub("UPDATE t SET b = 'y'")
    (failure,) = both.catch_up()
    assert failure.message == (
        'logical replication target relation "public.t" has neither REPLICA IDENTITY index nor PRIMARY KEY and '
        "published relation does not have REPLICA IDENTITY FULL"
    )
    both.sub("ALTER TABLE t ADD PRIMARY KEY (b)")
    (failure,) = both.catch_up()
    assert failure.message == (
        'publisher did not send replica identity column expected by the logical replication target relation "public.t"'
    )


def test_a_key_that_is_checked_later_finds_no_row(both: Both) -> None:
    both.pub(T, "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "CREATE PUBLICATION p FOR TABLE t")
    both.sub("CREATE TABLE t (a int PRIMARY KEY DEFERRABLE, b text)")
    assert both.subscribe() == []
    both.pub("UPDATE t SET b = 'new' WHERE a = 1")
    (failure,) = both.catch_up()
    assert failure.message.startswith('logical replication target relation "public.t" has neither REPLICA IDENTITY')
    both.sub("ALTER TABLE t REPLICA IDENTITY FULL")
    assert len(both.catch_up()) == 1
    both.sub("CREATE UNIQUE INDEX own ON t (a)", "ALTER TABLE t REPLICA IDENTITY USING INDEX own")
    assert both.catch_up() == []
    both.sub("ALTER TABLE t REPLICA IDENTITY NOTHING")
    both.pub("ALTER TABLE t REPLICA IDENTITY FULL", "DELETE FROM t WHERE a = 2")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", "new")]


def test_the_replica_identity_of_the_subscriber_goes_before_its_key(both: Both) -> None:
    both.pub("CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL UNIQUE)", FULL, "INSERT INTO t VALUES (1, 'x')")
    both.sub("CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL UNIQUE)")
    both.sub("ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_key")
    both.pub("CREATE PUBLICATION p FOR TABLE t")
    both.subscribe()
    both.sub("UPDATE t SET a = 7")
    both.pub("UPDATE t SET a = 2")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("2", "x")]


PARTS = (
    "CREATE TABLE t (a int, b text) PARTITION BY RANGE (a)",
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (50) TO (100)",
)


def test_a_partitioned_target_is_routed_and_each_leaf_judged_for_itself(both: Both) -> None:
    """A8."""
    both.pub(T, "CREATE PUBLICATION p FOR TABLE t")
    both.sub(*PARTS, "ALTER TABLE t1 ADD PRIMARY KEY (a)")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (1, 'x'), (60, 'y')", "UPDATE t SET b = 'new' WHERE a = 1")
    assert both.catch_up() == []
    assert both.rows("SELECT tableoid::regclass, * FROM t") == [("t1", "1", "new"), ("t2", "60", "y")]
    both.pub("UPDATE t SET a = 61 WHERE a = 1")
    assert both.catch_up() == []
    assert both.rows("SELECT tableoid::regclass, * FROM t") == [("t2", "60", "y"), ("t2", "61", "new")]
    both.pub("UPDATE t SET b = 'new' WHERE a = 60")
    (failure,) = both.catch_up()
    assert failure.message.startswith('logical replication target relation "public.t')


def test_a_row_without_a_partition_stops(both: Both) -> None:
    both.pub(T, "CREATE PUBLICATION p FOR TABLE t")
    both.sub(*PARTS)
    both.subscribe()
    both.pub("INSERT INTO t VALUES (100)")
    (failure,) = both.catch_up()
    assert failure.message == 'no partition of relation "t" found for row'
    assert failure.detail == "Partition key of the failing row contains (a) = (100)."


def test_rows_that_are_not_there_are_passed_over(both: Both) -> None:
    ready(both)
    both.pub("INSERT INTO t VALUES (1), (2), (3)")
    both.catch_up()
    both.sub("DELETE FROM t WHERE a < 3")
    both.pub("UPDATE t SET b = 'x'", "DELETE FROM t WHERE a = 2")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("3", "x")]


def test_what_is_not_sent_has_its_default_or_its_number(both: Both) -> None:
    """Identity columns too, copied and streamed; one that is sent is written as sent, also GENERATED ALWAYS."""
    both.pub("CREATE TABLE t (a int PRIMARY KEY, sent int)", "INSERT INTO t VALUES (1, 100)")
    both.sub("CREATE TABLE t (a int PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY, s serial, d text DEFAULT 'd',"
             " sent int GENERATED ALWAYS AS IDENTITY)")  # fmt: skip
    both.pub("CREATE PUBLICATION p FOR TABLE t")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (2, 200), (3, 300)", "UPDATE t SET a = 10 WHERE a = 1")
    assert both.catch_up() == []
    both.sub("INSERT INTO t VALUES (4)", "CREATE TABLE u (a int PRIMARY KEY, n serial)", "INSERT INTO u VALUES (7, 0)")
    both.pub("CREATE TABLE u (a int PRIMARY KEY)", "ALTER PUBLICATION p ADD TABLE u")
    both.sub("ALTER SUBSCRIPTION s ENABLE", "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert both.rest() == []
    both.pub("INSERT INTO u VALUES (5)", "INSERT INTO u VALUES (6)", "INSERT INTO u VALUES (7)")
    assert len(both.catch_up()) == 1
    assert both.rows("SELECT * FROM u") == [("5", "1"), ("6", "2"), ("7", "0")]
    rows = [("10", "1", "1", "d", "100"), ("2", "2", "2", "d", "200"), ("3", "3", "3", "d", "300")]
    assert both.rows("SELECT * FROM t") == [*rows, ("4", "4", "4", "d", "1")]


# --- A10, A11 ---------------------------------------------------------------------------------------------------------


def test_rows_behind_a_restart_take_numbers_from_the_start(both: Both) -> None:
    both.pub("CREATE TABLE t (a int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    both.sub("CREATE TABLE t (a int PRIMARY KEY, i int GENERATED BY DEFAULT AS IDENTITY (START 7), s serial)")
    assert both.subscribe() == []
    both.sub("INSERT INTO t VALUES (-1), (-2)")
    both.pub(
        "BEGIN", "INSERT INTO t VALUES (1)", "TRUNCATE t RESTART IDENTITY", "INSERT INTO t VALUES (2), (3)", "COMMIT"
    )
    both.pub("INSERT INTO t VALUES (4)")
    assert both.catch_up() == []
    both.sub("INSERT INTO t VALUES (5)")
    assert both.rows("SELECT * FROM t") == [("2", "7", "1"), ("3", "8", "2"), ("4", "9", "3"), ("5", "10", "4")]


def test_a_published_table_that_is_here_and_not_refreshed_is_ignored_one_that_is_missing_stops_all(both: Both) -> None:
    """A10."""
    ready(both, T, "CREATE TABLE u (a int)")
    both.pub("ALTER PUBLICATION p ADD TABLE u", "INSERT INTO u VALUES (1)", "INSERT INTO t VALUES (1)")
    assert both.catch_up() == []
    assert (both.rows("SELECT a FROM t"), both.rows("SELECT a FROM u")) == ([("1",)], [])
    both.pub("CREATE TABLE m (a int)", "ALTER PUBLICATION p ADD TABLE m", "INSERT INTO m VALUES (1)")
    both.pub("INSERT INTO t VALUES (2)")
    (failure,) = both.catch_up()
    assert failure.message == 'logical replication target relation "public.m" does not exist'
    assert both.rows("SELECT a FROM t") == [("1",)]
    both.sub("CREATE TABLE m (b int)")
    (failure,) = both.catch_up()
    assert failure.message == 'logical replication target relation "public.m" is missing replicated column: "a"'


def test_a_table_is_known_by_its_name(both: Both) -> None:
    ready(both)
    both.sub("ALTER TABLE t RENAME TO old", T)
    both.pub("INSERT INTO t VALUES (1)")
    assert both.catch_up() == []
    assert (both.rows("SELECT * FROM t"), both.rows("SELECT * FROM old")) == ([], [])


def test_foreign_keys_are_not_checked(both: Both) -> None:
    """A11."""
    both.each("CREATE TABLE k (id int PRIMARY KEY)", "CREATE TABLE t (a int PRIMARY KEY)")
    both.sub("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES k", "INSERT INTO k VALUES (1)")
    both.pub("INSERT INTO t VALUES (5)", "INSERT INTO k VALUES (1)", "CREATE PUBLICATION p FOR TABLE t, k")
    both.sub("DELETE FROM k")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (1), (6)", "DELETE FROM k")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1",), ("5",), ("6",)]


def test_not_null_is_checked(both: Both) -> None:
    ready(both)
    both.sub("ALTER TABLE t ALTER b SET NOT NULL", "ALTER TABLE t ADD c int NOT NULL DEFAULT 5")
    both.pub("INSERT INTO t VALUES (1, 'x')", "INSERT INTO t VALUES (2, NULL)")
    (failure,) = both.catch_up()
    assert failure.message == 'null value in column "b" of relation "t" violates not-null constraint'
    assert failure.detail == "Failing row contains (2, null, 5)."
    assert both.rows("SELECT * FROM t") == [("1", "x", "5")]


# --- A16 --------------------------------------------------------------------------------------------------------------


def test_values_travel_as_text(both: Both) -> None:
    kinds = "b bool, c char(5), d numeric, e timestamptz, f double precision, g date, h interval, i int[], j bytea"
    both.pub(f"CREATE TABLE t (a int PRIMARY KEY, {kinds})", "CREATE PUBLICATION p FOR TABLE t")
    both.sub("CREATE TABLE t (a bigint PRIMARY KEY, b text, c text, d text, e text, f numeric, g text, h text, i text,"
             " j text)")  # fmt: skip
    both.pub("SET datestyle = 'German, DMY'", "SET intervalstyle = 'iso_8601'", "SET extra_float_digits = -10")
    row = "true, 'ab', 5.00, '2024-01-02 12:00:00+02', 0.1, '2024-01-02', '1 day 02:03', '{1,2}', 'x'"
    both.pub(f"INSERT INTO t VALUES (1, {row})")
    both.subscribe()
    both.pub(f"INSERT INTO t VALUES (2, {row})")
    assert both.catch_up() == []
    both.pub("RESET ALL")
    rows = both.rows("SELECT b, c, d, e, f, g, h, i, j FROM t")
    assert rows[0][:3] == ("t", "ab   ", "5.00")
    assert rows[0][4:] == ("0.1", "2024-01-02", "1 day 02:03:00", "{1,2}", "\\x78")


@pytest.mark.parametrize(
    ("theirs", "value", "ours", "message"),
    dose(
        [
            ("numeric", "5.00", "int", 'invalid input syntax for type integer: "5.00"'),
            ("text", "'abc'", "int", 'invalid input syntax for type integer: "abc"'),
            ("bigint", "3000000000", "int", 'value "3000000000" is out of range for type integer'),
            ("text", "'12345'", "varchar(4)", "value too long for type character varying(4)"),
            ("bool", "true", "int", 'invalid input syntax for type integer: "t"'),
        ],
        2,
    ),
)
def test_a_value_that_does_not_convert_names_its_column(
    both: Both, theirs: str, value: str, ours: str, message: str
) -> None:
    both.pub(f"CREATE TABLE t (a int PRIMARY KEY, b {theirs})", "CREATE PUBLICATION p FOR TABLE t")
    both.sub(f"CREATE TABLE t (b {ours}, a int PRIMARY KEY)")
    both.subscribe()
    both.pub(f"INSERT INTO t VALUES (1, {value})")
    (failure,) = both.catch_up()
    assert failure.message == message
    assert failure.context == CONTEXT.format("INSERT", ' column "b"')


def test_binary_values_are_received_as_the_columns_type(both: Both) -> None:
    """With binary = true it is the bytes that travel, whatever the publisher's type meant by them."""
    kinds = {
        "int": ("real", "5"), "bigint": ("double precision", "7"), "text": ("int", "'abcd'"), "bool": ("text", "true"),
        "jsonb": ("text", "'[1]'"), "oid": ("int", "4294967295"), "date": ("real", "'2026-11-22'"), "uuid": ("bytea",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"), "interval": ("bytea", "'1 mon 2 days 00:00:03'"), "char(5)": ("text",
        "'ab'"), "time": ("bigint", "'10:00'"), "timestamptz": ("timestamp(0)", "'2026-01-01 10:00:00.6+00'"),
        "numeric": ("bytea", "-1234567.00890"), "numeric(9,3)": ("bytea", "0.000"), "float8": ("bigint", "1.5"),
    }  # fmt: skip
    for where, columns in (("pub", kinds), ("sub", [ours for ours, _ in kinds.values()])):
        both.done(where, f"CREATE TABLE t (a int PRIMARY KEY, {', '.join(f'c{n} {k}' for n, k in enumerate(columns))})")
    both.done("pub", "CREATE PUBLICATION p FOR TABLE t")
    row = ", ".join(value for _, value in kinds.values())
    both.pub(f"INSERT INTO t VALUES (1, {row})")
    assert both.subscribe(options="binary = true") == []
    both.pub(f"INSERT INTO t VALUES (2, {row})", "UPDATE t SET a = 3 WHERE a = 1")
    assert both.catch_up() == []
    (first, second) = both.rows("SELECT * FROM t")
    assert (first[1:], second[:5]) == (second[1:], ("3", "7e-45", "3.5e-323", "1633837924", "\x01"))


@pytest.mark.parametrize(
    ("theirs", "value", "ours", "message"),
    dose(
        [
            ("bigint", "1", "int", "incorrect binary data format in logical replication column 2"),
            ("int", "1", "bigint", "insufficient data left in message"),
            ("numeric", "1.5", "text", 'invalid byte sequence for encoding "UTF8": 0x00'),
            (
                "int[]",
                "'{1}'",
                "bigint[]",
                "binary data has array element type 23 (integer) instead of expected 20 (bigint)",
            ),
        ],
        4,
    ),
)
def test_binary_values_that_do_not_fit_stop(both: Both, theirs: str, value: str, ours: str, message: str) -> None:
    both.pub(f"CREATE TABLE t (a int PRIMARY KEY, b {theirs})", "CREATE PUBLICATION p FOR TABLE t")
    both.sub(f"CREATE TABLE t (a int PRIMARY KEY, b {ours} CHECK (b IS NOT NULL))")
    both.subscribe(options="binary = true")
    both.pub(f"INSERT INTO t VALUES (1, {value})")
    (failure,) = both.catch_up()
    assert (failure.message, failure.context) == (message, CONTEXT.format("INSERT", ' column "b"'))
    both.sub("ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s")
    (copied,) = both.subscribe(options="binary = true", name="again")
    assert copied.message == message.removesuffix(" in logical replication column 2")
    assert copied.context == "COPY t, line 1, column b"
    both.pub("UPDATE t SET b = NULL")
    (checked,) = both.catch_up("again")
    assert checked.context == "COPY t, line 1"
