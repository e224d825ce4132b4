"""The subscription parameter schema_changes: what a publishing lake adds, renames, widens or drops arrives."""

from __future__ import annotations

from random import Random

import pytest

from pgrepl.replication.wire import message_files, messages
from tests.harness.database import Database, by_columns, by_message
from tests.harness.dose import dose
from tests.harness.pair import Pair
from tests.harness.schema_workload import COLUMNS, SchemaWorkload, many_changes_go_by_columns, same

T = "CREATE TABLE t (id int PRIMARY KEY, a int, b text)"


def following(pair: Pair, mode: str = "columns", table: str = T, publication: str = "FOR TABLE t") -> None:
    pair.both(table)
    pair.pub("INSERT INTO t (id) VALUES (1), (2)")
    pair.pub(f"CREATE PUBLICATION p {publication}")
    pair.subscribe(options=f"WITH (schema_changes = {mode})")
    assert pair.catch_up() == []


def test_columns_are_added_with_the_values_of_older_rows(pair: Pair) -> None:
    following(pair)
    pair.pub("ALTER TABLE t ADD COLUMN c numeric(8,2) NOT NULL DEFAULT 2.50, ADD COLUMN d text")
    pair.pub("INSERT INTO t VALUES (3, 3, 'x', 4, 'y')")
    same(pair)
    assert pair.sub("SELECT id, c FROM t ORDER BY id") == [("1", "2.50"), ("2", "2.50"), ("3", "4.00")]
    pair.sub("INSERT INTO t (id) VALUES (9)")  # the default itself and NOT NULL are not followed
    assert pair.sub("SELECT c FROM t WHERE id = 9") == [(None,)]


def test_older_rows_get_constants_that_only_a_rewritten_table_has(pair: Pair) -> None:
    pair.both("CREATE TYPE comp AS (x int, y text)")
    following(pair)
    pair.pub(
        "ALTER TABLE t ADD c text[] DEFAULT '{a,NULL}', ADD d comp DEFAULT '(1,x)', ADD e jsonb[] DEFAULT '{}',"
        " ADD f float DEFAULT random()"
    )
    pair.pub("UPDATE t SET f = 0 WHERE id = 1")
    assert pair.catch_up() == []
    assert pair.sub("SELECT id, c, d, e, f FROM t ORDER BY id") == [
        ("1", "{a,NULL}", "(1,x)", "{}", "0"),
        ("2", "{a,NULL}", "(1,x)", "{}", None),  # as documented: it is no constant
    ]


def test_older_rows_get_the_values_of_a_generated_column(pair: Pair) -> None:
    """The column here is an ordinary one: its later values are the publisher's."""
    following(pair, publication="FOR TABLE t WITH (publish_generated_columns = stored)")
    pair.pub("UPDATE t SET a = id * 10")
    pair.pub("ALTER TABLE t RENAME a TO ax")
    pair.pub("""ALTER TABLE t ADD g int GENERATED ALWAYS AS (ax + 1) STORED NOT NULL""")
    pair.pub("UPDATE t SET ax = 50 WHERE id = 1")
    same(pair)
    assert pair.sub("SELECT id, g FROM t ORDER BY id") == [("1", "51"), ("2", "21")]
    assert pair.sub("SELECT attgenerated FROM pg_attribute WHERE attname = 'g' ORDER BY 1") == [("",)]
    pair.pub(
        "BEGIN; INSERT INTO t VALUES (3, 3, 'x'); ALTER TABLE t ADD h text GENERATED ALWAYS AS (b || ax) STORED;"
        " UPDATE t SET b = 'z' WHERE id = 2; INSERT INTO t VALUES (4, 4, 'y'); COMMIT"
    )
    same(pair)
    assert pair.sub("SELECT id, h FROM t ORDER BY id") == [("1", None), ("2", "z20"), ("3", "x3"), ("4", "y4")]


def test_values_that_cannot_be_computed_here_are_null(pair: Pair) -> None:
    pair.pub("CREATE FUNCTION f(int) RETURNS int IMMUTABLE RETURN $1 * 2")
    following(pair, publication="FOR TABLE t WITH (publish_generated_columns = stored)")
    pair.pub("ALTER TABLE t ADD g int GENERATED ALWAYS AS (f(id)) STORED; INSERT INTO t VALUES (3)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT id, g FROM t ORDER BY id") == [("1", None), ("2", None), ("3", "6")]


def test_columns_are_renamed_widened_and_dropped(pair: Pair) -> None:
    following(pair)
    pair.pub("ALTER TABLE t RENAME COLUMN a TO amount")
    pair.pub("INSERT INTO t VALUES (3, 7, 'x')")
    same(pair)
    pair.pub("ALTER TABLE t ALTER COLUMN amount TYPE bigint")
    pair.pub("UPDATE t SET amount = 5000000000 WHERE id = 1")
    same(pair)
    pair.pub("ALTER TABLE t DROP COLUMN b")
    pair.pub("DELETE FROM t WHERE id = 2")
    same(pair)


def test_names_are_exchanged(pair: Pair) -> None:
    following(pair, table="CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
    pair.pub("UPDATE t SET a = id, b = -id")
    for statement in ("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b"):
        pair.pub(f"ALTER TABLE t {statement}")
    pair.pub("INSERT INTO t VALUES (3, 30, 31)")
    same(pair)
    assert pair.sub("SELECT b, a FROM t ORDER BY id") == [("1", "-1"), ("2", "-2"), ("30", "31")]


def test_a_column_that_is_dropped_and_added_again_is_empty(pair: Pair) -> None:
    following(pair)
    pair.pub("UPDATE t SET a = 7")
    assert pair.catch_up() == []
    pair.pub("ALTER TABLE t DROP COLUMN a")
    pair.pub("ALTER TABLE t ADD COLUMN a int")
    pair.pub("INSERT INTO t (id, a) VALUES (3, 3)")
    same(pair)
    assert pair.sub("SELECT id, a FROM t ORDER BY id") == [("1", None), ("2", None), ("3", "3")]


def test_each_transaction_is_applied_under_the_columns_of_its_time(pair: Pair) -> None:
    following(pair)
    pair.pub("INSERT INTO t VALUES (3, 3, 'old')")
    pair.pub("ALTER TABLE t ADD COLUMN c int")
    pair.pub("INSERT INTO t VALUES (4, 4, 'new', 40)")
    pair.pub("ALTER TABLE t RENAME COLUMN b TO name")
    pair.pub("INSERT INTO t VALUES (5, 5, 'later', 50)")
    pair.pub("ALTER TABLE t DROP COLUMN c")
    pair.pub("UPDATE t SET name = name || '!' WHERE id > 3")
    same(pair)


def test_a_transaction_changes_a_table_between_its_rows(pair: Pair) -> None:
    following(pair)
    pair.pub(
        "BEGIN; INSERT INTO t VALUES (3, 3, 'x'); ALTER TABLE t RENAME COLUMN a TO c; INSERT INTO t VALUES (4, 4, 'y');"
        " ALTER TABLE t ADD COLUMN d int DEFAULT 9; UPDATE t SET c = -1 WHERE id < 4; DELETE FROM t WHERE id = 2;"
        " ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (5, 5, 50); COMMIT"
    )
    same(pair)
    assert pair.sub("SELECT id, c, d FROM t ORDER BY id") == [
        ("1", "-1", "9"),
        ("3", "-1", "9"),
        ("4", "4", "9"),
        ("5", "5", "50"),
    ]


def random_changes(pair: Pair, seed: int, steps: int) -> None:
    following(pair)
    random = Random(seed)
    workload = SchemaWorkload(lambda text: pair.pub(f"BEGIN; {text}; COMMIT"), random)
    for _ in range(steps):
        workload.work(random.randint(1, 6))
        pair.pub(workload.row())  # without a change of rows columns do not arrive
        same(pair)


@pytest.mark.parametrize("seed", dose(range(4), 4))
def test_random_changes_arrive(pair: Pair, seed: int) -> None:
    by_message(pair.sub)
    random_changes(pair, seed, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_changes_arrive(pair: Pair, seed: int) -> None:
    random_changes(pair, seed, 12)


# --- what stays -------------------------------------------------------------------------------------------------------


def columns(database: Database, table: str = "t") -> str:
    return ", ".join(f"{name} {kind}" for name, kind in database(COLUMNS.replace("'t'", f"'{table}'")))


def test_without_it_nothing_is_followed(pair: Pair) -> None:
    following(pair, "none")
    pair.pub("ALTER TABLE t ADD COLUMN c int; INSERT INTO t VALUES (3, 3, 'x', 3)")
    ((message, _, _),) = pair.catch_up()
    assert message == 'logical replication target relation "public.t" is missing replicated column: "c"'
    pair.sub("ALTER SUBSCRIPTION s SET (schema_changes = columns)")
    same(pair)
    pair.pub("ALTER TABLE t RENAME COLUMN c TO d")
    pair.sub("ALTER SUBSCRIPTION s SET (schema_changes = none)")
    pair.pub("INSERT INTO t VALUES (4, 4, 'x', 4)")
    ((message, _, _),) = pair.catch_up()
    assert message == 'logical replication target relation "public.t" is missing replicated column: "d"'


def test_it_can_be_set_while_changes_wait(pair: Pair) -> None:
    following(pair, "none")
    pair.pub("INSERT INTO t VALUES (3, 3, 'x'); ALTER TABLE t RENAME COLUMN a TO c; INSERT INTO t VALUES (4, 4, 'y')")
    pair.sub("ALTER SUBSCRIPTION s SET (schema_changes = columns)")
    same(pair)


def test_columns_of_the_subscriber_stay(pair: Pair) -> None:
    following(pair)
    pair.sub("ALTER TABLE t ADD COLUMN own text DEFAULT 'own', ADD COLUMN later int")
    pair.sub("ALTER TABLE t ALTER COLUMN a TYPE text")
    pair.pub("ALTER TABLE t ALTER COLUMN a TYPE bigint, ADD COLUMN later int, DROP COLUMN b")
    pair.pub("INSERT INTO t VALUES (3, 5000000000, 30)")
    assert pair.catch_up() == []
    assert columns(pair.sub) == "id integer, a text, own text, later integer"
    assert pair.sub("SELECT * FROM t WHERE id = 3") == [("3", "5000000000", "own", "30")]


def test_a_column_that_leaves_the_column_list_stays(pair: Pair) -> None:
    following(pair, publication="FOR TABLE t (id, a, b)")
    pair.pub("ALTER PUBLICATION p SET TABLE t (id, a); INSERT INTO t VALUES (3, 3, 'x')")
    assert pair.catch_up() == []
    assert columns(pair.sub) == "id integer, a integer, b text"
    pair.pub("ALTER TABLE t RENAME COLUMN b TO name")
    pair.pub("ALTER PUBLICATION p SET TABLE t (id, a, name); UPDATE t SET name = 'y' WHERE id = 3")
    same(pair)


def test_what_has_been_done_here_already_is_not_done_again(pair: Pair) -> None:
    following(pair)
    pair.sub("ALTER TABLE t RENAME COLUMN a TO amount; ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN c date")
    pair.pub("ALTER TABLE t RENAME COLUMN a TO amount; ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN c date")
    pair.pub("INSERT INTO t VALUES (3, 3, '2024-02-03')")
    same(pair)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_done_stops_the_subscription(pair: Pair) -> None:
    following(pair)
    pair.pub("UPDATE t SET b = 'seven' WHERE id = 1; INSERT INTO t VALUES (7, 7, '7')")
    assert pair.catch_up() == []
    pair.sub("CREATE VIEW v AS SELECT a FROM t")
    pair.pub("ALTER TABLE t DROP COLUMN a; INSERT INTO t VALUES (8, 'x')")
    ((message, detail, context),) = pair.catch_up()
    assert (message, detail) == (
        "cannot drop column a of table public.t because other objects depend on it",
        "view public.v depends on column a of table public.t",
    )
    assert context is not None
    assert 'during message type "RELATION" for replication target relation "public.t" in transaction ' in context
    pair.sub("DROP VIEW v")
    same(pair)
    pair.pub("ALTER TABLE t ALTER COLUMN b TYPE int USING length(b); INSERT INTO t VALUES (9, 9)")
    ((message, _, context),) = pair.catch_up()
    assert message == 'column "b" cannot be cast automatically to type integer'
    pair.sub("ALTER TABLE t ALTER COLUMN b TYPE int USING length(b)")
    same(pair)
    assert pair.sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [("2",)]


def test_a_name_that_is_taken_here_stops_the_subscription(pair: Pair) -> None:
    following(pair)
    pair.sub("ALTER TABLE t ADD COLUMN c int")
    pair.pub("ALTER TABLE t RENAME COLUMN a TO c; INSERT INTO t VALUES (3, 3, 'x')")
    assert [message for message, _, _ in pair.catch_up()] == ['column "c" of relation "t" already exists']
    pair.sub("ALTER TABLE t RENAME COLUMN c TO own")
    assert pair.catch_up() == []
    assert pair.sub("SELECT c, own FROM t WHERE id = 3") == [("3", None)]


def test_the_owner_of_the_table_changes_it(pair: Pair) -> None:
    pair.sub("CREATE ROLE ann; GRANT CREATE ON SCHEMA public TO ann")
    following(pair)
    pair.sub("ALTER TABLE t OWNER TO ann")
    pair.sub("ALTER SUBSCRIPTION s SET (run_as_owner = false)")
    pair.pub("ALTER TABLE t ADD COLUMN c int; INSERT INTO t VALUES (3, 3, 'x', 3)")
    same(pair)
    assert pair.sub("SELECT relowner::regrole FROM pg_class WHERE relname = 't'") == [("ann",)]


def test_who_copies_nothing_need_not_read(pair: Pair) -> None:
    pair.pub("CREATE ROLE repl LOGIN REPLICATION")
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    conninfo = "host=localhost dbname=pub user=repl"
    pair.sub.subscribe("p", conninfo, "WITH (schema_changes = columns, copy_data = false)")
    pair.pub("ALTER TABLE t RENAME a TO c; INSERT INTO t VALUES (1, 2, 'x')")
    same(pair)


def test_a_skipped_transaction_brings_nothing(pair: Pair) -> None:
    following(pair)
    pair.sub("CREATE VIEW v AS SELECT a FROM t")
    pair.pub("BEGIN; ALTER TABLE t DROP COLUMN a; INSERT INTO t VALUES (3, 'lost'); COMMIT")
    ((_, _, context),) = pair.catch_up()
    assert context is not None
    pair.sub(f"ALTER SUBSCRIPTION s SKIP (lsn = '{context.rpartition(' ')[2]}')")
    assert pair.catch_up() == []
    assert columns(pair.sub) == "id integer, a integer, b text"
    pair.sub("DROP VIEW v")
    pair.pub("INSERT INTO t VALUES (4, 'kept')")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY id") == [("1", None), ("2", None), ("4", "kept")]


# --- many changes, partitions -----------------------------------------------------------------------------------------


def test_many_changes_go_by_columns(pair: Pair) -> None:
    following(pair)
    many_changes_go_by_columns(pair)


@pytest.mark.slow
def test_changes_in_parts_get_new_columns(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 200)
    following(pair)
    by_columns(pair.sub)
    by_columns(pair.pub)
    pair.pub("INSERT INTO t SELECT g, g, 'x' FROM generate_series(10, 1000) g")
    pair.pub("ALTER TABLE t ADD COLUMN c int DEFAULT 5; ALTER TABLE t DROP COLUMN a")
    pair.pub("UPDATE t SET c = id WHERE id > 10")
    same(pair)


@pytest.mark.slow
def test_a_large_transaction_is_followed_in_portions(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "PORTION", 20)
    following(pair)
    by_message(pair.sub)
    pair.pub(
        "BEGIN; INSERT INTO t SELECT g, g, 'x' FROM generate_series(10, 100) g; ALTER TABLE t ADD COLUMN c int;"
        " UPDATE t SET c = id; ALTER TABLE t DROP COLUMN b; DELETE FROM t WHERE id % 3 = 0; COMMIT"
    )
    same(pair)


@pytest.mark.parametrize("root", [False, True])
def test_partitions_get_the_columns_of_the_partitioned_table(pair: Pair, root: bool) -> None:
    pair.both(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b text) PARTITION BY RANGE (id);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)"
    )
    pair.pub(
        f"INSERT INTO t VALUES (1), (11); CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root = {root})"
    )
    pair.subscribe(options="WITH (schema_changes = columns)")
    pair.pub(
        "ALTER TABLE t ADD COLUMN c int DEFAULT 4; ALTER TABLE t RENAME COLUMN a TO d; ALTER TABLE t DROP COLUMN b"
    )
    pair.pub("INSERT INTO t VALUES (2, 2, 2)")
    pair.pub("INSERT INTO t VALUES (12, 12, 12); UPDATE t SET d = -id WHERE id IN (1, 11)")
    same(pair)


def test_truncate_tells_of_new_columns_too(pair: Pair) -> None:
    following(pair)
    pair.pub("ALTER TABLE t ADD COLUMN c int; TRUNCATE t; INSERT INTO t VALUES (1, 2, 'x', 3)")
    same(pair)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_new_tables_are_made_copied_and_followed(pair: Pair) -> None:
    following(pair, "tables", publication="FOR ALL TABLES")
    pair.pub(
        "CREATE SCHEMA stock; CREATE TABLE stock.items (sku text PRIMARY KEY, price numeric(8,2) NOT NULL DEFAULT 1,"
        " made date); INSERT INTO stock.items VALUES ('a', 1, NULL), ('b', 2, '2024-02-03')"
    )
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM stock.items ORDER BY 1") == [("a", "1.00", None), ("b", "2.00", "2024-02-03")]
    pair.pub("ALTER TABLE stock.items ADD COLUMN note text; INSERT INTO stock.items VALUES ('c', 3, NULL, 'new')")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM stock.items") == pair.pub("SELECT * FROM stock.items")
    pair.pub("CREATE TABLE empty (a int PRIMARY KEY)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT srsubstate FROM pg_subscription_rel") == [("r",)] * 3
    pair.pub("DROP TABLE empty; INSERT INTO t (id) VALUES (3)")
    same(pair)
    assert pair.sub("SELECT * FROM empty") == []


def test_tables_that_join_a_publication_arrive(pair: Pair) -> None:
    following(pair, "tables")
    pair.pub("CREATE TABLE u (a int PRIMARY KEY, b text); INSERT INTO u VALUES (1, 'x')")
    pair.sub("CREATE TABLE w (a int PRIMARY KEY, own int)")
    pair.pub("CREATE TABLE w (a int PRIMARY KEY, b int); INSERT INTO w VALUES (1, 2)")
    pair.pub("ALTER PUBLICATION p ADD TABLE u (a), w")
    assert pair.catch_up() == []
    assert columns(pair.sub, "u") == "a integer"
    assert pair.sub("SELECT a FROM u") == [("1",)]
    assert pair.sub("SELECT a, b, own FROM w") == [("1", "2", None)]
    pair.pub("UPDATE u SET a = 2; UPDATE w SET b = 3; ALTER PUBLICATION p DROP TABLE u; UPDATE u SET a = 4")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM u") == [("2",)]
    assert pair.sub("SELECT a, b FROM w") == [("1", "3")]


def test_a_table_is_changed_before_it_is_copied(pair: Pair) -> None:
    """The messages of before its copy are passed, whatever columns they have."""
    following(pair, "tables", publication="FOR ALL TABLES")
    pair.pub("CREATE TABLE u (a int PRIMARY KEY, b int); INSERT INTO u VALUES (1, 1)")
    pair.pub("ALTER TABLE u DROP COLUMN b; ALTER TABLE u ADD COLUMN c int; INSERT INTO u VALUES (2, 2)")
    pair.pub("CREATE TABLE gone (a int); INSERT INTO gone VALUES (1); DROP TABLE gone")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM u ORDER BY a") == [("1", None), ("2", "2")]


def test_partitioned_tables_arrive_with_their_partitions(pair: Pair) -> None:
    following(pair, "tables", publication="FOR ALL TABLES WITH (publish_via_partition_root)")
    pair.pub(
        "CREATE TABLE m (a int, b int) PARTITION BY LIST (a); CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);"
        "CREATE TABLE m2 PARTITION OF m DEFAULT; INSERT INTO m VALUES (1, 1), (2, 2)"
    )
    assert pair.catch_up() == []
    assert pair.sub("SELECT tableoid::regclass, * FROM m ORDER BY a") == [("m1", "1", "1"), ("m2", "2", "2")]


def test_a_table_that_cannot_be_made_stops_the_subscription(pair: Pair) -> None:
    following(pair, "tables", publication="FOR ALL TABLES")
    pair.sub("CREATE VIEW u AS SELECT 1 AS a")
    pair.pub("CREATE TABLE u (a int)")
    ((message, _, context),) = pair.catch_up()
    assert message == 'cannot use relation "public.u" as logical replication target'
    assert context == 'adding table "public.u" to subscription "s"'
    pair.sub("DROP VIEW u")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM u") == []


def test_values_of_the_parameter(pair: Pair) -> None:
    create = "CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p WITH (connect = false, {})"
    assert pair.sub.says(create.format("schema_changes = some")) == 'unrecognized schema_changes value: "some"'
    assert pair.sub.says(create.format("schema_changes = tables, two_phase = true")) == (
        "two_phase = true and schema_changes = tables are mutually exclusive options"
    )
    pair.sub(create.format("two_phase"))
    assert pair.sub.says("ALTER SUBSCRIPTION s SET (schema_changes = tables)") == (
        "cannot set schema_changes = tables for a subscription with two_phase enabled"
    )


def test_types_of_new_columns_and_tables_are_made(pair: Pair) -> None:
    following(pair, "tables", publication="FOR ALL TABLES")
    pair.pub(
        "CREATE SCHEMA kinds",
        "CREATE FUNCTION is_few(int) RETURNS bool IMMUTABLE RETURN $1 < 3",
        "CREATE TYPE kinds.mood AS ENUM ('low', 'high')",
        "CREATE DOMAIN kinds.moods AS kinds.mood[] DEFAULT '{low}' CHECK (cardinality(VALUE) > 0)"
        " CONSTRAINT few CHECK (is_few(cardinality(VALUE)))",
        "CREATE TABLE other (a int PRIMARY KEY)",
        "CREATE TYPE pair AS (a kinds.moods, b int, t other)",
        "ALTER TABLE t ADD COLUMN m kinds.mood NOT NULL DEFAULT 'high', ADD COLUMN p pair",
        "INSERT INTO t VALUES (3, 1, 'x', 'low', ROW('{high,low}', 7, NULL))",
    )
    same(pair)
    pair.pub(
        "CREATE TABLE u (m kinds.moods PRIMARY KEY, p pair[])",
        "INSERT INTO u VALUES ('{low}', ARRAY[ROW(NULL, 1, NULL)::pair]), ('{high}', NULL)",
    )
    assert pair.catch_up() == []
    for query in ("SELECT * FROM u ORDER BY m", "SELECT pg_typeof(m), pg_typeof(p), (p).b, (p).a[1] FROM t"):
        assert pair.sub(query) == pair.pub(query)
    constraints = "SELECT conname FROM pg_constraint WHERE contypid <> 0 ORDER BY 1"
    assert pair.sub(constraints) == [("moods_check",)]  # few calls a function that is not here


def test_keys_without_overlaps_are_made_where_18_is_spoken(pair: Pair) -> None:
    pair.pub("SET pgrepl.postgres_version = 18", "CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe(options="WITH (schema_changes = tables)")
    made = "CREATE TABLE {0} (id int4range, v int4range, CONSTRAINT {0}_key PRIMARY KEY (id, v WITHOUT OVERLAPS))"
    for name, key in (("t", "PRIMARY KEY (id, v)"), ("u", "PRIMARY KEY (id, v WITHOUT OVERLAPS)")):
        pair.pub(made.format(name), f"INSERT INTO {name} VALUES ('[1,2)', '[1,5)')")
        assert pair.catch_up() == []
        asked = (
            f"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = '{name}'::regclass AND contype = 'p'"
        )
        assert pair.sub(asked) == [(key,)]
        assert pair.sub(f"SELECT * FROM {name}") == [("[1,2)", "[1,5)")]
        pair.sub("ALTER DATABASE sub SET pgrepl.postgres_version = 18")
