"""What a publication publishes, asked for all of its tables and for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.catalog.facts.publication import is_publishable, published_table, published_tables
from pgrepl.catalog.facts.relation import find_relation, range_var, relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import FIRST_NORMAL_OID
from pgrepl.catalog.store.tables import pg_class
from pgrepl.statements.run import run

TABLES = """
    CREATE SCHEMA a; CREATE SCHEMA b;
    CREATE TABLE plain (id int PRIMARY KEY, v int);
    CREATE TABLE a.plain (id int PRIMARY KEY, v int);
    CREATE TABLE b.root (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
    CREATE TABLE a.middle PARTITION OF b.root FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
    CREATE TABLE a.leaf PARTITION OF a.middle FOR VALUES FROM (0) TO (10);
    CREATE TABLE b.leaf PARTITION OF a.middle FOR VALUES FROM (10) TO (20);
    CREATE TABLE plain_leaf PARTITION OF b.root FOR VALUES FROM (100) TO (200);
    CREATE VIEW a.seen AS SELECT 1 AS one;
    CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE kid (PRIMARY KEY (id)) INHERITS (parent);
    CREATE UNLOGGED TABLE a.unlogged (id int PRIMARY KEY);
"""
WHAT = (
    "FOR ALL TABLES", "FOR TABLES IN SCHEMA a", "FOR TABLES IN SCHEMA b", "FOR TABLES IN SCHEMA a, public",
    "FOR TABLE b.root", "FOR TABLE a.middle", "FOR TABLE a.leaf", "FOR TABLE b.root, a.middle, b.leaf",
    "FOR TABLE plain (id) WHERE (id > 5), a.leaf WHERE (id < 7)", "FOR TABLE plain_leaf, TABLES IN SCHEMA a", "",
    "FOR ALL TABLES EXCEPT (TABLE plain)", "FOR ALL TABLES EXCEPT (TABLE b.root)", "FOR TABLE parent",
)  # fmt: skip


@pytest.mark.parametrize("via_root", ["true", "false"])
@pytest.mark.parametrize("what", WHAT)
def test_one_table_is_found_as_among_all(session: Session, what: str, via_root: str) -> None:
    for _ in run(session, f"{TABLES}; CREATE PUBLICATION p {what} WITH (publish_via_partition_root = {via_root})"):
        pass
    with reading(session):
        every = {table.relid: table for table in published_tables(session, ["p"])}
        oids = [row.oid for row in rows(session, pg_class, datid=session.database_oid)]
        found = {oid: published_table(session, "p", relation(session, oid)) for oid in oids}
    assert {oid: table for oid, table in found.items() if table is not None} == every
    assert bool(every) == bool(what)


PLAIN = ["a.plain", "public.kid", "public.parent", "public.plain"]
LEAVES = ["a.leaf", "b.leaf", "public.plain_leaf"]


@pytest.mark.parametrize(
    ("what", "of_leaves", "of_roots"),
    [
        ("FOR ALL TABLES", PLAIN + LEAVES, [*PLAIN, "b.root"]),
        ("FOR ALL TABLES EXCEPT (TABLE public.plain)", PLAIN[:3] + LEAVES, [*PLAIN[:3], "b.root"]),
        ("FOR ALL TABLES EXCEPT (TABLE b.root)", PLAIN, PLAIN),
        ("FOR TABLES IN SCHEMA a", ["a.leaf", "a.plain", "b.leaf"], ["a.middle", "a.plain"]),
        ("FOR TABLE a.leaf, TABLES IN SCHEMA a", ["a.leaf", "a.plain", "b.leaf"], ["a.middle", "a.plain"]),
        ("FOR TABLE b.root, a.leaf", LEAVES, ["b.root"]),
        ("FOR TABLE ONLY parent", ["public.parent"], ["public.parent"]),
        ("FOR TABLE parent", ["public.kid", "public.parent"], ["public.kid", "public.parent"]),
    ],
)
def test_a_publication_lists_leaves_or_roots(
    session: Session, what: str, of_leaves: list[str], of_roots: list[str]
) -> None:
    """A7: each once."""
    list(run(session, TABLES))
    for via_root, listed in (("false", of_leaves), ("true", of_roots)):
        list(run(session, f"CREATE PUBLICATION p {what} WITH (publish_via_partition_root = {via_root})"))
        with reading(session):
            found = [relation(session, table.relid) for table in published_tables(session, ["p"])]
        assert sorted(f"{rel.schema}.{rel.name}" for rel in found) == sorted(listed)
        list(run(session, "DROP PUBLICATION p"))


def test_a_leaf_is_not_listed_beside_its_root(session: Session) -> None:
    """C5: whichever of the subscription's publications lists the root."""
    list(
        run(
            session,
            f"{TABLES}; CREATE PUBLICATION p FOR TABLE b.root WITH (publish_via_partition_root);"
            "CREATE PUBLICATION q FOR TABLE a.leaf, plain",
        )
    )
    with reading(session):
        found = [relation(session, table.relid).name for table in published_tables(session, ["p", "q"])]
    assert found == ["root", "plain"]


def test_the_list_and_the_filter_are_the_members(session: Session) -> None:
    list(
        run(
            session,
            f"{TABLES}; CREATE TABLE made (id int, twice int GENERATED ALWAYS AS (id * 2) STORED);"
            "CREATE PUBLICATION p FOR TABLE plain (id) WHERE (id > 5), made;"
            "CREATE PUBLICATION q FOR TABLE plain WHERE (id > 5), TABLES IN SCHEMA public;"
            "CREATE PUBLICATION r FOR ALL TABLES WITH (publish_generated_columns = stored)",
        )
    )
    with reading(session):
        told = {
            name: {
                relation(session, table.relid).name: (table.attrs, table.qual is not None)
                for table in published_tables(session, [name])
                if relation(session, table.relid).qualified_name in ("public.plain", "public.made")
            }
            for name in "pqr"
        }
    assert told == {
        "p": {"plain": ((1,), True), "made": ((1,), False)},
        "q": {"plain": ((1, 2), False), "made": ((1,), False)},
        "r": {"plain": ((1, 2), False), "made": ((1, 2), False)},
    }


def test_permanent_tables_of_users_can_be_published(session: Session) -> None:
    list(run(session, TABLES))
    with reading(session):
        table = find_relation(session, range_var(["plain"]))
    answers = {
        text: is_publishable(replace(table, **change))  # type: ignore[arg-type]
        for text, change in {
            "table": {}, "partitioned": {"kind": "p"}, "view": {"kind": "v"}, "unlogged": {"persistence": "u"},
            "temporary": {"persistence": "t"}, "first": {"oid": FIRST_NORMAL_OID},
            "system": {"oid": FIRST_NORMAL_OID - 1},
        }.items()
    }  # fmt: skip
    assert {text for text, answer in answers.items() if answer} == {"table", "partitioned", "first"}
