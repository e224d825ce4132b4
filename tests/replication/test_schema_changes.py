"""The subscription parameter schema_changes: what a publishing lake adds, renames, widens or drops arrives."""

from __future__ import annotations

from random import Random

import pytest

from tests.harness.database import by_message
from tests.harness.pair import Pair
from tests.harness.schema_workload import SchemaWorkload, differing

T = "CREATE TABLE t (id int PRIMARY KEY, a int, b text)"


def following(pair: Pair, mode: str = "columns", table: str = T, publication: str = "FOR TABLE t") -> None:
    pair.both(table)
    pair.pub("INSERT INTO t (id) VALUES (1), (2)")
    pair.pub(f"CREATE PUBLICATION p {publication}")
    pair.subscribe(options=f"WITH (schema_changes = {mode})")
    assert pair.catch_up() == []


def same(pair: Pair) -> None:
    """Catch up; the tables are equal then."""
    assert pair.catch_up() == []
    assert differing(pair.pub, pair.sub) == ""


def test_columns_are_added_with_the_values_of_older_rows(pair: Pair) -> None:
    following(pair)
    pair.pub("ALTER TABLE t ADD COLUMN c numeric(8,2) NOT NULL DEFAULT 2.50, ADD COLUMN d text")
    pair.pub("INSERT INTO t VALUES (3, 3, 'x', 4, 'y')")
    same(pair)
    assert pair.sub("SELECT id, c FROM t ORDER BY id") == [("1", "2.50"), ("2", "2.50"), ("3", "4.00")]
    pair.sub("INSERT INTO t (id) VALUES (9)")  # the default itself and NOT NULL are not followed
    assert pair.sub("SELECT c FROM t WHERE id = 9") == [(None,)]


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


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_arrive(pair: Pair, seed: int) -> None:
    by_message(pair.sub)
    random_changes(pair, seed, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_changes_arrive(pair: Pair, seed: int) -> None:
    random_changes(pair, seed, 12)
