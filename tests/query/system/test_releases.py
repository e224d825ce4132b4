"""System catalogs have the columns of the release that a session speaks."""

from __future__ import annotations

from pathlib import Path

from tests.harness.database import Database

COLUMNS = "conname, contype, convalidated, conrelid::regclass::text AS t, conkey"


def test_views_keep_the_columns_they_were_defined_with(tmp_path: Path) -> None:
    database = Database(tmp_path / "here")
    database(
        "CREATE TABLE t (a int CONSTRAINT c CHECK (a > 0))",
        f"CREATE VIEW v AS SELECT {COLUMNS} FROM pg_constraint WHERE conname = 'c'",
        "CREATE VIEW w AS SELECT x, y, convalidated FROM pg_constraint AS c (x, y) WHERE y = 'c'",
        "CREATE FUNCTION f() RETURNS text BEGIN ATOMIC SELECT max(t) FROM v; END",
    )
    database("SET pgrepl.postgres_version = 18", f"CREATE VIEW v18 AS SELECT conenforced, {COLUMNS} FROM pg_constraint")
    definitions = []
    for release in (17, 18):
        database(f"SET pgrepl.postgres_version = {release}")
        assert database("SELECT * FROM v") == [("c", "c", "t", "t", "{1}")]
        assert database("SELECT y, convalidated FROM w") == [("c", "t")]
        assert database("SELECT f()") == [("t",)]
        assert database("SELECT * FROM v18 WHERE conname = 'c'") == [("t", "c", "c", "t", "t", "{1}")]
        views = [name for (name,) in database("SELECT relname FROM pg_class WHERE relkind = 'v' AND oid >= 16384")]
        definitions.append({name: database(f"SELECT pg_get_viewdef('{name}')") for name in views})
    assert definitions[0] == definitions[1]


def test_a_view_lacks_what_18_has_left_out(tmp_path: Path) -> None:
    """Of its columns a query knows those of its own release, wherever it is read."""
    database = Database(tmp_path / "here")
    elements = "information_schema.element_types"
    database("CREATE TABLE t (a int[])")
    for release, other, count in ((17, 18, 29), (18, 17, 28)):
        database(f"SET pgrepl.postgres_version = {release}")
        listed = f"SELECT count(*) FROM information_schema.columns WHERE table_name = '{elements[19:]}'"
        assert database(listed) == [(str(count),)]
        database(f"CREATE VIEW v{release} AS SELECT * FROM {elements}")
        database(f"SET pgrepl.postgres_version = {other}")
        (row,) = database(f"SELECT * FROM v{release} WHERE object_name = 't'")
        assert (len(row), row[-1], row[-6]) == (count, "a1", "int4")
    assert database.says("SELECT domain_default FROM v18") == 'column "domain_default" does not exist'
