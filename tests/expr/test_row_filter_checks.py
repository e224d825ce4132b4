"""Filters and column lists of publications, when rows are updated or deleted."""

from __future__ import annotations

import pytest

from pgrepl.expr.row_filter_checks import check_replica_identity
from pgrepl.ground.errors import PgError
from tests.expr.conftest import Place

FILTER = "Column used in the publication WHERE expression is not part of the replica identity."
COLUMNS = "Column list used by the publication does not cover the replica identity."


def refusal(place: Place, name: str, command: str) -> tuple[str | None, ...] | None:
    """Message, DETAIL and HINT."""
    try:
        check_replica_identity(place.session, place.relation(name), command)
    except PgError as error:
        return error.report.message, error.report.detail, error.report.hint
    return None


@pytest.fixture
def tables(place: Place) -> Place:
    place.run(
        "CREATE TABLE keyed (a int PRIMARY KEY, b text)",
        "CREATE TABLE bare (a int, b text)",
        "CREATE TABLE whole (a int, b text)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "CREATE TABLE indexed (a int, b text NOT NULL UNIQUE)",
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_b_key",
    )
    return place


def test_no_publication_no_condition(tables: Place) -> None:
    assert all(refusal(tables, name, "UPDATE") is None for name in ("keyed", "bare", "whole", "indexed"))


@pytest.mark.parametrize("publication", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA public", "FOR TABLE bare, keyed"])
def test_a_replica_identity_is_needed(tables: Place, publication: str) -> None:
    tables.run(f"CREATE PUBLICATION p {publication}")
    assert refusal(tables, "keyed", "UPDATE") is None
    assert refusal(tables, "whole", "DELETE") is None
    assert refusal(tables, "indexed", "DELETE") is None
    assert refusal(tables, "bare", "INSERT") is None
    assert refusal(tables, "bare", "UPDATE") == (
        'cannot update table "bare" because it does not have a replica identity and publishes updates',
        None,
        "To enable updating the table, set REPLICA IDENTITY using ALTER TABLE.",
    )
    assert refusal(tables, "bare", "DELETE") == (
        'cannot delete from table "bare" because it does not have a replica identity and publishes deletes',
        None,
        "To enable deleting from the table, set REPLICA IDENTITY using ALTER TABLE.",
    )


def test_only_of_what_is_published(tables: Place) -> None:
    tables.run("CREATE PUBLICATION p FOR TABLE bare WITH (publish = 'insert, delete')")
    assert refusal(tables, "bare", "UPDATE") is None
    assert refusal(tables, "bare", "DELETE") is not None


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("keyed WHERE (a > 0)", True),
        ("keyed WHERE (b = 'x')", False),
        ("keyed WHERE (a > 0 AND b = 'x')", False),
        ("whole WHERE (b = 'x')", True),
        ("indexed WHERE (b = 'x')", True),
        ("indexed WHERE (a > 0)", False),
        ("bare WHERE (a > 0)", False),
        ("keyed WHERE (true)", True),
    ],
)
def test_filters_use_the_identity_alone(tables: Place, target: str, allowed: bool) -> None:
    tables.run(f"CREATE PUBLICATION p FOR TABLE {target}")
    name = target.split()[0]
    update, delete = refusal(tables, name, "UPDATE"), refusal(tables, name, "DELETE")
    if allowed:
        assert update is None and delete is None
    else:
        assert update == (f'cannot update table "{name}"', FILTER, None)
        assert delete == (f'cannot delete from table "{name}"', FILTER, None)


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("keyed (a)", True),
        ("keyed (b)", False),
        ("keyed (a, b)", True),
        ("indexed (b)", True),
        ("indexed (a)", False),
        ("whole (a, b)", False),
    ],
)
def test_column_lists_cover_the_identity(tables: Place, target: str, allowed: bool) -> None:
    tables.run(f"CREATE PUBLICATION p FOR TABLE {target}")
    name = target.split()[0]
    assert refusal(tables, name, "UPDATE") == (None if allowed else (f'cannot update table "{name}"', COLUMNS, None))


def test_a_dropped_identity_is_none(tables: Place) -> None:
    tables.run("CREATE PUBLICATION p FOR TABLE indexed", "ALTER TABLE indexed REPLICA IDENTITY NOTHING")
    assert refusal(tables, "indexed", "UPDATE") is not None
    tables.run("ALTER TABLE indexed REPLICA IDENTITY FULL")
    assert refusal(tables, "indexed", "UPDATE") is None


@pytest.fixture
def partitioned(place: Place) -> Place:
    """The columns of the partition are in another order."""
    place.run(
        "CREATE TABLE parent (a int, b text, c int) PARTITION BY RANGE (a)",
        "CREATE TABLE child (c int, b text, a int NOT NULL)",
        "ALTER TABLE child ADD PRIMARY KEY (a)",
        "ALTER TABLE parent ATTACH PARTITION child FOR VALUES FROM (0) TO (10)",
    )
    return place


@pytest.mark.parametrize(("condition", "allowed"), [("a > 0", True), ("c > 0", False), ("b = 'x'", False)])
def test_the_filter_of_the_root(partitioned: Place, condition: str, allowed: bool) -> None:
    partitioned.run(f"CREATE PUBLICATION p FOR TABLE parent WHERE ({condition}) WITH (publish_via_partition_root)")
    assert (refusal(partitioned, "child", "UPDATE") is None) is allowed
    assert refusal(partitioned, "parent", "UPDATE") is None  # it has no rows of its own


@pytest.mark.parametrize(("columns", "allowed"), [("a", True), ("a, c", True), ("b, c", False)])
def test_the_column_list_of_the_root(partitioned: Place, columns: str, allowed: bool) -> None:
    partitioned.run(f"CREATE PUBLICATION p FOR TABLE parent ({columns}) WITH (publish_via_partition_root)")
    assert (refusal(partitioned, "child", "UPDATE") is None) is allowed


def test_partitions_publish_their_own_filter(partitioned: Place) -> None:
    partitioned.run("CREATE PUBLICATION p FOR TABLE child WHERE (c > 0)")
    assert refusal(partitioned, "child", "UPDATE") == ('cannot update table "child"', FILTER, None)
