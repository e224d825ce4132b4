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


OF_18 = {
    "casefold('A')": "function casefold(unknown) does not exist",
    "array_sort(ARRAY[2, 1])": "function array_sort(integer[]) does not exist",
    "reverse('a'::bytea)": "function reverse(bytea) does not exist",
    "max('a'::bytea)": "function max(bytea) does not exist",
    "min(ROW(1))::text": "function min(record) does not exist",
    "1::bytea": "cannot cast type integer to bytea",
    "'a'::bytea::int": "cannot cast type bytea to integer",
    "'{1}'::int[]::bytea[]": "cannot cast type integer[] to bytea[]",
    "json_strip_nulls('[null]'::json, true)": "function json_strip_nulls(json, boolean) does not exist",
    "'null'::jsonb::int": "cannot cast jsonb null to type integer",
    "extract(week FROM interval '8 days')": 'unit "week" not supported for type interval',
    "to_number('X', 'RN')": '"RN" not supported for input',
}


def test_functions_and_casts_of_18_are_not_there_in_17(tmp_path: Path) -> None:
    database = Database(tmp_path / "here")
    for expression, message in OF_18.items():
        assert database.says(f"SELECT {expression}").split("\n")[0] == message
    listed = [
        "SELECT count(*) FROM pg_proc WHERE proname IN ('casefold', 'array_sort')",
        "SELECT count(*) FROM pg_cast WHERE castsource = 'bytea'::regtype",
        "SELECT count(*) FROM pg_aggregate WHERE aggfnoid::oid IN (6373, 6374, 6395, 6396)",
        "SELECT pronargs FROM pg_proc WHERE proname = 'json_strip_nulls'",
    ]
    assert [database(query) for query in listed] == [[("0",)], [("0",)], [("0",)], [("1",)]]
    database("SET pgrepl.postgres_version = 18")
    assert [database(query) for query in listed] == [[("4",)], [("3",)], [("4",)], [("2",)]]


def test_a_view_of_18_is_read_in_17(tmp_path: Path) -> None:
    database = Database(tmp_path / "here")
    columns = ", ".join(f"{expression} AS c{number}" for number, expression in enumerate(list(OF_18)[:9]))
    database("SET pgrepl.postgres_version = 18", f"CREATE VIEW v AS SELECT {columns}")
    found = database("SELECT * FROM v")
    database("SET pgrepl.postgres_version = 17")
    assert database("SELECT * FROM v") == found
