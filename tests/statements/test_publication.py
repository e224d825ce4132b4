"""What publications hold, and what they refuse to hold."""

from __future__ import annotations

import pytest

from tests.harness.played import Instance

FLAGS = "SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication WHERE pubname = 'p'"
TABLES = (
    "SELECT schemaname, tablename, attnames, rowfilter FROM pg_publication_tables WHERE pubname = 'p' ORDER BY 1, 2"
)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ("publish = ''", "f|f|f|f|f"),
        ("publish = ' INSERT , update'", "t|t|f|f|f"),
        ("publish = truncate", "f|f|f|t|f"),
        ("publish = 'insert,insert'", "t|f|f|f|f"),
        ("publish_via_partition_root", "t|t|t|t|t"),
        ("publish_via_partition_root = off, publish = 'delete'", "f|f|t|f|f"),
    ],
)
def test_what_publish_takes(instance: Instance, options: str, flags: str) -> None:
    """C1."""
    assert instance.play("pub", f"CREATE PUBLICATION p WITH ({options})", FLAGS) == ["CREATE PUBLICATION", flags]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("publish = 'insert,'", 'invalid list syntax in parameter "publish"'),
        ("publish = 'insert update'", 'invalid list syntax in parameter "publish"'),
        ("publish = 'cluster'", 'unrecognized value for publication option "publish": "cluster"'),
        ("publish", "publish requires a parameter"),
        ("publish = '', publish = ''", "conflicting or redundant options"),
        ("publish_via_partition_root = 2", "publish_via_partition_root requires a Boolean value"),
        ("nosuch = 1", 'unrecognized publication parameter: "nosuch"'),
    ],
)
def test_what_publish_refuses(instance: Instance, options: str, message: str) -> None:
    answer = instance.play("pub", f"CREATE PUBLICATION p WITH ({options})", "SELECT pubname FROM pg_publication")
    assert answer == [f"ERROR:  {message}"]


def test_a_publication_is_only_in_its_database(instance: Instance) -> None:
    instance.play("pub", "CREATE PUBLICATION p")
    assert instance.play("sub", "CREATE PUBLICATION p", "CREATE PUBLICATION p") == [
        "CREATE PUBLICATION",
        'ERROR:  publication "p" already exists',
    ]


def test_without_logical_wal_a_publication_warns(instance: Instance) -> None:
    """B3."""
    instance.play("pub", "ALTER SYSTEM SET wal_level = replica", "CREATE ROLE later LOGIN SUPERUSER")
    assert instance.play("pub", "CREATE PUBLICATION p", user="later") == [
        'WARNING:  "wal_level" is insufficient to publish logical changes',
        'HINT:  Set "wal_level" to "logical" before creating subscriptions.',
        "CREATE PUBLICATION",
    ]


def test_a_table_named_twice_is_taken_once(instance: Instance) -> None:
    """C3."""
    instance.play("pub", "CREATE TABLE t (a int, b int)")
    assert instance.play("pub", "CREATE PUBLICATION p FOR TABLE t, t", TABLES) == [
        "CREATE PUBLICATION",
        "public|t|{a,b}|",
    ]


@pytest.mark.parametrize(
    ("objects", "clauses"),
    [
        ("t (a), t", "column lists"),
        ("t, t (a)", "column lists"),
        ("t WHERE (a > 1), t", "WHERE clauses"),
        ("t, t WHERE (a > 1)", "WHERE clauses"),
        ("t (a) WHERE (a > 1), t (a)", "WHERE clauses"),
    ],
)
def test_a_table_named_twice_has_no_clauses(instance: Instance, objects: str, clauses: str) -> None:
    instance.play("pub", "CREATE TABLE t (a int, b int)")
    assert instance.play("pub", f"CREATE PUBLICATION p FOR TABLE {objects}") == [
        f'ERROR:  conflicting or redundant {clauses} for table "t"'
    ]


def test_set_table_keeps_identical_members(instance: Instance) -> None:
    """C3."""
    instance.play("pub", "CREATE TABLE t (a int, b int)", "CREATE TABLE u (a int)", "CREATE TABLE v (a int)")
    instance.play("pub", "CREATE PUBLICATION p FOR TABLE t (a, b), u WHERE (a > 1), v")
    members = "SELECT prrelid::regclass::text, oid FROM pg_publication_rel ORDER BY 1"
    before = instance.play("pub", members)
    assert instance.play("pub", "ALTER PUBLICATION p SET TABLE v, u WHERE (a > 1), t (b, a)") == ["ALTER PUBLICATION"]
    assert instance.play("pub", members) == before
    instance.play("pub", "ALTER PUBLICATION p SET TABLE v (a), u WHERE (a > 2), t (b, a)")
    after = instance.play("pub", members)
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, False]


def test_drop_table_refuses_clauses(instance: Instance) -> None:
    """C3."""
    instance.play("pub", "CREATE TABLE t (a int, b int)", "CREATE PUBLICATION p FOR TABLE t")
    assert instance.play(
        "pub",
        "ALTER PUBLICATION p DROP TABLE t (a)",
        "ALTER PUBLICATION p DROP TABLE t WHERE (nosuch > 1)",
        "ALTER PUBLICATION p DROP TABLE t",
        "ALTER PUBLICATION p DROP TABLE t WHERE (a > 1)",
    ) == [
        "ERROR:  column list must not be specified in ALTER PUBLICATION ... DROP",
        "ERROR:  cannot use a WHERE clause when removing a table from a publication",
        "ALTER PUBLICATION",
        'ERROR:  relation "t" is not part of the publication',
    ]


def test_no_column_list_beside_schemas(instance: Instance) -> None:
    """C3."""
    instance.play("pub", "CREATE TABLE t (a int, b int)", "CREATE SCHEMA s")
    refusal = [
        'ERROR:  cannot use column list for relation "public.t" in publication "p"',
        "DETAIL:  Column lists cannot be specified in publications containing FOR TABLES IN SCHEMA elements.",
    ]
    assert instance.play("pub", "CREATE PUBLICATION p FOR TABLES IN SCHEMA s, TABLE t (a)") == refusal
    instance.play("pub", "CREATE PUBLICATION p FOR TABLES IN SCHEMA s")
    assert instance.play("pub", "ALTER PUBLICATION p ADD TABLE t (a)") == refusal
    assert instance.play(
        "pub", "ALTER PUBLICATION p SET TABLE t (a)", "ALTER PUBLICATION p ADD TABLES IN SCHEMA s"
    ) == [
        "ALTER PUBLICATION",
        'ERROR:  cannot add schema to publication "p"',
        "DETAIL:  Schemas cannot be added if any tables that specify a column list "
        "are already part of the publication.",
    ]


def test_no_generated_or_system_column_in_a_list(instance: Instance) -> None:
    """C3."""
    instance.play("pub", "CREATE TABLE t (a int, g int GENERATED ALWAYS AS (a) STORED)")
    assert instance.play(
        "pub",
        "CREATE PUBLICATION p FOR TABLE t (a, g)",
        "CREATE PUBLICATION p FOR TABLE t (ctid)",
        "CREATE PUBLICATION p FOR TABLE t (a, a)",
        "CREATE PUBLICATION p FOR TABLE t (b)",
    ) == [
        'ERROR:  cannot use generated column "g" in publication column list',
        'ERROR:  cannot use system column "ctid" in publication column list',
        'ERROR:  duplicate column "a" in publication column list',
        'ERROR:  column "b" of relation "t" does not exist',
    ]


def test_a_generated_column_is_not_published(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int, g int GENERATED ALWAYS AS (a) STORED)")
    assert instance.play("pub", "CREATE PUBLICATION p FOR TABLE t", TABLES)[1:] == ["public|t|{a}|"]


PARTITIONED = ("CREATE TABLE root (a int) PARTITION BY RANGE (a)", "CREATE TABLE leaf PARTITION OF root DEFAULT")


def test_clauses_on_a_partitioned_table_need_via_root(instance: Instance) -> None:
    """C2."""
    instance.play("pub", *PARTITIONED)
    assert instance.play(
        "pub", "CREATE PUBLICATION p FOR TABLE root WHERE (a > 1)", "CREATE PUBLICATION p FOR TABLE root (a)"
    ) == [
        'ERROR:  cannot use publication WHERE clause for relation "root"',
        "DETAIL:  WHERE clause cannot be used for a partitioned table when publish_via_partition_root is false.",
        'ERROR:  cannot use column list for relation "public.root" in publication "p"',
        "DETAIL:  Column lists cannot be specified for partitioned tables when publish_via_partition_root is false.",
    ]


@pytest.mark.parametrize(("clause", "word"), [("WHERE (a > 1)", "WHERE clause"), ("(a)", "column list")])
def test_via_root_stays_while_a_partitioned_table_has_a_clause(instance: Instance, clause: str, word: str) -> None:
    """C2."""
    instance.play("pub", *PARTITIONED)
    instance.play("pub", f"CREATE PUBLICATION p FOR TABLE root {clause} WITH (publish_via_partition_root)")
    assert instance.play("pub", "ALTER PUBLICATION p SET (publish_via_partition_root = false)") == [
        'ERROR:  cannot set parameter "publish_via_partition_root" to false for publication "p"',
        f'DETAIL:  The publication contains a {word} for partitioned table "root", '
        'which is not allowed when "publish_via_partition_root" is false.',
    ]


@pytest.mark.parametrize(
    ("via_root", "filters", "published"),
    [
        (True, "root WHERE (a < 5), leaf WHERE (a > 5)", ["public|root|{a}|(a < 5)"]),
        (False, "root, leaf WHERE (a > 5)", ["public|leaf|{a}|(a > 5)"]),
    ],
)
def test_the_filter_that_counts_is_the_roots_or_the_leafs(
    instance: Instance, via_root: bool, filters: str, published: list[str]
) -> None:
    instance.play("pub", *PARTITIONED)
    create = f"CREATE PUBLICATION p FOR TABLE {filters} WITH (publish_via_partition_root = {via_root})"
    assert instance.play("pub", create, TABLES) == ["CREATE PUBLICATION", *published]


@pytest.mark.parametrize(
    ("made", "name", "reason"),
    [
        ("CREATE VIEW x AS SELECT 1 AS a", "x", "views"),
        ("CREATE SEQUENCE x", "x", "sequences"),
        ("CREATE UNLOGGED TABLE x (a int)", "x", "unlogged tables"),
        ("SELECT", "pg_class", "system tables"),
    ],
)
def test_relations_that_cannot_be_published(instance: Instance, made: str, name: str, reason: str) -> None:
    instance.play("pub", made)
    assert instance.play("pub", f"CREATE PUBLICATION p FOR TABLE {name}") == [
        f'ERROR:  cannot add relation "{name}" to publication',
        f"DETAIL:  This operation is not supported for {reason}.",
    ]


def test_an_index_cannot_even_be_opened(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int PRIMARY KEY)")
    assert instance.play("pub", "CREATE PUBLICATION p FOR TABLE t_pkey") == [
        'ERROR:  cannot open relation "t_pkey"',
        "DETAIL:  This operation is not supported for indexes.",
    ]


def test_children_come_with_their_parent_unless_only(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE parent (a int)", "CREATE TABLE child () INHERITS (parent)")
    names = "SELECT tablename FROM pg_publication_tables WHERE pubname = 'p' ORDER BY 1"
    assert instance.play("pub", "CREATE PUBLICATION p FOR TABLE parent", names)[1:] == ["child", "parent"]
    assert instance.play("pub", "ALTER PUBLICATION p SET TABLE ONLY parent", names)[1:] == ["parent"]


def test_what_is_dropped_leaves_its_publications(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int, b int)", "CREATE SCHEMA s", "CREATE PUBLICATION p FOR TABLE t (a)")
    instance.play("pub", "CREATE PUBLICATION q FOR TABLES IN SCHEMA s")
    assert instance.play(
        "pub",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t DROP COLUMN a CASCADE",
        "DROP SCHEMA s",
        "SELECT count(*) FROM pg_publication_rel",
        "SELECT count(*) FROM pg_publication_namespace",
    ) == [
        "ALTER TABLE",
        "ERROR:  cannot drop column a of table t because other objects depend on it",
        "DETAIL:  publication of table t in publication p depends on column a of table t",
        "HINT:  Use DROP ... CASCADE to drop the dependent objects too.",
        "NOTICE:  drop cascades to publication of table t in publication p",
        "ALTER TABLE",
        "DROP SCHEMA",
        "0",
        "0",
    ]


def test_renamed_columns_show_in_lists_and_filters(instance: Instance) -> None:
    """B1."""
    instance.play("pub", "CREATE TABLE t (a int, b int)", "CREATE PUBLICATION p FOR TABLE t (a) WHERE (b > 1)")
    answer = instance.play("pub", "ALTER TABLE t RENAME a TO x", "ALTER TABLE t RENAME b TO y", TABLES)
    assert answer[2:] == ["public|t|{x}|(y > 1)"]


def test_a_negative_column_number_stops_set_table_as_in_postgresql(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "CREATE PUBLICATION p FOR TABLE t")
    assert instance.play("pub", "ALTER PUBLICATION p SET TABLE t (ctid)") == [
        "ERROR:  negative bitmapset member not allowed"
    ]


def test_publications_are_versioned_by_snapshot(instance: Instance) -> None:
    """What replication asks about the past is still there after it was changed."""
    instance.play("pub", "CREATE PUBLICATION p", "ALTER PUBLICATION p SET (publish = 'insert')", "DROP PUBLICATION p")
    link = instance.session("pub").link
    versions = link.execute("SELECT pubdelete, begin_snapshot, end_snapshot FROM pg_publication ORDER BY row_version")
    (first, changed), (second, gone) = [(begin, end) for _, begin, end in versions]
    assert [bool(deletes) for deletes, _, _ in versions] == [True, False]
    assert first < changed == second < gone
