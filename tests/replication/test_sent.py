"""What is sent of each change: publish lists, filters, column lists, partition roots, the catalog of that moment."""

from __future__ import annotations

from tests.harness.database import by_columns
from tests.harness.pair import Pair

T = "CREATE TABLE t (a int PRIMARY KEY, b text, c int)"


def test_rows_are_copied_and_every_transaction_follows(pair: Pair) -> None:
    pair.both(T)
    pair.pub("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    assert pair.sub("SELECT * FROM t") == [("1", "x", "1"), ("2", "y", "2")]
    pair.pub(
        "BEGIN; INSERT INTO t VALUES (3, NULL, NULL); UPDATE t SET b = 'z' WHERE a = 1;"
        "DELETE FROM t WHERE a = 2; COMMIT"
    )
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("3", None, None), ("1", "z", "1")]
    assert pair.sub("SELECT srsubstate FROM pg_subscription_rel") == [("r",)]


def test_an_update_that_enters_or_leaves_the_filter_becomes_an_insert_or_a_delete(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int, b text, PRIMARY KEY (a))")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a > 10)")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1, 'in'), (11, 'out'), (20, 'stays'), (2, 'never')")
    pair.catch_up()
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("11", "out"), ("20", "stays")]
    pair.pub("UPDATE t SET a = 21 WHERE a = 1; UPDATE t SET a = 3 WHERE a = 11; UPDATE t SET b = 'more' WHERE a = 20")
    pair.catch_up()
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("20", "more"), ("21", "in")]


def test_a_filter_that_is_null_sends_nothing(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b int)")
    pair.both("ALTER TABLE t REPLICA IDENTITY FULL")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WHERE (b > 5)")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1, NULL), (2, 6)")
    pair.catch_up()
    assert pair.sub("SELECT * FROM t") == [("2", "6")]


def test_publish_is_asked_of_the_original_operation(pair: Pair) -> None:
    """An UPDATE that a filter makes an INSERT is sent although inserts are not published (A7)."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a > 10) WITH (publish = 'update')")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1), (12); UPDATE t SET a = 11 WHERE a = 1; DELETE FROM t WHERE a = 12")
    pair.catch_up()
    assert pair.sub("SELECT * FROM t") == [("11",)]


def test_filters_of_several_publications_are_ored_and_void_without_one(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub(
        "CREATE PUBLICATION p FOR TABLE t WHERE (a < 3); CREATE PUBLICATION q FOR TABLE t WHERE (a > 7);"
        "CREATE PUBLICATION everything FOR ALL TABLES WITH (publish = 'delete')"
    )
    pair.subscribe("p, q")
    pair.pub("INSERT INTO t SELECT generate_series(1, 9)")
    pair.catch_up()
    assert pair.sub("SELECT * FROM t") == [("1",), ("2",), ("8",), ("9",)]


def test_column_lists_and_columns_in_another_order(pair: Pair) -> None:
    pair.pub(T)
    pair.sub("CREATE TABLE t (extra text DEFAULT 'here', c bigint, a text PRIMARY KEY)")
    pair.pub("INSERT INTO t VALUES (1, 'secret', 10); CREATE PUBLICATION p FOR TABLE t (a, c)")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (2, 'secret', 20)")
    pair.catch_up()
    pair.sub("UPDATE t SET extra = 'kept' WHERE a = '2'")
    pair.pub("UPDATE t SET c = 21, b = 'more' WHERE a = 2")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("here", "10", "1"), ("kept", "21", "2")]


def test_different_column_lists_stop_the_subscription(pair: Pair) -> None:
    pair.both(T)
    pair.pub(
        "CREATE PUBLICATION p FOR TABLE t (a, b); CREATE PUBLICATION q FOR TABLE t (a, c) WITH (publish = 'truncate')"
    )
    pair.pub("CREATE PUBLICATION r FOR TABLE t (a, b)")
    pair.subscribe("p, r")
    pair.sub("ALTER SUBSCRIPTION s SET PUBLICATION p, q WITH (refresh = false)")
    pair.pub("INSERT INTO t VALUES (1, 'x', 1)")
    ((message, _, _),) = pair.catch_up()
    assert message.startswith(
        'could not receive data from WAL stream: ERROR:  cannot use different column lists for table "public.t" in '
        'different publications\nCONTEXT:  slot "s", output plugin "pgoutput", in the change callback, '
        "associated LSN 0/"
    )


def test_the_catalog_of_the_change_decides(pair: Pair) -> None:
    """A1: a row inserted before its table left the publication still arrives; what came later does not."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE u (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t, u")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1); ALTER PUBLICATION p DROP TABLE t; INSERT INTO t VALUES (2)")
    pair.pub("BEGIN; INSERT INTO u VALUES (1)"), pair.pub("ALTER PUBLICATION p SET (publish = 'delete')")
    pair.pub("INSERT INTO u VALUES (2); COMMIT")
    assert pair.catch_up() == []
    assert (pair.sub("SELECT * FROM t"), pair.sub("SELECT * FROM u")) == ([("1",)], [("1",)])


def test_a_publication_that_is_gone_stops_with_the_servers_words(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    for text in ("INSERT INTO t VALUES (1)", "DROP PUBLICATION p", "INSERT INTO t VALUES (2)"):
        pair.pub(text)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    ((message, _, _),) = pair.catch_up()
    assert message.startswith(
        'could not receive data from WAL stream: ERROR:  publication "p" does not exist\nCONTEXT:  slot'
    )
    assert pair.sub("SELECT * FROM t") == [("1",)]
    assert pair.sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [("1",)]


def test_dropping_and_making_a_publication_anew_is_fine_with_no_change_between(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE t WHERE (a > 5); INSERT INTO t VALUES (1), (6)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("6",)]


def test_columns_are_those_of_the_change(pair: Pair) -> None:
    """A9: a column added later with a default of the publisher's is not sent for rows from before."""
    pair.pub("CREATE TABLE t (a int PRIMARY KEY)")
    pair.sub("CREATE TABLE t (a int PRIMARY KEY, b int DEFAULT 7)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN b int DEFAULT 99; INSERT INTO t VALUES (2)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "7"), ("2", "99")]


def test_truncate_is_a_barrier_that_no_filter_stops(pair: Pair) -> None:
    """A4."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a > 5)")
    pair.subscribe()
    pair.sub("INSERT INTO t VALUES (100)")
    pair.pub("BEGIN; INSERT INTO t VALUES (6); TRUNCATE t; INSERT INTO t VALUES (6), (7), (1); COMMIT")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("6",), ("7",)]


def test_an_unpublished_truncate_removes_nothing(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert, delete')")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1); TRUNCATE t")
    pair.catch_up()
    assert pair.sub("SELECT * FROM t") == [("1",)]


PARTS = """
CREATE TABLE m (a int PRIMARY KEY, b text) PARTITION BY RANGE (a);
CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (50);
CREATE TABLE m2 PARTITION OF m FOR VALUES FROM (50) TO (100);
"""


def test_rows_that_move_between_leaves_are_deleted_and_inserted(pair: Pair) -> None:
    pair.both(PARTS)
    pair.pub("CREATE PUBLICATION p FOR TABLE m")
    pair.subscribe()
    pair.pub("INSERT INTO m VALUES (1, 'x'), (60, 'y'); UPDATE m SET a = 70 WHERE a = 1")
    assert pair.catch_up() == []
    assert pair.sub("SELECT tableoid::regclass, a, b FROM m ORDER BY a") == [("m2", "60", "y"), ("m2", "70", "x")]


def test_via_root_sends_leaves_as_the_root_and_a_move_as_delete_and_insert(pair: Pair) -> None:
    pair.pub(PARTS)
    pair.sub("CREATE TABLE m (b text, a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE m WHERE (a > 5) WITH (publish_via_partition_root)")
    pair.pub("INSERT INTO m VALUES (1, 'no'), (6, 'six'), (60, 'sixty')")
    pair.subscribe()
    assert pair.sub("SELECT * FROM m ORDER BY a") == [("six", "6"), ("sixty", "60")]
    pair.pub("UPDATE m SET a = a + 20, b = b || '!'; TRUNCATE m1")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM m ORDER BY a") == [("no!", "21"), ("six!", "26"), ("sixty!", "80")]
    pair.pub("TRUNCATE m")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM m") == []


def test_a_leaf_published_beside_its_root_loses_its_filter_to_the_root(pair: Pair) -> None:
    """A7: filters come from the publications at the topmost ancestor only, operations from all."""
    pair.both(PARTS)
    pair.pub(
        "CREATE PUBLICATION leaf FOR TABLE m2 WHERE (a > 80) WITH (publish = 'insert');"
        "CREATE PUBLICATION root FOR TABLE m WHERE (a > 90) WITH (publish = 'update', publish_via_partition_root)"
    )
    pair.subscribe("leaf, root")
    pair.pub("INSERT INTO m VALUES (55, 'a'), (60, 'b'), (95, 'c')")
    assert pair.catch_up() == []
    assert pair.sub("SELECT a FROM m ORDER BY a") == [("55",), ("60",), ("95",)]


def test_origin_none_leaves_out_what_the_publisher_has_from_elsewhere(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.sub("CREATE PUBLICATION back FOR TABLE t")
    pair.subscribe(options="WITH (origin = none)")
    pair.pub("CREATE SUBSCRIPTION r CONNECTION 'dbname=sub' PUBLICATION back WITH (origin = none, copy_data = false)")
    from pgrepl.replication.subscriber.launcher import CatchUp

    other_way = CatchUp(pair.pub.session, pair.log)
    pair.pub("INSERT INTO t VALUES (1)")
    pair.sub("INSERT INTO t VALUES (2)")
    for _ in range(3):
        assert pair.catch_up() == []
        other_way.now()
    assert pair.pub("SELECT * FROM t ORDER BY a") == pair.sub("SELECT * FROM t ORDER BY a") == [("1",), ("2",)]


def test_changes_from_before_a_column_was_converted_keep_the_columns_behind_it(pair: Pair) -> None:
    """All rows are rewritten then, and the columns behind it get new ids in the lake."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b date, c text, d int)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.pub("INSERT INTO t VALUES (1, '2024-02-03', 'x', 7)")
    pair.pub("ALTER TABLE t ALTER COLUMN b TYPE timestamp")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t") == [("1", "2024-02-03", "x", "7")]


def test_rows_that_a_later_conversion_has_rewritten_are_sent_by_columns_as_they_were(pair: Pair) -> None:
    pair.pub("CREATE TABLE t (a int PRIMARY KEY, b int, c text); CREATE PUBLICATION p FOR TABLE t")
    pair.sub("CREATE TABLE t (a int PRIMARY KEY, b numeric(12,0), c text)")
    pair.subscribe()
    by_columns(pair.sub)
    pair.pub(
        "BEGIN; INSERT INTO t SELECT g, g, 'x' FROM generate_series(1, 300) g;"
        " ALTER TABLE t ALTER COLUMN b TYPE numeric(12,0); COMMIT"
    )
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*), sum(b), min(c) FROM t") == [("300", "45150", "x")]
    assert pair.sub.ways()["apply"] == 1
