"""schema_changes with a real server: it tells its columns as they are now, and the stream may be some ALTERs behind."""

from __future__ import annotations

from random import Random

import pytest

from tests.harness.database import by_message
from tests.harness.dose import dose
from tests.harness.schema_workload import SchemaWorkload, many_changes_go_by_columns, same
from tests.postgres.served import Served

T = "CREATE TABLE t (id int PRIMARY KEY, a int, b text)"


def following(served: Served, mode: str = "columns", publication: str = "FOR TABLE t", table: str = T) -> None:
    served.both(table)
    served.pub("INSERT INTO t (id) VALUES (1), (2)")
    served.pub(f"CREATE PUBLICATION p {publication}")
    served.subscribe(options=f"schema_changes = {mode}")


def test_columns_are_added_with_the_values_of_older_rows(served: Served) -> None:
    following(served)
    served.pub(
        "ALTER TABLE t ADD COLUMN c numeric(8,2) NOT NULL DEFAULT 2.50, ADD COLUMN d text DEFAULT 'it''s {a}, \"b\"',"
        " ADD COLUMN e int[] DEFAULT '{1,2}', ADD COLUMN f timestamptz DEFAULT '2024-02-03 04:05:06+01'"
    )
    served.pub("ALTER TABLE t ALTER COLUMN c SET DEFAULT 9")
    served.pub("INSERT INTO t (id) VALUES (3)")
    same(served)
    assert served.sub("SELECT c, d, e FROM t ORDER BY id") == [
        ("2.50", 'it\'s {a}, "b"', "{1,2}"),
        ("2.50", 'it\'s {a}, "b"', "{1,2}"),
        ("9.00", 'it\'s {a}, "b"', "{1,2}"),
    ]


def test_columns_are_renamed_converted_and_dropped(served: Served) -> None:
    following(served)
    served.pub("ALTER TABLE t RENAME COLUMN a TO amount")
    served.pub("INSERT INTO t VALUES (3, 7, 'x')")
    same(served)
    served.pub("ALTER TABLE t ALTER COLUMN amount TYPE bigint, ALTER COLUMN b TYPE varchar(30)")
    served.pub("UPDATE t SET amount = 5000000000 WHERE id = 1")
    same(served)
    served.pub("ALTER TABLE t DROP COLUMN b")
    served.pub("DELETE FROM t WHERE id = 2")
    same(served)


def test_a_generated_column_is_none_of_the_described(served: Served) -> None:
    """The server tells those of `c` under its new name, beside a generated column that is not published."""
    following(served)
    served.pub("ALTER TABLE t ADD g text GENERATED ALWAYS AS (b || '!') STORED, ADD c text")
    served.pub("INSERT INTO t (id, c) VALUES (3, 'x')")
    served.pub("ALTER TABLE t RENAME c TO d; ALTER TABLE t ADD e text; INSERT INTO t (id, d, e) VALUES (4, 'y', 'z')")
    assert served.catch_up() == []
    served.same("SELECT id, a, b, d, e FROM t ORDER BY id")
    assert served.sub("SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0") == [("5",)]


@pytest.mark.parametrize("mode", ["columns", "all"])
def test_older_rows_get_the_values_of_a_generated_column(served: Served, mode: str) -> None:
    """What the server computes of a function that is not here stays NULL in rows of before."""
    served.publishing.needs(18)
    served.pub("CREATE FUNCTION f(int) RETURNS int IMMUTABLE RETURN $1 * 2")
    following(served, mode, "FOR TABLE t WITH (publish_generated_columns = stored)")
    served.pub("ALTER TABLE t ADD g text GENERATED ALWAYS AS (coalesce(b, 'none') || '!') STORED")
    served.pub("INSERT INTO t VALUES (3, 3, 'x')")
    same(served)
    served.pub("ALTER TABLE t ADD h int GENERATED ALWAYS AS (f(id)) STORED; INSERT INTO t VALUES (4)")
    assert served.catch_up() == []
    assert served.sub("SELECT g, h FROM t ORDER BY id") == [
        ("none!", None), ("none!", None), ("x!", None), ("none!", "8"),
    ]  # fmt: skip


def test_the_stream_is_behind_the_server(served: Served) -> None:
    """What was renamed twice, exchanged, dropped or added in between is told by the columns' numbers."""
    following(served, table="CREATE TABLE t (id int PRIMARY KEY, a int, b int, c text)")
    served.pub("INSERT INTO t VALUES (3, 30, 31, 'x')")
    for text in (
        "ALTER TABLE t RENAME a TO d",
        "INSERT INTO t VALUES (4, 40, 41, 'x')",
        "ALTER TABLE t RENAME d TO e; ALTER TABLE t ADD COLUMN f int; INSERT INTO t VALUES (5, 50, 51, 'x', 52)",
        "ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME e TO b",
        "UPDATE t SET a = a + 1, b = b + 2, c = 'y' WHERE id > 3",
        "ALTER TABLE t DROP COLUMN c; ALTER TABLE t ADD COLUMN g text DEFAULT 'g'",
        "INSERT INTO t (id, a, b) VALUES (6, 60, 61)",
        "ALTER TABLE t DROP COLUMN f; ALTER TABLE t ALTER COLUMN g TYPE varchar",
        "DELETE FROM t WHERE id = 1",
    ):
        served.pub(text)
    same(served)


def test_a_transaction_changes_a_table_between_its_rows(served: Served) -> None:
    following(served)
    served.pub(
        "BEGIN; INSERT INTO t VALUES (3, 3, 'x'); ALTER TABLE t RENAME COLUMN a TO c; INSERT INTO t VALUES (4, 4, 'y');"
        " ALTER TABLE t ADD COLUMN d int DEFAULT 9; UPDATE t SET c = -1 WHERE id < 4; DELETE FROM t WHERE id = 2;"
        " ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (5, 5, 50); COMMIT"
    )
    same(served)


@pytest.mark.parametrize("seed", dose(range(3), 3))
def test_random_changes_arrive(served: Served, seed: int) -> None:
    if seed:
        by_message(served.sub)
    random_changes(served, seed, 5)


def random_changes(served: Served, seed: int, steps: int) -> None:
    following(served)
    random = Random(seed)
    workload = SchemaWorkload(served.pub, random)
    for _ in range(steps):
        workload.work(random.randint(1, 6))
        served.pub(workload.row())  # without a change of rows columns do not arrive
        same(served)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_random_changes_arrive(served: Served, seed: int) -> None:
    random_changes(served, seed, 10)


def test_many_changes_go_by_columns(served: Served) -> None:
    following(served)
    many_changes_go_by_columns(served)


def test_new_tables_are_made_copied_and_followed(served: Served) -> None:
    following(served, "tables", "FOR ALL TABLES" if served.publishing.version < 15 else "FOR TABLES IN SCHEMA public")
    served.pub(
        "CREATE TABLE items (sku text PRIMARY KEY, price numeric(8,2) NOT NULL, made date DEFAULT '2024-02-03');"
        "INSERT INTO items VALUES ('a', 1), ('b', 2)"
    )
    assert served.catch_up() == []
    assert served.sub("SELECT * FROM items ORDER BY 1") == [("a", "1.00", "2024-02-03"), ("b", "2.00", "2024-02-03")]
    served.pub("ALTER TABLE items ADD COLUMN note text; INSERT INTO items VALUES ('c', 3, NULL, 'new')")
    assert served.catch_up() == []
    served.same("SELECT * FROM items ORDER BY 1")
    assert served.sub(
        "SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY srrelid::regclass::text"
    ) == [("items", "r"), ("t", "r")]


def test_a_server_decodes_under_the_columns_of_the_time(served: Served) -> None:
    """Also after its present tables were looked at, over the connection that is to stream."""
    following(served, "tables", "FOR ALL TABLES")
    served.pub("INSERT INTO t VALUES (3, 7, 'x')")
    served.pub("ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 4, ALTER COLUMN a TYPE numeric(12,2)")
    served.pub("INSERT INTO t VALUES (4, 8.50, 'y')")
    same(served)
    renamed = "follows its publisher: ALTER TABLE public.t ALTER COLUMN a TYPE numeric(12,2)"
    assert [text for text in served.log.messages("LOG") if text.endswith(renamed)]


def test_values_of_older_rows_are_found_when_the_table_was_rewritten(served: Served) -> None:
    following(served)
    served.pub(
        "ALTER TABLE t ADD COLUMN c date NOT NULL DEFAULT '2024-02-03', ADD COLUMN d int,"
        " ADD COLUMN e int DEFAULT (random() * 9)::int, ALTER COLUMN a TYPE bigint"
    )
    served.pub("ALTER TABLE t ALTER COLUMN c TYPE timestamp, ALTER COLUMN d SET DEFAULT 4, DROP COLUMN e")
    served.pub("INSERT INTO t (id) VALUES (3)")
    same(served)
    assert served.sub("SELECT c, d FROM t WHERE id < 3") == [("2024-02-03 00:00:00", None)] * 2


TYPES = """
CREATE SCHEMA kinds;
CREATE TYPE kinds.mood AS ENUM ('low', 'high');
CREATE DOMAIN kinds.moods AS kinds.mood[] DEFAULT '{low}' CHECK (cardinality(VALUE) > 0);
CREATE TYPE pair AS (a kinds.moods, b int);
"""


def test_types_of_new_columns_and_tables_are_made(served: Served) -> None:
    following(served, "tables", "FOR ALL TABLES")
    served.pub(TYPES)
    served.pub("ALTER TABLE t ADD COLUMN m kinds.mood NOT NULL DEFAULT 'high', ADD COLUMN p pair")
    served.pub("INSERT INTO t VALUES (3, 1, 'x', 'low', ROW('{high,low}', 7))")
    same(served)
    served.pub("CREATE TABLE u (m kinds.moods PRIMARY KEY, p pair[])")
    served.pub("INSERT INTO u VALUES ('{low}', ARRAY[ROW(NULL, 1)::pair]), ('{high}', NULL)")
    assert served.catch_up() == []
    served.same("SELECT * FROM u ORDER BY m")
    served.same("SELECT pg_typeof(t.m), pg_typeof(p), (p).b, (p).a[1] FROM t ORDER BY id")
    assert served.sub("SELECT typname FROM pg_type WHERE typname IN ('mood', 'moods', 'pair') ORDER BY 1") == [
        ("mood",), ("moods",), ("pair",)
    ]  # fmt: skip


def test_a_label_that_is_not_here(served: Served) -> None:
    following(served, "tables", "FOR ALL TABLES")
    served.pub(TYPES)
    served.pub("ALTER TABLE t ADD COLUMN m kinds.mood; INSERT INTO t VALUES (3, 1, 'x', 'low')")
    same(served)
    served.pub("ALTER TYPE kinds.mood ADD VALUE 'middle' BEFORE 'high'")
    served.pub("INSERT INTO t VALUES (4, 1, 'x', 'middle')")
    assert served.catch_up()[0][0] == 'invalid input value for enum kinds.mood: "middle"'
    served.sub("ALTER TYPE kinds.mood ADD VALUE 'middle' BEFORE 'high'")
    same(served)
