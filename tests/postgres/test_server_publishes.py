"""A real server as the publisher: the initial copy and every kind of change, on 16 and 18."""

from __future__ import annotations

from tests.postgres.served import Served

T = "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10,2))"
ALL_T = "SELECT * FROM t ORDER BY a"


def ready(served: Served, table: str = T, publication: str = "CREATE PUBLICATION p FOR TABLE t") -> None:
    served.both(table)
    served.pub(publication)
    served.subscribe()


def test_rows_are_copied_and_changes_follow(served: Served) -> None:
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.pub("INSERT INTO t VALUES (1, 'one', 1.5), (2, '', NULL), (3, NULL, 0), (4, E'a\\tb\\n\\\\N\\\\.', -1)")
    served.subscribe()
    assert len(served.same(ALL_T)) == 4
    served.pub("INSERT INTO t VALUES (5, 'five', 5)")
    served.pub(
        "BEGIN; UPDATE t SET b = 'eins' WHERE a = 1; UPDATE t SET a = 20 WHERE a = 2; DELETE FROM t WHERE a = 3; COMMIT"
    )
    assert served.catch_up() == []
    assert [row[:2] for row in served.same(ALL_T)] == [
        ("1", "eins"), ("4", "a\tb\n\\N\\."), ("5", "five"), ("20", ""),
    ]  # fmt: skip
    served.pub("TRUNCATE t")
    served.pub("INSERT INTO t VALUES (7, 'after', 7)")
    assert served.catch_up() == []
    assert served.same(ALL_T) == [("7", "after", "7.00")]


def test_filters_column_lists_and_operations_are_the_servers(served: Served) -> None:
    served.publishing.needs(15)
    served.pub("CREATE TABLE t (a int PRIMARY KEY, b text, secret text)")
    served.sub("CREATE TABLE t (a int PRIMARY KEY, b text, here text DEFAULT 'here')")
    served.pub("CREATE PUBLICATION p FOR TABLE t (a, b) WHERE (a > 10) WITH (publish = 'insert, update')")
    served.pub("INSERT INTO t SELECT g, 'x' || g, 'hidden' FROM generate_series(8, 12) g")
    served.subscribe()
    assert served.sub(ALL_T) == [("11", "x11", "here"), ("12", "x12", "here")]
    served.pub("UPDATE t SET a = a + 10; DELETE FROM t WHERE a = 21")
    assert served.catch_up() == []
    # 8, 9 and 10 come into the filter; the deletion is not published
    assert served.sub(ALL_T) == [
        ("18", "x8", "here"), ("19", "x9", "here"), ("20", "x10", "here"), ("21", "x11", "here"), ("22", "x12", "here"),
    ]  # fmt: skip


def test_tables_without_a_key_go_by_whole_rows(served: Served) -> None:
    table = "CREATE TABLE t (a int, b text); ALTER TABLE t REPLICA IDENTITY FULL"
    ready(served, table)
    served.pub("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL), (3, 'z')")
    served.pub("DELETE FROM t WHERE ctid = '(0,1)'; UPDATE t SET b = 'y' WHERE a = 2")
    assert served.catch_up() == []
    assert served.same("SELECT * FROM t ORDER BY a, b") == [("1", "x"), ("2", "y"), ("3", "z")]


def test_an_unchanged_large_value_stays_the_subscribers(served: Served) -> None:
    ready(served, "CREATE TABLE t (a int PRIMARY KEY, b text, big text)")
    served.pub("ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    served.pub("INSERT INTO t VALUES (1, 'x', repeat('large', 5000)), (2, 'x', repeat('value', 5000))")
    assert served.catch_up() == []
    served.pub("UPDATE t SET b = 'y' WHERE a = 1; UPDATE t SET a = 3 WHERE a = 2")
    assert served.catch_up() == []
    assert served.same("SELECT a, b, length(big), left(big, 5) FROM t ORDER BY a") == [
        ("1", "y", "25000", "large"), ("3", "x", "25000", "value"),
    ]  # fmt: skip


def test_partitions_by_their_root_or_by_themselves(served: Served) -> None:
    partitioned = (
        "CREATE TABLE m (d int NOT NULL, v text) PARTITION BY RANGE (d); ALTER TABLE m ADD PRIMARY KEY (d); "
        "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (10); CREATE TABLE m2 PARTITION OF m DEFAULT"
    )
    served.pub(partitioned)
    served.sub("CREATE TABLE m (d int PRIMARY KEY, v text)")
    condition = "WHERE (d <> 13)" if served.publishing.version >= 15 else ""
    served.pub(f"CREATE PUBLICATION p FOR TABLE m {condition} WITH (publish_via_partition_root)")
    served.pub("INSERT INTO m VALUES (1, 'a'), (11, 'b'), (13, 'no')")
    served.subscribe()
    served.pub(
        "INSERT INTO m VALUES (2, 'c'); UPDATE m SET d = 12 WHERE d = 1; DELETE FROM m WHERE d = 11; "
        "UPDATE m SET d = 3 WHERE d = 13"
    )
    assert served.catch_up() == []
    assert served.sub("SELECT * FROM m ORDER BY d") == [("2", "c"), ("3", "no"), ("12", "a")]
    served.pub("CREATE PUBLICATION leaves FOR TABLE m1")
    served.sub("CREATE TABLE m1 (d int PRIMARY KEY, v text)")
    served.sub("DROP SUBSCRIPTION s")
    served.subscribe("leaves")
    assert served.sub("SELECT * FROM m1 ORDER BY d") == [("2", "c"), ("3", "no")]


def test_columns_that_come_go_and_are_renamed(served: Served) -> None:
    """A9."""
    ready(served, "CREATE TABLE t (a int PRIMARY KEY, b text)")
    served.pub("INSERT INTO t VALUES (1, 'x')")
    served.pub("ALTER TABLE t ADD c int DEFAULT 5; INSERT INTO t VALUES (2, 'y', 6)")
    ((message, _, context),) = served.catch_up()
    assert message == 'logical replication target relation "public.t" is missing replicated column: "c"'
    assert context is not None and 'during message type "INSERT" in transaction' in context
    assert served.sub(ALL_T) == [("1", "x")]
    served.sub("ALTER TABLE t ADD c int")
    assert served.catch_up() == []
    assert served.sub(ALL_T) == [("1", "x", None), ("2", "y", "6")]
    served.pub("ALTER TABLE t RENAME b TO name; INSERT INTO t VALUES (3, 'z', 7)")
    ((message, _, _),) = served.catch_up()
    assert message == 'logical replication target relation "public.t" is missing replicated column: "name"'
    served.sub("ALTER TABLE t RENAME b TO name")
    assert served.catch_up() == []
    served.pub("ALTER TABLE t DROP c; INSERT INTO t VALUES (4, 'w')")
    assert served.catch_up() == []
    assert served.sub(ALL_T) == [("1", "x", None), ("2", "y", "6"), ("3", "z", "7"), ("4", "w", None)]


def test_what_comes_from_elsewhere_can_be_left_out(served: Served) -> None:
    served.publishing.needs(16)  # earlier ones send everything, to subscribers of PostgreSQL, too
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe(options="origin = none")
    served.pub("SELECT pg_replication_origin_create('far')")
    served.pub("SELECT pg_replication_origin_session_setup('far')")
    served.pub("INSERT INTO t VALUES (1, 'far', 0)")
    served.pub("SELECT pg_replication_origin_session_reset()")
    served.pub("INSERT INTO t VALUES (2, 'near', 0)")
    assert served.catch_up() == []
    assert served.sub(ALL_T) == [("2", "near", "0.00")]
    served.sub("ALTER SUBSCRIPTION s SET (origin = any)")
    served.pub("SELECT pg_replication_origin_session_setup('far'); INSERT INTO t VALUES (3, 'far', 0)")
    served.pub("SELECT pg_replication_origin_session_reset(), pg_replication_origin_drop('far')")
    assert served.catch_up() == []
    assert len(served.sub(ALL_T)) == 2


def test_a_table_added_later_is_copied_at_its_own_moment(served: Served) -> None:
    ready(served)
    served.both("CREATE TABLE u (a int PRIMARY KEY, b text)")
    served.pub(
        "INSERT INTO u VALUES (1, 'before'); ALTER PUBLICATION p ADD TABLE u; "
        "UPDATE u SET b = 'then'; INSERT INTO t VALUES (1, 't', 0)"
    )
    served.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert served.catch_up() == []
    served.pub("INSERT INTO u VALUES (2, 'after')")
    assert served.catch_up() == []
    assert served.same("SELECT * FROM u ORDER BY a") == [("1", "then"), ("2", "after")]
    assert served.sub("SELECT srsubstate FROM pg_subscription_rel") == [("r",), ("r",)]


def test_nothing_but_the_slot_stays_at_the_server(served: Served) -> None:
    ready(served)
    slots = f"SELECT slot_name, temporary FROM pg_replication_slots WHERE database = '{served.database}'"
    assert served.pub(slots) == [(served.slot, "f")]
    served.sub("DROP SUBSCRIPTION s")
    assert served.pub(slots) == []


def test_binary_values_are_received_as_the_columns_type(served: Served) -> None:
    """With binary = true from a server, too: the same types as ever, others by their bytes; what does not fit stops."""
    served.publishing.needs(16)
    served.both(
        "CREATE TABLE t (a int PRIMARY KEY, b numeric(10,2), c timestamptz, d text[], e varchar(3), f bytea, g jsonb)"
    )
    served.pub("CREATE TABLE u (a int PRIMARY KEY, b real, c bigint); CREATE PUBLICATION p FOR TABLE t, u")
    served.sub("CREATE TABLE u (a int PRIMARY KEY, b int, c timestamp)")
    row = "1.5, '2026-01-01 10:00+02', '{a,NULL}', 'abc', '\\x00ff', '{\"a\": 1}'"
    served.pub(f"INSERT INTO t VALUES (1, {row}); INSERT INTO u VALUES (1, 7e-45, 1000000)")
    served.subscribe(options="binary = true")
    served.pub(f"INSERT INTO t VALUES (2, {row}); INSERT INTO u VALUES (2, 7e-45, 1000000)")
    served.pub("UPDATE t SET a = 3 WHERE a = 1; DELETE FROM u WHERE a = 1; UPDATE t SET b = NULL WHERE a = 2")
    assert served.catch_up() == []
    assert len(served.same(ALL_T)) == 2
    assert served.sub("SELECT * FROM u") == [("2", "5", "2000-01-01 00:00:01")]
    served.sub("ALTER TABLE u ALTER b TYPE bigint")
    served.pub("INSERT INTO u VALUES (3, 1, 1)")
    assert [message for message, *_ in served.catch_up()] == ["insufficient data left in message"]
