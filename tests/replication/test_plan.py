"""The plan of a table's changes, by the publications that publish it, itself or an ancestor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.replication.publisher.plan import ReplicaIdentity, SendPlan, check_sendable, differing, send_plan
from pgrepl.replication.wire.messages import DELETE, INSERT, TRUNCATE, UPDATE
from tests.harness.database import Database
from tests.harness.pair import Pair

EVERY = {INSERT, UPDATE, DELETE, TRUNCATE}
TABLES = """
    CREATE SCHEMA s;
    CREATE TABLE plain (id int PRIMARY KEY, v int, w int);
    CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
    CREATE TABLE kid (PRIMARY KEY (id)) INHERITS (plain);
    CREATE VIEW seen AS SELECT 1 AS one;
    CREATE TABLE s.root (id int PRIMARY KEY, v int, w int) PARTITION BY RANGE (id);
    CREATE TABLE middle (w int, gone int, v int, id int PRIMARY KEY) PARTITION BY RANGE (id);
    ALTER TABLE middle DROP COLUMN gone;
    ALTER TABLE s.root ATTACH PARTITION middle FOR VALUES FROM (0) TO (100);
    CREATE TABLE leaf PARTITION OF middle FOR VALUES FROM (0) TO (10);
    ALTER TABLE leaf REPLICA IDENTITY FULL;
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("plan"))
    pair.pub(TABLES)
    yield pair
    pair.close()


@pytest.fixture
def pub(tables: Pair) -> Iterator[Database]:
    """The tables, without publications."""
    yield tables.pub
    for (name,) in tables.pub("SELECT pubname FROM pg_publication"):
        tables.pub(f"DROP PUBLICATION {name}")


def plan_of(pub: Database, table: str, names: Sequence[str], release: int = 17) -> SendPlan | None:
    with reading(pub.session):
        return send_plan(pub.session, names, find_relation(pub.session, range_var(table.split("."))).oid, release)


def told(plan: SendPlan | None) -> Any:
    """As which table, which operations, how many filters by operation, which columns."""
    if plan is None:
        return None
    filters = {operation: len(each) for operation, each in plan.filters.items()}
    return plan.sent_as.name, set(plan.operations), filters, [column.name for column in plan.columns]


COLUMNS = ["id", "v", "w"]
ROOT = ("root", EVERY, {}, COLUMNS)
MIDDLE = ("middle", EVERY, {}, ["w", "v", "id"])
LEAF = ("leaf", EVERY, {}, ["w", "v", "id"])
VIA_ROOT = "WITH (publish_via_partition_root)"


@pytest.mark.parametrize(
    ("table", "publications", "sent"),
    [
        ("plain", [], None),
        ("plain", ["FOR TABLE plain"], ("plain", EVERY, {}, COLUMNS)),
        ("plain", ["FOR TABLES IN SCHEMA s"], None),
        ("plain", ["FOR ALL TABLES"], ("plain", EVERY, {}, COLUMNS)),
        ("plain", ["FOR ALL TABLES EXCEPT (TABLE plain)"], None),
        ("plain", ["FOR TABLE plain WITH (publish = '')"], None),
        ("plain", ["FOR TABLE plain (id, v) WITH (publish = 'delete')"], ("plain", {DELETE}, {}, ["id", "v"])),
        ("plain", ["FOR TABLE plain (id, w, v)", "FOR TABLE plain"], ("plain", EVERY, {}, COLUMNS)),
        (
            "plain",
            ["FOR TABLE plain WHERE (id > 1) WITH (publish = 'insert, truncate')"],
            ("plain", {INSERT, TRUNCATE}, {INSERT: 1}, COLUMNS),
        ),
        (
            "plain",
            ["FOR TABLE plain WHERE (id > 1) WITH (publish = 'insert, update')", "FOR TABLE plain WHERE (id < 0)"],
            ("plain", EVERY, {INSERT: 2, UPDATE: 2, DELETE: 1}, COLUMNS),
        ),
        (
            "plain",
            ["FOR TABLE plain WHERE (id > 1)", "FOR TABLE plain WITH (publish = 'insert')"],
            ("plain", EVERY, {UPDATE: 1, DELETE: 1}, COLUMNS),
        ),
        ("plain", ["FOR TABLE plain WHERE (id > 1), TABLES IN SCHEMA public"], ("plain", EVERY, {}, COLUMNS)),
        (
            "plain",
            ["FOR TABLE plain WHERE (id > 1)", "FOR ALL TABLES WITH (publish = 'insert')"],
            ("plain", EVERY, {UPDATE: 1, DELETE: 1}, COLUMNS),
        ),
        (
            "plain",
            ["FOR ALL TABLES WITH (publish = 'insert')", "FOR TABLE plain WHERE (id > 1)"],
            ("plain", EVERY, {UPDATE: 1, DELETE: 1}, COLUMNS),
        ),
        ("unlogged", ["FOR ALL TABLES"], None),
        ("seen", ["FOR ALL TABLES"], None),
        ("s.root", ["FOR TABLE s.root"], None),
        ("s.root", ["FOR ALL TABLES"], None),
        ("s.root", [f"FOR TABLE s.root {VIA_ROOT}"], ROOT),
        ("s.root", [f"FOR ALL TABLES {VIA_ROOT}"], ROOT),
        ("leaf", ["FOR TABLE s.root"], LEAF),
        ("leaf", [f"FOR TABLE s.root {VIA_ROOT}"], ROOT),
        ("leaf", [f"FOR TABLES IN SCHEMA s {VIA_ROOT}"], ROOT),
        ("leaf", [f"FOR TABLE middle {VIA_ROOT}"], MIDDLE),
        ("leaf", [f"FOR TABLE leaf {VIA_ROOT}"], LEAF),
        ("leaf", ["FOR ALL TABLES"], LEAF),
        ("leaf", [f"FOR ALL TABLES {VIA_ROOT}"], ROOT),
        ("leaf", [f"FOR ALL TABLES EXCEPT (TABLE s.root) {VIA_ROOT}"], None),
        ("leaf", [f"FOR TABLE middle {VIA_ROOT}", f"FOR TABLE s.root {VIA_ROOT}"], ROOT),
        ("leaf", [f"FOR TABLE s.root {VIA_ROOT}", f"FOR TABLE middle {VIA_ROOT}"], ROOT),
        ("leaf", [f"FOR TABLE middle {VIA_ROOT}", f"FOR ALL TABLES {VIA_ROOT}"], ROOT),
        ("kid", [f"FOR TABLE ONLY plain {VIA_ROOT}"], None),
        # the filter and the list of the leaf's publication count for nothing, its operations do
        (
            "leaf",
            [
                "FOR TABLE leaf (id) WHERE (id > 1) WITH (publish = 'delete')",
                "FOR TABLE s.root WHERE (id > 2) WITH (publish = 'insert', publish_via_partition_root)",
            ],
            ("root", {INSERT, DELETE}, {INSERT: 1}, COLUMNS),
        ),
    ],
)
def test_publications_decide_what_is_sent(pub: Database, table: str, publications: list[str], sent: Any) -> None:
    """A7."""
    names = [f"p{number}" for number in range(len(publications))]
    pub("".join(f"CREATE PUBLICATION {name} {what};" for name, what in zip(names, publications, strict=True)))
    assert told(plan_of(pub, table, names)) == sent


def test_columns_are_found_by_name_and_each_table_has_its_identity(pub: Database) -> None:
    pub(f"CREATE PUBLICATION p FOR TABLE s.root {VIA_ROOT}")
    plan = plan_of(pub, "leaf", ["p"])
    assert plan is not None
    assert plan.from_attnums == (3, 2, 1)
    assert (plan.identity.whole, plan.sent_identity.whole, plan.sent_identity.columns) == (True, False, {1})
    itself = plan_of(pub, "plain", ["p"])
    assert itself is None
    pub("CREATE PUBLICATION q FOR TABLE plain")
    itself = plan_of(pub, "plain", ["q"])
    assert itself is not None and itself.identity is itself.sent_identity
    assert [itself.identity.covers(number) for number in (1, 2)] == [True, False]
    assert [plan.identity.covers(number) for number in (1, 2)] == [True, True]


def test_of_a_table_that_is_gone_nothing_is_sent(pub: Database) -> None:
    pub("CREATE PUBLICATION p FOR ALL TABLES")
    with reading(pub.session):
        assert send_plan(pub.session, ["p"], 4711) is None


def test_a_key_has_changed_if_one_of_its_columns_has() -> None:
    identity = ReplicaIdentity(False, frozenset({1, 2}))
    old = (1, "a", None)
    assert identity.image(old, (1, "b", 5)) == (1, "a", None)
    assert identity.image(old, (1, "a", 5)) is None


@pytest.mark.parametrize("lists", [["(id, v)", "(id, w)"], ["(id, v)", ""], ["", "(id, v)"], ["", "", "(id)"]])
def test_column_lists_must_be_the_same(pub: Database, lists: list[str]) -> None:
    names = [f"p{number}" for number in range(len(lists))]
    pub("".join(f"CREATE PUBLICATION {name} FOR TABLE plain {each};" for name, each in zip(names, lists, strict=True)))
    with pytest.raises(PgError, match="cannot use different column lists for table") as error:
        plan_of(pub, "plain", names)
    assert error.value.sqlstate == "0A000"


def test_publications_must_agree_about_generated_columns_that_there_are(pub: Database) -> None:
    """E1: a publication with a column list does not ask the parameter."""
    pub(
        "CREATE TABLE made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED);"
        "CREATE PUBLICATION none FOR TABLE made, plain;"
        "CREATE PUBLICATION stored FOR TABLE made, plain WITH (publish_generated_columns = stored);"
        "CREATE PUBLICATION listed FOR TABLE made (id), plain WITH (publish_generated_columns = stored)"
    )
    assert told(plan_of(pub, "made", ["none"])) == ("made", EVERY, {}, ["id"])
    assert told(plan_of(pub, "made", ["stored"])) == ("made", EVERY, {}, ["id", "twice"])
    assert told(plan_of(pub, "made", ["none", "listed"])) == ("made", EVERY, {}, ["id"])
    assert told(plan_of(pub, "plain", ["none", "stored"])) == ("plain", EVERY, {}, COLUMNS)
    with pytest.raises(PgError, match="cannot use different values of publish_generated_columns") as error:
        plan_of(pub, "made", ["none", "stored"])
    assert error.value.sqlstate == "0A000"


def test_a_publication_that_is_missing_is_an_error_and_passed_over_by_18(pub: Database) -> None:
    """A1."""
    pub("CREATE PUBLICATION p FOR TABLE plain")
    with pytest.raises(PgError, match='publication "gone" does not exist') as error:
        plan_of(pub, "plain", ["gone", "p"])
    assert error.value.sqlstate == "42704"
    heard: list[Any] = []
    before, pub.session.on_report = pub.session.on_report, heard.append
    assert told(plan_of(pub, "plain", ["gone", "p"], 18)) == ("plain", EVERY, {}, COLUMNS)
    pub.session.on_report = before
    assert [each.message for each in heard] == ['skipped loading publication "gone"']


def test_what_has_no_replica_identity_cannot_be_sent(pub: Database) -> None:
    """A18; a row that moves to another partition is deleted by an UPDATE."""
    pub(
        "CREATE TABLE heap (a int); CREATE TABLE parts (a int) PARTITION BY RANGE (a);"
        "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10);"
        "CREATE PUBLICATION p FOR TABLE heap, parts WITH (publish = 'insert');"
    )
    plans = {table: plan_of(pub, table, ["p"]) for table in ("heap", "part")}
    pub("ALTER PUBLICATION p SET (publish = 'insert, update, delete')")
    refused = []
    with reading(pub.session):
        for table, plan in plans.items():
            for operation in (UPDATE, DELETE):
                assert plan is not None
                try:
                    check_sendable(pub.session, plan, operation)
                except PgError:
                    refused.append((table, operation))
    assert refused == [("heap", UPDATE), ("heap", DELETE), ("part", UPDATE)]


def test_keys_differ_by_any_column_and_nulls_are_equal() -> None:
    old = [pa.array([1, 1, None, None, 1]), pa.array(["a", "a", "a", "a", "a"])]
    new = [pa.array([1, 2, None, 1, None]), pa.array(["a", "a", "a", "a", "a"])]
    assert differing(old, new, 5).tolist() == [False, True, False, True, True]
    assert differing(old[1:], [pa.array(["b", "a", None, "a", "a"])], 5).tolist() == [True, False, True, False, False]
    assert differing([], [], 2).tolist() == [False, False]
    assert isinstance(differing(old, new, 5), np.ndarray)
