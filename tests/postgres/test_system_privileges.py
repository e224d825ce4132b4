"""What PUBLIC may do with what initdb makes: the functions, tables and columns of the system."""

from __future__ import annotations

import pytest

from tests.postgres.side_by_side import SideBySide

FUNCTIONS = "SELECT oid::regprocedure::text, has_function_privilege('nobody', oid, 'EXECUTE')::text FROM pg_proc"
TABLES = (
    "SELECT c.oid::regclass::text, p, has_table_privilege('nobody', c.oid, p)::text FROM pg_class c, "
    "unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p WHERE relnamespace = 'pg_catalog'::regnamespace"
)
COLUMNS = (
    "SELECT attrelid::regclass::text, attname::text, has_column_privilege('nobody', attrelid, attnum, 'SELECT')::text "
    "FROM pg_attribute JOIN pg_class c ON c.oid = attrelid "
    "WHERE relnamespace = 'pg_catalog'::regnamespace AND attnum > 0"
)
ANY_COLUMN = "SELECT has_any_column_privilege('nobody', 'pg_subscription', 'SELECT')::text"


@pytest.mark.parametrize("query", [FUNCTIONS, TABLES, COLUMNS, ANY_COLUMN])
def test_public_may_the_same(sides: SideBySide, query: str) -> None:
    sides.ours("CREATE ROLE nobody")
    with sides.link.transaction(force_rollback=True):
        sides.link.execute("CREATE ROLE nobody")
        theirs = {tuple(row[:-1]): row[-1] for row in sides.link.execute(query.encode()).fetchall()}
    ours = {tuple(row[:-1]): row[-1] for row in sides.ours(query)}
    known = theirs.keys() & ours.keys()
    assert {name: ours[name] for name in known} == {name: theirs[name] for name in known}
