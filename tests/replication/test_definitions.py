"""schema_changes = all: a lake tells its definitions in the order of its changes, and they are followed exactly."""

from __future__ import annotations

from random import Random

import pytest

from pgrepl.replication.wire import messages
from tests.harness.database import by_message
from tests.harness.definition_workload import TABLE, DefinitionWorkload, differs
from tests.harness.dose import dose
from tests.harness.pair import Pair


def following(pair: Pair, publication: str = "FOR ALL TABLES") -> None:
    pair.both(TABLE)
    pair.pub("INSERT INTO t (id) VALUES (1), (2)")
    pair.pub(f"CREATE PUBLICATION p {publication}")
    pair.subscribe(options="WITH (schema_changes = all)")
    assert pair.catch_up() == []


def same(pair: Pair) -> None:
    assert pair.catch_up() == []
    assert differs(pair.pub, pair.sub) == ""


def random_definitions(pair: Pair, seed: int, steps: int) -> None:
    following(pair)
    random = Random(seed)
    workload = DefinitionWorkload(lambda text: pair.pub(f"BEGIN; {text}; COMMIT"), random)
    for _ in range(steps):
        workload.work(random.randint(1, 6))
        same(pair)
    assert not [text for text in pair.log.messages("WARNING") if "does not follow" in text]


@pytest.mark.parametrize("seed", dose(range(4), 4))
def test_random_definitions_arrive(pair: Pair, seed: int) -> None:
    if seed:
        by_message(pair.sub)
    random_definitions(pair, seed, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_definitions_arrive(pair: Pair, seed: int) -> None:
    random_definitions(pair, seed, 10)


def test_many_changes_between_definitions_go_by_columns(pair: Pair) -> None:
    following(pair)
    pair.pub("INSERT INTO t SELECT g, g, 'x' FROM generate_series(10, 1500) g")
    pair.pub("ALTER TABLE t ALTER COLUMN a SET DEFAULT 4, ADD COLUMN c int NOT NULL DEFAULT 5")
    pair.pub("UPDATE t SET c = id; INSERT INTO t (id) VALUES (3)")
    before = pair.sub.ways()
    same(pair)
    assert (pair.sub.ways() - before)["apply"] >= 2


def test_not_null_keeps_its_name(pair: Pair) -> None:
    for database in (pair.pub, pair.sub):
        database("SET pgrepl.postgres_version = 18")
    pair.sub("ALTER DATABASE sub SET pgrepl.postgres_version = 18")
    following(pair)
    pair.pub("UPDATE t SET a = 1, b = 'x'; ALTER TABLE t ADD CONSTRAINT ann NOT NULL a, ALTER b SET NOT NULL")
    assert pair.catch_up() == []
    shown = "SELECT conname FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'n' ORDER BY 1"
    assert pair.sub(shown) == pair.pub(shown) == [("ann",), ("t_b_not_null",), ("t_id_not_null",)]


def test_names_and_drops_of_tables(pair: Pair) -> None:
    pair.both("CREATE TABLE other (k int PRIMARY KEY)")
    following(pair)
    pair.pub("CREATE SCHEMA later; ALTER TABLE t SET SCHEMA later; ALTER TABLE later.t RENAME TO u")
    pair.pub("INSERT INTO later.u (id) VALUES (3); DROP TABLE other; CREATE TABLE other (k int PRIMARY KEY, v text)")
    pair.pub("INSERT INTO other VALUES (7, 'x'); ALTER SCHEMA later RENAME TO last; INSERT INTO last.u (id) VALUES (4)")
    assert pair.catch_up() == []
    for query in ("SELECT id FROM last.u ORDER BY id", "SELECT * FROM other"):
        assert pair.sub(query) == pair.pub(query)
    assert pair.sub("SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1") == [
        ("last.u", "r"), ("other", "r")
    ]  # fmt: skip


def test_a_label_is_there_before_its_row_and_renamed_behind_it(pair: Pair) -> None:
    following(pair)
    for text in (
        "ALTER TYPE mood ADD VALUE 'top'", "INSERT INTO t (id, m) VALUES (3, 'top')",
        "ALTER TYPE mood RENAME VALUE 'top' TO 'last'", "INSERT INTO t (id, m) VALUES (4, 'last')",
    ):  # fmt: skip
        pair.pub(text)
    same(pair)


def test_what_is_new_since_it_was_set_is_followed(pair: Pair) -> None:
    pair.both(TABLE)
    pair.pub("ALTER TABLE t ALTER COLUMN a SET DEFAULT 1; CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe(options="WITH (schema_changes = columns)")
    pair.pub("ALTER TABLE t ALTER COLUMN b SET DEFAULT 'x'; INSERT INTO t (id) VALUES (1)")
    assert pair.catch_up() == []
    pair.sub("ALTER TABLE t ALTER COLUMN a SET DEFAULT 9; ALTER SUBSCRIPTION s SET (schema_changes = all)")
    pair.pub("ALTER TABLE t ALTER COLUMN m SET DEFAULT 'low'")
    assert pair.catch_up() == []
    defaults = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 't'::regclass ORDER BY adnum"
    assert pair.sub(defaults) == [("9",), ("'low'::mood",)]


def test_within_a_large_transaction(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "PORTION", 1000)
    following(pair)
    pair.pub(
        "BEGIN; INSERT INTO t (id) SELECT g FROM generate_series(10, 2500) g; ALTER TABLE t ALTER b SET DEFAULT 'y';"
        " ALTER TABLE t RENAME a TO n; INSERT INTO t (id) VALUES (5); ALTER TABLE t ALTER n SET DEFAULT 3; COMMIT"
    )
    same(pair)
