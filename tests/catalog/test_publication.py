"""What a publication publishes, asked for all of its tables and for one."""

from __future__ import annotations

import pytest

from pgrepl.catalog.facts.publication import published_table, published_tables
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.store import rows
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
"""
WHAT = (
    "FOR ALL TABLES", "FOR TABLES IN SCHEMA a", "FOR TABLES IN SCHEMA b", "FOR TABLES IN SCHEMA a, public",
    "FOR TABLE b.root", "FOR TABLE a.middle", "FOR TABLE a.leaf", "FOR TABLE b.root, a.middle, b.leaf",
    "FOR TABLE plain (id) WHERE (id > 5), a.leaf WHERE (id < 7)", "FOR TABLE plain_leaf, TABLES IN SCHEMA a", "",
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
