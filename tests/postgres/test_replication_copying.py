"""Initial copies, origins and cascades, on a real server and here."""

from __future__ import annotations

import pytest

from tests.harness.programs import eventually
from tests.postgres.both_replicas import Both

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
CREATE = "CREATE PUBLICATION {} FOR TABLE t"


# --- A6: each attempt at a table takes its own snapshot ---------------------------------------------------------------


def test_a_copy_takes_the_rows_as_they_are_when_it_begins(both: Both) -> None:
    """A6."""
    both.each(T)
    both.pub("INSERT INTO t VALUES (1), (2)", CREATE.format("p"))
    both.create("s", "p", "enabled = false")
    both.pub("DELETE FROM t WHERE a = 1", "INSERT INTO t VALUES (3)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("2",), ("3",)]


def test_a_copy_that_failed_heals_when_the_publisher_removes_the_row(both: Both) -> None:
    both.each(T)
    both.pub("INSERT INTO t VALUES (1, 'x'), (2, 'y')", CREATE.format("p"))
    both.sub("INSERT INTO t VALUES (2, 'local')")
    (failure,) = both.subscribe()
    assert failure.message == 'duplicate key value violates unique constraint "t_pkey"'
    assert failure.context is not None
    assert failure.context.startswith("COPY t, line ")
    assert both.rows("SELECT srsubstate FROM pg_subscription_rel") == [("d",)]
    made = "SELECT count(*) FROM pg_replication_slots WHERE slot_name ~ '^pg_[0-9]+_sync_[0-9]+_[0-9]+$'"
    assert both.rows(made, "pub") == [("1",)]
    both.pub("DELETE FROM t WHERE a = 2")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", "x"), ("2", "local")]


@pytest.mark.parametrize("trigger", ["", "REPLICA"])
def test_the_faults_of_rows_come_before_a_later_one_of_the_publisher(both: Both, trigger: str) -> None:
    both.pub("CREATE TABLE t (a int PRIMARY KEY, b text)", "INSERT INTO t VALUES (1, 'x'), (0, '7'), (2, '8')")
    both.sub("CREATE TABLE t (a int PRIMARY KEY, b int)")
    if trigger:
        both.sub("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin return new; end'")
        both.sub("CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()")
        both.sub(f"ALTER TABLE t ENABLE {trigger} TRIGGER r")
    both.pub("CREATE PUBLICATION p FOR TABLE t WHERE (10 / a > 0)")
    (failure,) = both.subscribe()
    assert failure.context == 'COPY t, line 1, column b: "x"'
    both.pub("UPDATE t SET b = '6' WHERE a = 1")
    (failure,) = both.catch_up()
    assert failure.message == "could not receive data from WAL stream: ERROR:  division by zero"


def test_other_tables_go_on_while_one_cannot_be_copied(both: Both) -> None:
    """A6."""
    both.each(T, "CREATE TABLE u (a int PRIMARY KEY)")
    both.pub("INSERT INTO t VALUES (1)", "CREATE PUBLICATION p FOR TABLE t, u")
    both.sub("INSERT INTO t VALUES (1, 'local')")
    both.create("s", "p", "enabled = false")  # a failure would disable it before it is told not to
    both.sub("ALTER SUBSCRIPTION s SET (disable_on_error = false)", "ALTER SUBSCRIPTION s ENABLE")
    both.pub("INSERT INTO u VALUES (1), (2)")
    both.ours.catch_up("s")
    eventually(
        lambda: len(both.real.rows("sub", "SELECT * FROM u")) == 2, 600
    )  # the server tries the other again and again
    assert both.rows("SELECT * FROM u") == [("1",), ("2",)]
    assert both.rows("SELECT * FROM t") == [("1", "local")]
    both.sub("ALTER SUBSCRIPTION s DISABLE")
    both.real.quiet()


def test_a_table_that_comes_again_is_copied_again(both: Both) -> None:
    both.each("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    both.pub("INSERT INTO t VALUES (1)", CREATE.format("p"), "CREATE PUBLICATION q FOR TABLE u")
    both.subscribe("p, q")
    both.sub("ALTER SUBSCRIPTION s ENABLE", "ALTER SUBSCRIPTION s DROP PUBLICATION p")
    assert both.rest() == []
    both.sub("ALTER SUBSCRIPTION s ENABLE", "ALTER SUBSCRIPTION s ADD PUBLICATION p")
    assert both.rest() == []
    assert both.rows("SELECT a FROM t") == [("1",), ("1",)]


def test_a_copy_that_fails_obeys_disable_on_error_and_names_its_column(both: Both) -> None:
    both.pub(T, "INSERT INTO t VALUES (1, 'x1')", CREATE.format("p"))
    both.sub("CREATE TABLE t (a int PRIMARY KEY, b int)")
    (failure,) = both.subscribe()
    assert failure.message == 'invalid input syntax for type integer: "x1"'
    assert failure.context == 'COPY t, line 1, column b: "x1"'


def test_a_line_that_cannot_be_copied_is_shown_as_it_was_sent(both: Both) -> None:
    both.pub("CREATE TABLE t (a int, b bytea, c text)", CREATE.format("p"))
    both.pub("INSERT INTO t VALUES (NULL, 'x', E'tab\\t line\\n')")
    both.sub("CREATE TABLE t (a int NOT NULL, b bytea, c text)")
    (failure,) = both.subscribe()
    assert failure.context == r'COPY t, line 1: "\N	\\x78	tab\t line\n"'


def test_a_copy_sends_what_any_filter_lets_through(both: Both) -> None:
    """Whatever the publications publish of changes."""
    both.each(T)
    both.pub("INSERT INTO t VALUES (1, 'x'), (5, 'y'), (9, 'z')")
    both.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a < 3) WITH (publish = 'delete')")
    both.pub("CREATE PUBLICATION q FOR TABLE t WHERE (a > 7) WITH (publish = '')")
    both.subscribe("p, q")
    assert both.rows("SELECT a FROM t") == [("1",), ("9",)]


def test_a_copy_of_a_partitioned_table(both: Both) -> None:
    """By its leaves, or as the root into whatever is there."""
    parts = (
        "CREATE TABLE m (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE m2 (b text, a int NOT NULL)",
        "ALTER TABLE m ATTACH PARTITION m2 FOR VALUES FROM (50) TO (100)",
    )
    both.pub(*parts, "INSERT INTO m VALUES (1, 'x'), (60, 'y')", "CREATE PUBLICATION p FOR TABLE m")
    both.pub("CREATE PUBLICATION via FOR TABLE m WHERE (a > 5) WITH (publish_via_partition_root)")
    both.sub(parts[0], "CREATE TABLE m1 PARTITION OF m DEFAULT", "CREATE TABLE m2 (b text, a int PRIMARY KEY)")
    both.subscribe()
    assert both.rows("SELECT tableoid::regclass, a FROM m") == [("m1", "1")]
    assert both.rows("SELECT * FROM m2") == [("y", "60")]
    both.sub("TRUNCATE m, m2")
    both.subscribe("via", name="second")
    assert both.rows("SELECT tableoid::regclass, a FROM m") == [("m1", "60")]


def test_a_copy_of_the_root_visits_partitions_by_their_bounds(both: Both) -> None:
    """Not by their age, and those of a partition before its neighbour."""
    both.pub("CREATE TABLE m (a int, b int) PARTITION BY RANGE (a)")
    both.pub(
        "CREATE TABLE rest PARTITION OF m DEFAULT", "CREATE TABLE high PARTITION OF m FOR VALUES FROM (50) TO (99)"
    )
    both.pub("CREATE TABLE low PARTITION OF m FOR VALUES FROM (0) TO (50) PARTITION BY LIST (b)")
    both.pub("CREATE TABLE low2 PARTITION OF low FOR VALUES IN (2)", "CREATE TABLE low1 PARTITION OF low DEFAULT")
    both.pub("INSERT INTO m VALUES (500, 1), (60, 1), (1, 1), (1, 2)")
    both.pub("CREATE PUBLICATION p FOR TABLE m WITH (publish_via_partition_root)")
    both.sub("CREATE TABLE m (a int, b int, n serial)")
    both.subscribe()
    assert both.rows("SELECT n, a, b FROM m") == [("1", "1", "2"), ("2", "1", "1"), ("3", "60", "1"), ("4", "500", "1")]


def test_copied_rows_take_defaults_and_meet_checks(both: Both) -> None:
    both.pub(T, "INSERT INTO t VALUES (1, 'x'), (13, 'y')", CREATE.format("p"))
    both.sub("CREATE TABLE t (d int DEFAULT 7, a int PRIMARY KEY, b text, CHECK (a <> 13))")
    (failure,) = both.subscribe()
    assert failure.message == 'new row for relation "t" violates check constraint "t_a_check"'
    assert failure.context == 'COPY t, line 2: "13\ty"'
    both.pub("DELETE FROM t WHERE a = 13")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("7", "1", "x")]


def test_a_copy_needs_select_at_the_publisher_the_stream_does_not(both: Both) -> None:
    """D."""
    both.each(T)
    both.pub("INSERT INTO t VALUES (1)", CREATE.format("p"), "CREATE ROLE reader LOGIN REPLICATION")
    both.create("s", "p", "enabled = false")
    for replicas in (both.real, both.ours):
        info = replicas.conninfo("pub").replace("user=postgres ", "") + " user=reader"
        replicas.run("sub", f"ALTER SUBSCRIPTION s CONNECTION '{info}'")
    (failure,) = both.catch_up()
    assert failure.message == (
        'could not start initial contents copy for table "public.t": ERROR:  permission denied for table t'
    )
    both.pub("GRANT SELECT (a) ON t TO reader")
    assert len(both.catch_up()) == 1
    both.pub("GRANT SELECT (b) ON t TO reader")
    assert both.catch_up() == []
    both.pub("REVOKE ALL ON t FROM reader", "REVOKE SELECT (a, b) ON t FROM reader", "INSERT INTO t VALUES (2)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("1",), ("2",)]


def test_row_security_of_the_publisher_counts_for_a_copy(both: Both) -> None:
    both.each(T)
    both.pub("INSERT INTO t VALUES (1)", CREATE.format("p"), "CREATE ROLE reader LOGIN REPLICATION")
    both.pub("GRANT SELECT ON t TO reader", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    both.create("s", "p", "enabled = false")
    for replicas in (both.real, both.ours):
        info = replicas.conninfo("pub").replace("user=postgres ", "") + " user=reader"
        replicas.run("sub", f"ALTER SUBSCRIPTION s CONNECTION '{info}'")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == []


# --- A12, A13: origins and cascades -----------------------------------------------------------------------------------


def cascade(both: Both, publication: str, options: str = "") -> None:
    """pub → sub → third."""
    for where in ("pub", "sub", "third"):
        both.done(where, T)
    both.pub("INSERT INTO t VALUES (1, 'copied')", CREATE.format("p"))
    both.sub(publication)
    both.subscribe()
    both.subscribe("q", options, name="s3", source="sub", at="third")


@pytest.mark.parametrize(("origin", "there"), [("any", ["1", "2", "3"]), ("none", ["3"])])
def test_with_origin_none_nothing_comes_that_came_from_elsewhere(both: Both, origin: str, there: list[str]) -> None:
    """Neither what was copied nor what was streamed (A12)."""
    for where in ("pub", "sub", "third"):
        both.done(where, T)
    both.pub("INSERT INTO t VALUES (1, 'copied')", CREATE.format("p"))
    both.sub(CREATE.format("q"))
    both.subscribe("q", f"origin = {origin}", name="s3", source="sub", at="third")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (2, 'streamed')")
    assert both.catch_up() == []
    both.sub("INSERT INTO t VALUES (3, 'its own')")
    assert both.catch_up("s3", "third") == []
    assert both.rows("SELECT a FROM t", "third") == [(a,) for a in there]


def test_what_is_published_on_hears_of_each_change(both: Both) -> None:
    """Inserted and deleted again is an insert for who hears of inserts only, in one transaction or several."""
    cascade(both, "CREATE PUBLICATION q FOR TABLE t WITH (publish = 'insert')")
    both.pub("INSERT INTO t VALUES (2, 'x')", "DELETE FROM t WHERE a = 2")
    both.pub("BEGIN", "INSERT INTO t VALUES (3, 'y')", "UPDATE t SET b = 'z' WHERE a = 3", "DELETE FROM t", "COMMIT")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == []
    assert both.catch_up("s3", "third") == []
    assert both.rows("SELECT * FROM t", "third") == [("1", "copied"), ("2", "x"), ("3", "y")]


def test_what_is_published_on_whole_arrives_whole(both: Both) -> None:
    cascade(both, CREATE.format("q"))
    both.pub("INSERT INTO t VALUES (2, 'x')", "UPDATE t SET b = 'y' WHERE a = 1", "UPDATE t SET a = 5 WHERE a = 2")
    both.pub("BEGIN", "TRUNCATE t", "INSERT INTO t VALUES (7)", "COMMIT", "INSERT INTO t VALUES (8)")
    assert both.catch_up() == []
    assert both.catch_up("s3", "third") == []
    assert both.rows("SELECT a FROM t", "third") == [("7",), ("8",)]


def test_a_target_that_is_published_needs_an_identity_of_its_own(both: Both) -> None:
    both.pub(T, "INSERT INTO t VALUES (1, 'x')", CREATE.format("p"))
    both.sub(T)
    both.subscribe()
    both.sub(CREATE.format("q"), "ALTER TABLE t REPLICA IDENTITY NOTHING")
    both.pub("UPDATE t SET b = 'y'")
    (failure,) = both.catch_up()
    assert (
        failure.message == 'cannot update table "t" because it does not have a replica identity and publishes updates'
    )
    both.sub("ALTER TABLE t REPLICA IDENTITY FULL", "DROP PUBLICATION q", "CREATE PUBLICATION q FOR TABLE t (a)")
    (failure,) = both.catch_up()
    assert failure.message == 'cannot update table "t"'
    assert failure.detail == "Column list used by the publication does not cover the replica identity."


def test_two_databases_that_subscribe_to_each_other_come_to_rest(both: Both) -> None:
    both.each(T)
    both.pub(CREATE.format("p"))
    both.sub(CREATE.format("q"))
    both.subscribe("p", "origin = none, copy_data = false", name="one")
    both.subscribe("q", "origin = none, copy_data = false", name="two", source="sub", at="pub")
    both.pub("INSERT INTO t VALUES (1, 'pub')")
    both.sub("INSERT INTO t VALUES (2, 'sub')")
    for _ in range(2):
        assert both.catch_up("one") == []
        assert both.catch_up("two", "pub") == []
    both.pub("UPDATE t SET b = 'both' WHERE a = 2")
    assert both.catch_up("one") == []
    assert both.catch_up("two", "pub") == []
    assert both.rows("SELECT * FROM t") == both.rows("SELECT * FROM t", "pub") == [("1", "pub"), ("2", "both")]
