"""What is sent of a change, on a real server and here: the catalog of that moment, publish lists, filters, lists of
columns, partitions, TRUNCATE.
"""

from __future__ import annotations

import re

import pytest

from pgrepl.replication.wire import messages
from tests.harness.dose import dose
from tests.postgres.both_replicas import Both

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
PARTS = (
    "CREATE TABLE m (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)",
    "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE m2 PARTITION OF m FOR VALUES FROM (50) TO (100)",
)
WAL_ERROR = (
    "could not receive data from WAL stream: ERROR:  {}\n"
    'CONTEXT:  slot "s", output plugin "pgoutput", in the {} callback, associated LSN LSN'
)


def test_what_was_published_when_it_changed_is_sent(both: Both) -> None:
    """A1: also behind the end of the publication of its table, also inside one transaction."""
    both.each(T, "CREATE TABLE u (a int PRIMARY KEY)")
    both.pub("CREATE PUBLICATION p FOR TABLE t, u")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (1)", "ALTER PUBLICATION p DROP TABLE t", "INSERT INTO t VALUES (2)")
    both.pub("BEGIN", "INSERT INTO u VALUES (1)", "ALTER PUBLICATION p SET (publish = 'delete')")
    both.pub("INSERT INTO u VALUES (2)", "COMMIT", "INSERT INTO u VALUES (3)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("1",)]
    assert both.rows("SELECT a FROM u") == [("1",)]


@pytest.mark.parametrize(("change", "callback"), [("INSERT INTO t VALUES (1)", "change"), ("TRUNCATE t", "truncate")])
def test_changes_from_before_a_publication_stop_its_subscription(both: Both, change: str, callback: str) -> None:
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t")
    both.subscribe()
    both.pub(change, "CREATE PUBLICATION later FOR TABLE t")
    both.sub("ALTER SUBSCRIPTION s ADD PUBLICATION later WITH (refresh = false)")
    (failure,) = both.catch_up()
    assert failure.message == WAL_ERROR.format('publication "later" does not exist', callback)


def test_a_publication_may_be_made_later_where_nothing_changed_meanwhile(both: Both) -> None:
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t")
    both.subscribe("p, later")
    both.pub("DROP PUBLICATION p", "CREATE PUBLICATION later FOR TABLE t WHERE (a > 5)", "CREATE PUBLICATION p")
    both.pub("INSERT INTO t VALUES (1), (6)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("6",)]


def test_publish_is_asked_of_the_operation_before_the_filter_turns_it(both: Both) -> None:
    """A7: an UPDATE that enters the filter is an INSERT, and is sent where only updates are published."""
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a > 10) WITH (publish = 'update')")
    both.pub("INSERT INTO t VALUES (1), (20)")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (30)", "UPDATE t SET a = 11 WHERE a = 1", "UPDATE t SET a = 2 WHERE a = 20")
    both.pub("DELETE FROM t WHERE a = 11")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("11",)]


def test_updates_are_judged_by_the_filters_of_updates(both: Both) -> None:
    """The filter of another operation does not count for them, nor void theirs (A7)."""
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a > 10) WITH (publish = 'update')")
    both.pub("CREATE PUBLICATION q FOR TABLE t WITH (publish = 'insert')")
    both.subscribe("p, q")
    both.pub("INSERT INTO t VALUES (1), (20)", "UPDATE t SET b = 'new'", "UPDATE t SET a = 5 WHERE a = 20")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", None)]


def test_operations_are_united_and_filters_are_those_of_the_topmost_ancestor(both: Both) -> None:
    """A7."""
    both.each(*PARTS)
    both.pub("CREATE PUBLICATION leaf FOR TABLE m2 WHERE (a > 60) WITH (publish = 'insert')")
    both.pub("CREATE PUBLICATION root FOR TABLE m WHERE (a > 90) WITH (publish = 'update', publish_via_partition_root)")
    both.subscribe("leaf, root")
    both.pub("INSERT INTO m VALUES (10), (55), (95)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM m") == [("55",), ("95",)]


@pytest.mark.parametrize(("publish", "left"), [("update", [("1",), ("60",)]), ("delete", [("60",)]), ("insert", [])])
def test_a_row_that_moves_to_another_leaf_is_a_delete_and_an_insert(
    both: Both, publish: str, left: list[tuple[str]]
) -> None:
    """A7."""
    both.each(*PARTS)
    both.pub("INSERT INTO m VALUES (1), (60)")
    both.pub(
        f"CREATE PUBLICATION p FOR TABLE m WHERE (a <> 70) WITH (publish = '{publish}', publish_via_partition_root)"
    )
    both.subscribe()
    both.pub("UPDATE m SET a = 61 WHERE a = 1")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM m") == (left or [("1",), ("60",), ("61",)])


@pytest.mark.slow
def test_the_filters_of_deletes_and_inserts_count_for_a_row_that_moves(both: Both) -> None:
    both.each(*PARTS)
    both.pub("INSERT INTO m VALUES (1), (2), (3)")
    both.pub("CREATE PUBLICATION p FOR TABLE m WHERE (a > 1 AND a < 62) WITH (publish_via_partition_root)")
    both.subscribe()
    both.pub("UPDATE m SET a = a + 59")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM m") == [("60",), ("61",)]


def test_column_lists_differ_when_changes_are_sent(both: Both) -> None:
    """Also where the other publication publishes TRUNCATE alone and has no list; a list of all columns is none (A7)."""
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t (a)", "CREATE PUBLICATION q WITH (publish = 'truncate')")
    both.pub("CREATE PUBLICATION r FOR TABLE t (a, b)", "CREATE PUBLICATION everything FOR ALL TABLES")
    both.subscribe("p, q")
    both.subscribe("r, everything", name="whole")
    both.pub("INSERT INTO t VALUES (1)", "ALTER PUBLICATION q ADD TABLE t", "INSERT INTO t VALUES (2)")
    (failure,) = both.catch_up()
    wrong = 'cannot use different column lists for table "public.t" in different publications'
    assert failure.message == WAL_ERROR.format(wrong, "change")
    both.sub("TRUNCATE t")
    assert both.catch_up("whole") == []
    assert both.rows("SELECT * FROM t") == [("1", None), ("2", None)]


def test_column_lists_differ_when_a_table_is_copied(both: Both) -> None:
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t (a)", "CREATE PUBLICATION q FOR TABLE t (a)")
    both.pub("INSERT INTO t VALUES (1, 'x')")
    both.create("s", "p, q", "enabled = false")
    both.pub("ALTER PUBLICATION q SET TABLE t (a, b)")
    (failure,) = both.catch_up()
    assert failure.message == 'cannot use different column lists for table "public.t" in different publications'
    assert both.rows("SELECT srsubstate FROM pg_subscription_rel") == [("d",)]
    both.pub("ALTER PUBLICATION q SET TABLE t (a)")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", None)]


def test_a_filter_that_fails_stops_what_is_sent(both: Both) -> None:
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t WHERE (10 / a > 2)")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (0)", "INSERT INTO t VALUES (2)")
    (failure,) = both.catch_up()
    assert failure.message == WAL_ERROR.format("division by zero", "change")
    assert both.rows("SELECT a FROM t") == [("1",)]


def test_a_change_of_nothing_overwrites(both: Both) -> None:
    both.each(T)
    both.pub("INSERT INTO t VALUES (1, 'x')", "CREATE PUBLICATION p FOR TABLE t")
    both.subscribe()
    both.sub("UPDATE t SET b = 'local'")
    both.pub("UPDATE t SET b = b")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", "x")]


def test_columns_are_those_of_the_change(both: Both) -> None:
    """A9: the default of a column that came later is not sent; a column that is gone is."""
    both.pub("CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE u (a int PRIMARY KEY, c int)")
    both.sub("CREATE TABLE t (a int PRIMARY KEY, b int DEFAULT 7)", "CREATE TABLE u (a int PRIMARY KEY)")
    both.pub("CREATE PUBLICATION p FOR TABLE t")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN b int DEFAULT 99", "INSERT INTO t VALUES (2)")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM t") == [("1", "7"), ("2", "99")]
    both.pub("ALTER PUBLICATION p ADD TABLE u", "INSERT INTO u VALUES (1, 1)", "ALTER TABLE u DROP COLUMN c")
    both.sub("ALTER SUBSCRIPTION s SET PUBLICATION p WITH (refresh = false)")
    (failure,) = both.catch_up()
    assert failure.message == 'logical replication target relation "public.u" is missing replicated column: "c"'


def test_labels_are_those_of_the_change(both: Both) -> None:
    both.pub(
        "CREATE TYPE mood AS ENUM ('low', 'high')", "CREATE TYPE c AS (m mood, l mood[])", "CREATE DOMAIN d AS mood",
        "CREATE TABLE x (m mood)", "CREATE TYPE r AS RANGE (subtype = mood)", "CREATE TABLE t (a int PRIMARY KEY)",
        "INSERT INTO t VALUES (0)", "ALTER TABLE t ADD n mood DEFAULT 'low', ADD m mood, ADD l mood[], ADD c c,"
        " ADD d d, ADD x x, ADD r r", "CREATE PUBLICATION p FOR TABLE t",
    )  # fmt: skip
    both.sub("CREATE TABLE t (a int PRIMARY KEY, n text, m text, l text, c text, d text, x text, r text)")
    both.subscribe()
    for number, (old, new) in enumerate((("low", "middle"), ("high", "low"), ("middle", "last"), ("low", "high"))):
        both.pub(
            f"UPDATE t SET m = '{old}', l = '{{{old}}}', c = ROW('{old}', '{{{old}}}'), d = '{old}', x = ROW('{old}'),"
            f" r = r('{old}', '{old}', '[]') WHERE a = 0",
            f"INSERT INTO t SELECT 10 + {number}, n, m, l, c, d, x, r FROM t WHERE a = 0",
            f"ALTER TYPE mood RENAME VALUE '{old}' TO '{new}'",
        )  # fmt: skip
    assert both.catch_up() == []
    labels = [row[2] for row in both.rows("SELECT * FROM t ORDER BY a")]
    assert labels == ["low", "low", "high", "middle", "low"]


# --- TRUNCATE ---------------------------------------------------------------------------------------------------------


def test_a_truncate_empties_what_was_there_and_no_filter_stops_it(both: Both) -> None:
    """A4."""
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a > 5)")
    both.subscribe()
    both.sub("INSERT INTO t VALUES (100)")
    both.pub("BEGIN", "INSERT INTO t VALUES (6)", "TRUNCATE t", "INSERT INTO t VALUES (6), (7), (1)", "COMMIT")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("6",), ("7",)]


def test_a_truncate_that_is_not_published_removes_nothing(both: Both) -> None:
    both.each(T)
    both.pub("CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert, update, delete')")
    both.subscribe()
    both.pub("INSERT INTO t VALUES (1)", "TRUNCATE t", "INSERT INTO t VALUES (2)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("1",), ("2",)]


@pytest.mark.slow
def test_a_truncate_takes_along_what_it_cascaded_to_and_nothing_more(both: Both) -> None:
    """Tables that are not published stay; a foreign key of the subscriber's forbids it (A4)."""
    both.each(T, "CREATE TABLE r (t int REFERENCES t)", "CREATE TABLE q (t int REFERENCES t)")
    both.sub("ALTER TABLE q DROP CONSTRAINT q_t_fkey")
    both.pub("CREATE PUBLICATION p FOR TABLE t, r")
    both.subscribe()
    both.sub("INSERT INTO q VALUES (1)")
    both.pub("INSERT INTO t VALUES (1)", "INSERT INTO r VALUES (1)", "TRUNCATE t CASCADE")
    assert both.catch_up() == []
    assert both.rows("SELECT * FROM r") == []
    assert both.rows("SELECT * FROM q") == [("1",)]
    both.sub("CREATE TABLE more (t int REFERENCES t)")
    both.pub("TRUNCATE t CASCADE")
    (failure,) = both.catch_up()
    assert failure.message == "cannot truncate a table referenced in a foreign key constraint"
    assert failure.detail == 'Table "more" references "t".'


def test_a_truncate_restarts_sequences(both: Both) -> None:
    """A4."""
    both.each("CREATE TABLE t (a int PRIMARY KEY, id int GENERATED BY DEFAULT AS IDENTITY)")
    both.pub("CREATE PUBLICATION p FOR TABLE t (a)")
    both.subscribe()
    both.sub("INSERT INTO t VALUES (1), (2), (3)")
    both.pub("TRUNCATE t RESTART IDENTITY")
    assert both.catch_up() == []
    both.sub("INSERT INTO t VALUES (4)")
    assert both.rows("SELECT * FROM t") == [("4", "1")]


def test_a_truncate_of_the_root_is_sent_as_the_root_one_of_a_leaf_is_not(both: Both) -> None:
    """A4."""
    both.pub(*PARTS)
    both.sub(PARTS[0], "CREATE TABLE other PARTITION OF m DEFAULT")
    both.pub("CREATE PUBLICATION p FOR TABLE m WITH (publish_via_partition_root)", "INSERT INTO m VALUES (1), (60)")
    both.subscribe()
    both.pub("TRUNCATE m1")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM m") == [("1",), ("60",)]
    both.sub("INSERT INTO m VALUES (7)")
    both.pub("TRUNCATE m")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM m") == []


@pytest.mark.slow
def test_a_truncate_of_the_root_is_one_of_each_leaf_where_leaves_are_published(both: Both) -> None:
    both.each(*PARTS)
    both.pub("CREATE PUBLICATION p FOR TABLE m", "INSERT INTO m VALUES (1), (60)")
    both.subscribe()
    both.pub("TRUNCATE m1")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM m") == [("60",)]
    both.pub("TRUNCATE m")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM m") == []


def test_a_publication_of_truncates_alone_copies_all_rows(both: Both) -> None:
    """C1: and voids the filter of another at the copy, not in the stream."""
    both.each(T)
    both.pub("INSERT INTO t VALUES (1), (9)", "CREATE PUBLICATION p FOR TABLE t WHERE (a > 5)")
    both.pub("CREATE PUBLICATION q FOR TABLE t WITH (publish = 'truncate')")
    both.subscribe("p, q")
    both.pub("INSERT INTO t VALUES (2), (8)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM t") == [("1",), ("8",), ("9",)]


def test_of_a_leaf_the_leafs_filter_counts_and_of_the_root_the_roots(both: Both) -> None:
    """C2."""
    both.each(*PARTS)
    both.pub("CREATE PUBLICATION p FOR TABLE m, m2 WHERE (a > 70)")
    both.subscribe()
    both.pub("INSERT INTO m VALUES (1), (60), (80)")
    assert both.catch_up() == []
    assert both.rows("SELECT a FROM m") == [("1",), ("80",)]
    assert both.refused("pub", "ALTER PUBLICATION p SET TABLE m WHERE (a > 70)")
    both.pub("ALTER PUBLICATION p SET (publish_via_partition_root)", "ALTER PUBLICATION p SET TABLE m WHERE (a > 70)")
    assert both.refused("pub", "ALTER PUBLICATION p SET (publish_via_partition_root = false)")


def test_a_leaf_is_no_table_of_a_subscription_beside_its_root(both: Both) -> None:
    """C5."""
    both.each(*PARTS)
    both.pub("CREATE PUBLICATION leaf FOR TABLE m1", "CREATE PUBLICATION root FOR TABLE m")
    both.pub("CREATE PUBLICATION via FOR TABLE m WITH (publish_via_partition_root)")
    both.subscribe("leaf, via", name="one")
    assert both.rows("SELECT srrelid::regclass FROM pg_subscription_rel") == [("m",)]
    both.subscribe("leaf, root", name="two")
    assert both.rows("SELECT count(*) FROM pg_subscription_rel") == [("3",)]


# --- A13 --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_came_and_went_in_one_batch_is_sent_on(both: Both) -> None:
    both.each(T)
    both.done("third", "CREATE TABLE t (a int, b text)")
    both.pub("CREATE PUBLICATION p FOR TABLE t")
    both.sub("CREATE PUBLICATION q FOR TABLE t")
    assert both.subscribe() == both.subscribe("q", name="s3", source="sub", at="third") == []
    both.pub("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "DELETE FROM t WHERE a = 2")
    assert both.catch_up() == []
    (failure,) = both.catch_up("s3", "third")
    assert failure.message.startswith('logical replication target relation "public.t" has neither REPLICA IDENTITY')
    assert both.rows("SELECT a FROM t", "third") == [("1",), ("2",)]


LOOKS = {
    "test_decoding": "SELECT data FROM pg_logical_slot_get_changes('test_decoding', NULL, NULL,"
    " 'include-xids', '0', 'skip-empty-xacts', '1')",
    "pgoutput": "SELECT data FROM pg_logical_slot_get_binary_changes('pgoutput', NULL, NULL,"
    " 'proto_version', '1', 'publication_names', 'onwards')",
}


def watched(both: Both) -> list[str]:
    """The subscribers are read: by test_decoding where the server has it, and as another subscriber would."""
    both.sub("CREATE PUBLICATION onwards FOR ALL TABLES")
    plugins = ["pgoutput"]
    if both.real.run("sub", "SELECT pg_create_logical_replication_slot('test_decoding', 'test_decoding')")[0] == "done":
        both.ours.run("sub", "SELECT pg_create_logical_replication_slot('test_decoding', 'test_decoding')")
        plugins.append("test_decoding")
    both.sub("SELECT pg_create_logical_replication_slot('pgoutput', 'pgoutput') IS NOT NULL")
    return plugins


def changes_seen(both: Both, plugins: list[str]) -> int:
    """Both show the same; how many changes."""
    for plugin in plugins:
        theirs, ours = (
            [_timeless(data) for (data,) in one.rows("sub", LOOKS[plugin])] for one in (both.real, both.ours)
        )
        both.equal(ours, theirs)
        changes = [data for data in theirs if not re.match(r"BEGIN|COMMIT|\\x(42|43|4f|52)", data)]
        both.sub(f"SELECT pg_drop_replication_slot('{plugin}')")
    return len(changes)


def test_a_slot_of_a_subscriber_shows_every_transaction(both: Both) -> None:
    both.each(T, "CREATE TABLE u (a int PRIMARY KEY)")
    both.pub("CREATE PUBLICATION p FOR ALL TABLES")
    assert both.subscribe() == []
    plugins = watched(both)
    both.pub("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    both.pub("BEGIN", "INSERT INTO u VALUES (1)", "UPDATE t SET b = 'x'", "UPDATE t SET b = 'y' WHERE a = 2",
             "DELETE FROM t WHERE a IN (1, 2)", "INSERT INTO t VALUES (2, 'again')", "COMMIT")  # fmt: skip
    both.pub("BEGIN", "DELETE FROM u", "TRUNCATE t, u", "INSERT INTO u VALUES (7)", "UPDATE u SET a = 8", "COMMIT")
    both.pub("DELETE FROM u WHERE a = 9")
    assert both.catch_up() == []
    assert changes_seen(both, plugins) == 3 + 8 + 4


@pytest.mark.parametrize("portion", dose([7, 100_000], 2))
def test_a_large_transaction_is_sent_on_whole(both: Both, monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    """Large enough for files; and where it is written in portions, each change is where it was."""
    monkeypatch.setattr(messages, "PORTION", portion)
    both.ours.run("sub", "SET pgrepl.local_rows = 10")
    both.each(
        T, "ALTER TABLE t REPLICA IDENTITY FULL",
        "CREATE TABLE g (a int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, b int,"
        " c int GENERATED ALWAYS AS (b * 2) STORED)",
        *PARTS,
    )  # fmt: skip
    both.pub("CREATE PUBLICATION p FOR ALL TABLES")
    assert both.subscribe() == []
    plugins = watched(both)
    both.pub(
        "BEGIN", "INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 60) n",
        "INSERT INTO g (b) SELECT n FROM generate_series(1, 40) n",
        "INSERT INTO m SELECT n FROM generate_series(20, 79) n",
        "UPDATE t SET b = NULL WHERE a = 30", "UPDATE t SET a = 100 WHERE a = 30",
        "UPDATE t SET a = 30 WHERE a = 100",
        "DELETE FROM t WHERE a < 20", "UPDATE g SET b = b + 1", "UPDATE m SET a = a + 60 WHERE a = 21",
        "UPDATE m SET a = a + 1 WHERE a = 79", "INSERT INTO t VALUES (7, 'again')", "COMMIT",
    )  # fmt: skip
    both.pub("BEGIN", "DELETE FROM g", "TRUNCATE g, t RESTART IDENTITY", "INSERT INTO g (b) VALUES (1)", "COMMIT")
    assert both.catch_up() == []
    first, second = 60 + 40 + 60 + 3 + 19 + 40 + 2 + 1 + 1, 40 + 1 + 1
    assert changes_seen(both, plugins) == first + second


def _timeless(data: str) -> str:
    """A message without the numbers that no two instances share: LSNs, times, OIDs of tables."""
    if data[:4] in (r"\x42", r"\x43", r"\x4f"):  # Begin, Commit, Origin
        return data[:4]
    if data[:4] in (r"\x49", r"\x55", r"\x44", r"\x52"):  # Insert, Update, Delete, Relation
        return data[:4] + data[12:]
    if data[:4] == r"\x54":  # Truncate
        return data[:14]
    return data
