"""Which columns identify a row that is updated or deleted."""

from __future__ import annotations

import pytest

from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.catalog.facts.relation_parts import identity_key_columns, primary_key, replica_identity_index
from pgrepl.catalog.session.session import Session
from pgrepl.sql.nodes import RangeVar
from pgrepl.statements.run import run
from tests.catalog.conftest import Connect


def table(session: Session, *statements: str) -> Relation:
    for statement in statements:
        list(run(session, statement))
    return find_relation(session, RangeVar("t"))


@pytest.mark.parametrize(
    ("statements", "columns"),
    [
        (["CREATE TABLE t (a int)"], set()),
        (["CREATE TABLE t (a int, b int, c int, PRIMARY KEY (c, a) INCLUDE (b))"], {1, 3}),
        (["CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)"], set()),
        (["CREATE TABLE t (a int UNIQUE NOT NULL)"], set()),
        (["CREATE TABLE t (a int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY FULL"], set()),
        (["CREATE TABLE t (a int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY NOTHING"], set()),
        (
            [
                "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL UNIQUE)",
                "ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_key",
            ],
            {2},
        ),
        (
            [
                "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL UNIQUE)",
                "ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_key",
                "ALTER TABLE t DROP CONSTRAINT t_b_key",
            ],
            set(),
        ),
        (["CREATE TABLE t (a int, b int PRIMARY KEY) PARTITION BY RANGE (b)"], {2}),
    ],
)
def test_columns_of_the_replica_identity(connect: Connect, statements: list[str], columns: set[int]) -> None:
    session = connect()
    assert identity_key_columns(session, table(session, *statements)) == columns


def test_a_deferrable_primary_key_is_no_replica_identity(connect: Connect) -> None:
    session = connect()
    found = table(session, "CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)")
    key = primary_key(session, found)
    assert key is not None and relation(session, key.indexrelid).name == "t_pkey"
    assert replica_identity_index(session, found) is None
