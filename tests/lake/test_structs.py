"""Columns of composite types are structs in the lake: DuckDB reads them while they are inlined and in files, and they
follow the attributes of their types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.statements.run import run
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.names import format_type
from pgrepl.types.style import Record
from pgrepl.types.user_types import composite_type
from tests.harness.dose import dose
from tests.lake.conftest import Lake
from tests.types.test_lake_forms import VALUES, same

Rows = list[tuple[str | None, ...]]


def ask(session: Session, text: str) -> Rows:
    return [tuple(row) for result in run(session, text) for row in result.rows]


def kinds(lake: Lake, table: str) -> list[str]:
    """The types of a table's columns as DuckDB sees them."""
    found = lake.duck(
        "SELECT data_type FROM information_schema.columns WHERE table_catalog = 'lake'"
        f" AND table_name = '{table}' ORDER BY ordinal_position"
    )
    return [kind for (kind,) in found]


def into_files(lake: Lake) -> None:
    lake.duck_runs("CALL ducklake_flush_inlined_data('lake')")


def test_a_composite_type_is_a_struct(lake: Lake) -> None:
    lake.sql('CREATE TYPE inside AS (x int, "X" numeric(6, 2), "no way" interval)')
    lake.sql("CREATE DOMAIN small AS inside CHECK ((VALUE).x < 100); CREATE TYPE nothing AS ()")
    lake.sql("CREATE TYPE outside AS (a text[], i inside, l inside[], d small, n nothing, u uuid)")
    lake.sql("CREATE TABLE t (s outside, l outside[], d small, n nothing, several outside[][]); CREATE TABLE r (t t)")
    inside = 'STRUCT(x INTEGER, "X_1" DECIMAL(6,2), "no way" VARCHAR)'
    outside = f"STRUCT(a VARCHAR[], i {inside}, l {inside}[], d {inside}, n STRUCT(no_columns BOOLEAN), u UUID)"
    found = [kind.replace('"X_1"', "X_1") for kind in kinds(lake, "t")]
    assert found == [
        kind.replace('"X_1"', "X_1")
        for kind in (outside, f"{outside}[]", inside, "STRUCT(no_columns BOOLEAN)", "VARCHAR")
    ]
    assert kinds(lake, "r") == ["VARCHAR"]  # the rows of a table are text


ROWS = (
    r"""(1, ROW(1, E'it''s, \\ "x" {y} [NULL]', ROW(1, 2.50, '2024-01-01 00:00+00'), '{1,NULL}',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\x00ff27', '1 day', ARRAY[ROW(1, 2, NULL)::inside, NULL], '{"k": [1]}')::c,
    ARRAY[ROW(1, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL)::c])""",
    "(2, NULL, NULL)",
    "(3, ROW(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::c, '{}')",
    "(4, ROW(NULL, 'NULL', ROW(NULL, NULL, NULL), '{}', NULL, '', NULL, '{}', NULL)::c, ARRAY[NULL]::c[])",
)
MINE = [
    (
        "1",
        r"""(1,"it's, \\ ""x"" {y} [NULL]","(1,2.50,""2024-01-01 00:00:00+00"")","{1,NULL}","""
        r"""a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,"\\x00ff27","1 day","{""(1,2.00,)"",NULL}","{""k"": [1]}")""",
        r'{"(1,\"\",,,,,,,)"}',
    ),
    ("2", None, None),
    ("3", "(,,,,,,,,)", "{}"),
    ("4", r'(,NULL,"(,,)",{},,"\\x",,{},)', "{NULL}"),
]
DUCKS = [
    (r"""it's, \ "x" {y} [NULL]""", "2.50", "[1, NULL]", r"\x00\xFF\x27", '{"k": [1]}', "1", "false", "false"),
    (None, None, None, None, None, None, "true", "true"),
    (None, None, None, None, None, None, "false", "true"),
    ("NULL", None, "[]", "", None, None, "false", "false"),
]  # fmt: skip


def test_duckdb_reads_the_values_while_they_are_inlined_and_in_files(lake: Lake) -> None:
    lake.sql('CREATE TYPE inside AS (x int, "X" numeric(6, 2), ts timestamptz)')
    attributes = 'a int, "b c" text, i inside, l int[], u uuid, y bytea, v interval, m inside[], j jsonb'
    lake.sql(f"CREATE TYPE c AS ({attributes})")
    lake.sql("CREATE TABLE t (n int, s c, l c[])")
    lake.sql("INSERT INTO t VALUES " + ", ".join(ROWS))
    theirs = 'SELECT s."b c", s.i.X_1, s.l, s.y, s.j, l[1].a, s IS NULL, s.i IS NULL FROM postgres.t ORDER BY n'
    for in_files in (False, True):
        if in_files:
            into_files(lake)
        assert lake.query("SELECT count(*) FROM ducklake_data_file") == [(int(in_files),)]
        assert ask(lake.session, "SELECT * FROM t ORDER BY n") == MINE
        assert lake.duck(theirs) == DUCKS
    lake.sql("VACUUM FULL t")
    assert lake.rows("t") == MINE
    lake.sql("CREATE TABLE u (n int, s inside, l inside[])")
    one = "{'x': 2, 'X_1': 3.5, 'ts': NULL}"
    lake.duck_runs(f"INSERT INTO postgres.u VALUES (1, {one}, [{{'x': 4}}, NULL]), (2, NULL, [])")
    assert lake.rows("u") == [("1", "(2,3.50,)", '{"(4,,)",NULL}'), ("2", None, "{}")]


def test_values_come_back_as_they_were(lake: Lake) -> None:
    attributes = ", ".join(f"a{n} {format_type(typoid)}" for n, typoid in enumerate(VALUES))
    lake.sql(f"CREATE TYPE inside AS ({attributes}); CREATE TYPE c AS (i inside, l inside[]); CREATE TABLE t (s c)")
    (column,) = lake.table("t").columns
    row = composite_type(column.typoid)
    assert row is not None and row.fields[0].row is not None
    types, inside = row.types, row.fields[0].row
    rows = st.tuples(*[st.one_of(st.none(), values) for values in VALUES.values()])
    rows = st.one_of(st.none(), rows.map(lambda items: Record(items, inside.types, inside.names)))
    arrays = st.one_of(st.none(), st.lists(rows, max_size=2).map(lambda items: array_of(types[0], items)))
    whole = st.tuples(rows, arrays).map(lambda items: Record(items, types, row.names))

    @settings(deadline=None, max_examples=30)
    @given(st.lists(st.one_of(st.none(), whole), max_size=4))
    def check(values: list[Any]) -> None:
        kept = column.form
        stored = kept.to_array(values)
        texts = [None if v is None else kept.from_inlined(kept.to_inlined(v)) for v in values]
        assert alike(kept.from_array(stored), values) and alike(texts, values)
        assert alike(kept.from_array(stored.slice(1)), values[1:])

    check()


def alike(one: Any, other: Any) -> bool:
    """Are values the same, at every depth?"""
    if isinstance(one, (list, Record, PgArray)):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    return same(one, other)


def test_statements(lake: Lake) -> None:
    lake.sql("CREATE TYPE c AS (a int, b text); CREATE TABLE t (n int PRIMARY KEY, s c UNIQUE)")
    lake.sql("INSERT INTO t SELECT g, ROW(g, 'x' || g)::c FROM generate_series(1, 300) g")
    lake.sql("UPDATE t SET s.b = 'changed' WHERE (s).a % 3 = 0; DELETE FROM t WHERE (s).b = 'x4' OR s < ROW(3, 'a')::c")
    counts = "SELECT count(*), sum({0}.a), count(*) FILTER (WHERE {0}.b = 'changed') FROM {1}"
    assert ask(lake.session, counts.format("(s)", "t")) == lake.duck(counts.format("s", "postgres.t"))
    assert ask(lake.session, "SELECT n, s FROM t ORDER BY s DESC LIMIT 2") == [
        ("300", "(300,changed)"), ("299", "(299,x299)")
    ]  # fmt: skip
    with pytest.raises(Exception, match="duplicate key value violates unique constraint"):
        lake.sql("INSERT INTO t VALUES (1000, '(5,x5)')")
    for how in ("", "(FORMAT csv)", "(FORMAT binary)"):
        lake.sql(f"COPY t TO '{lake.path}.t' {how}; CREATE TABLE u (LIKE t); COPY u FROM '{lake.path}.t' {how}")
        assert ask(lake.session, "SELECT count(*) FROM t JOIN u USING (n, s)") == [("297",)]
        assert lake.duck("SELECT sum(s.a) FROM postgres.u") == lake.duck("SELECT sum(s.a) FROM postgres.t")
        lake.sql("DROP TABLE u")


@pytest.mark.parametrize("in_files", dose([False, True], 2))
def test_fields_follow_attributes(lake: Lake, in_files: bool) -> None:
    lake.sql("CREATE TYPE inside AS (x int, y text); CREATE TYPE c AS (a int, i inside)")
    lake.sql("CREATE TABLE t (n int, s c, l c[]); CREATE TABLE p (n int, s inside) PARTITION BY LIST (n)")
    lake.sql("CREATE TABLE p1 PARTITION OF p DEFAULT; INSERT INTO p VALUES (1, '(1,p)')")
    lake.sql("INSERT INTO t VALUES (1, ROW(1, ROW(2, 'y')), ARRAY[ROW(3, ROW(4, 'z'))::c]), (2, NULL, NULL)")
    if in_files:
        into_files(lake)
    before = lake.last_snapshot()
    ids = [field.column_id for field in lake.table("t").columns[1].fields]
    lake.sql("ALTER TYPE inside RENAME ATTRIBUTE x TO k")
    lake.sql("ALTER TYPE inside DROP ATTRIBUTE y, ADD ATTRIBUTE y int")
    lake.sql('ALTER TYPE c ADD ATTRIBUTE "A" date')
    lake.sql("INSERT INTO t VALUES (3, ROW(5, ROW(6, 7), '2024-02-29'), NULL)")
    assert kinds(lake, "t")[1] == 'STRUCT(a INTEGER, i STRUCT(k INTEGER, y INTEGER), "A_1" DATE)'.replace('"', "")
    assert [field.column_id for field in lake.table("t").columns[1].fields][:2] == ids  # no file is rewritten
    now = [("1", '(1,"(2,)",)', '{"(3,\\"(4,)\\",)"}'), ("2", None, None), ("3", '(5,"(6,7)",2024-02-29)', None)]
    seen = [
        ("1", "{'a': 1, 'i': {'k': 2, 'y': NULL}, 'A_1': NULL}", "[{'a': 3, 'i': {'k': 4, 'y': NULL}, 'A_1': NULL}]"),
        ("2", None, None),
        ("3", "{'a': 5, 'i': {'k': 6, 'y': 7}, 'A_1': 2024-02-29}", None),
    ]
    for action in ("", "VACUUM FULL t", "ALTER TABLE t ALTER n TYPE text"):
        lake.sql(action)
        assert ask(lake.session, "SELECT * FROM t ORDER BY n") == now
        assert lake.duck("SELECT * FROM postgres.t ORDER BY n") == seen
        if not action:
            then = lake.duck(f"SELECT * FROM postgres.t AT (VERSION => {before}) WHERE n = 1")
            assert then == [("1", "{'a': 1, 'i': {'x': 2, 'y': y}}", "[{'a': 3, 'i': {'x': 4, 'y': z}}]")]
            assert lake.rows("t", snapshot=before)[0] == now[0]
    assert lake.duck("SELECT * FROM postgres.p1") == [("1", "{'k': 1, 'y': NULL}")]
    lake.sql("ALTER TYPE inside DROP ATTRIBUTE k, DROP ATTRIBUTE y")
    assert [row[1] for row in lake.rows("t")] == ['(1,"()",)', None, '(5,"()",2024-02-29)']
    assert lake.duck("SELECT s.i FROM postgres.t WHERE n = '1'") == [("{'no_columns': NULL}",)]
    lake.sql("ALTER TYPE inside ADD ATTRIBUTE z text")
    assert ask(lake.session, "UPDATE t SET s.i.z = 'new' WHERE n = '1' RETURNING s") == [('(1,"(new)",)',)]
    assert lake.duck("SELECT s.i, s.i IS NULL FROM postgres.t ORDER BY n") == [
        ("{'z': new}", "false"), (None, "true"), ("{'z': NULL}", "false"),
    ]  # fmt: skip


def test_attributes_of_the_row_type_of_a_table_are_text(lake: Lake) -> None:
    lake.sql("CREATE TABLE other (id int, gone int, name text); CREATE TYPE c AS (o other, n int)")
    lake.sql("CREATE TYPE more AS (c c, l c[]); CREATE TABLE t (m more)")
    lake.sql("INSERT INTO t SELECT ROW(s, ARRAY[s])::more FROM (SELECT ROW(ROW(1, 2, 'x y')::other, 3)::c) AS r (s)")
    lake.sql("ALTER TABLE other DROP gone, ADD added int")
    assert lake.duck("SELECT m FROM postgres.t") == [
        ("""{'c': {'o': '(1,2,"x y")', 'n': 3}, 'l': [{'o': '(1,2,"x y")', 'n': 3}]}""",)
    ]
    into_files(lake)
    assert ask(lake.session, "UPDATE t SET m.c.o.added = 5 RETURNING (((m).c).o).name, (((m).l)[1]).o") == [
        ("x y", '(1,"x y",)')
    ]
    assert lake.duck("SELECT m.c.o, m.l[1].o FROM postgres.t") == [('(1,,"x y",5)', '(1,,"x y",)')]


def test_one_attribute_takes_the_name_of_another(lake: Lake) -> None:
    lake.sql("CREATE TYPE c AS (a int, b int); CREATE TABLE t (s c DEFAULT '(7,8)'); INSERT INTO t VALUES ('(1,2)')")
    lake.sql("""DO $$ BEGIN
        ALTER TYPE c RENAME ATTRIBUTE a TO d; ALTER TYPE c RENAME ATTRIBUTE b TO a;
        ALTER TYPE c ADD ATTRIBUTE b int; INSERT INTO t VALUES (ROW(3, 4, 5)); ALTER TYPE c DROP ATTRIBUTE d;
        INSERT INTO t VALUES (DEFAULT);
    END $$""")
    assert lake.rows("t") == [("(2,)",), ("(4,5)",), ("(8,)",)]
    assert lake.duck("SELECT s FROM postgres.t") == [
        ("{'a': 2, 'b': NULL}",), ("{'a': 4, 'b': 5}",), ("{'a': 8, 'b': NULL}",)
    ]  # fmt: skip


@pytest.mark.slow
def test_pending_rows_follow_attributes(lake: Lake) -> None:
    lake.sql("ALTER SYSTEM SET max_prepared_transactions = 1")
    lake.session.close()
    lake.session = open_session(lake.catalog)
    lake.sql("CREATE TYPE inside AS (x int); CREATE TYPE c AS (a int, i inside); CREATE TABLE t (n int, s c, l c[])")
    row = "ROW({0}, ROW({0}))::c, ARRAY[ROW({0}, ROW({0}))::c]"
    other = open_session(lake.catalog)
    for n, end in ((1, "COMMIT"), (2, "PREPARE TRANSACTION 'x'")):
        lake.sql(f"BEGIN; INSERT INTO t VALUES ({n}, {row.format(n)})")
        if n == 2:
            lake.sql(end)
        list(run(other, f"ALTER TYPE c RENAME ATTRIBUTE a TO b; ALTER TYPE inside ADD ATTRIBUTE y{n} int"))
        list(run(other, f"ALTER TYPE inside RENAME ATTRIBUTE x TO z; ALTER TYPE inside RENAME ATTRIBUTE y{n} TO x"))
        lake.sql("COMMIT PREPARED 'x'" if n == 2 else end)
        assert ask(lake.session, f"SELECT (s).b, ((s).i).z, ((s).i).x, (l[1]).b FROM t WHERE n = {n}") == [
            (str(n), str(n), None, str(n))
        ]
        list(run(other, "ALTER TYPE c RENAME ATTRIBUTE b TO a; ALTER TYPE inside DROP ATTRIBUTE x"))
        list(run(other, "ALTER TYPE inside RENAME ATTRIBUTE z TO x"))
    other.close()
    assert lake.duck("SELECT n, s, l FROM postgres.t ORDER BY n") == [
        (str(n), f"{{'a': {n}, 'i': {{'x': {n}}}}}", f"[{{'a': {n}, 'i': {{'x': {n}}}}}]") for n in (1, 2)
    ]


@pytest.mark.parametrize(
    "value",
    dose(["ROW('{{1,2}}', 1, NULL)", "ROW(NULL, 'NaN', NULL)", "ROW('[0:0]={1}', NULL, ROW('294276-12-31'))",
     "ROW(NULL, 1, ROW('294276-12-31'))"], 2),
)  # fmt: skip
def test_a_value_that_no_struct_holds_makes_the_column_text(lake: Lake, value: str) -> None:
    lake.sql("CREATE TYPE inside AS (t timestamp); CREATE TYPE c AS (l int[], m numeric(5, 2), i inside)")
    lake.sql("CREATE TABLE t (n int, s c, o c); INSERT INTO t VALUES (1, '({1},1,)', '({1},1,)'), (2, NULL, NULL)")
    lake.sql(f"INSERT INTO t VALUES (3, {value}, NULL)")
    assert [kind[:6] for kind in kinds(lake, "t")] == ["INTEGE", "VARCHA", "STRUCT"]
    expected = ask(lake.session, f"SELECT {value}::c")[0][0]
    assert lake.rows("t") == [("1", "({1},1.00,)", "({1},1.00,)"), ("2", None, None), ("3", expected, None)]
    assert lake.duck("SELECT s, o.m FROM postgres.t") == [("({1},1.00,)", "1.00"), (None, None), (expected, None)]
    lake.sql("ALTER TYPE c ADD ATTRIBUTE k int; ALTER TYPE c DROP ATTRIBUTE m; ALTER TYPE c RENAME ATTRIBUTE l TO ll")
    assert [row[1:] for row in lake.rows("t")[:2]] == [("({1},,)", "({1},,)"), (None, None)]


def test_arrays_of_rows_of_several_dimensions_are_text_that_follows_attributes(lake: Lake) -> None:
    lake.sql("CREATE TYPE c AS (a int, b text); CREATE TABLE t (l c[]); INSERT INTO t VALUES (ARRAY[ROW(1, 'x')::c])")
    lake.sql("INSERT INTO t VALUES (ARRAY[[ROW(2, 'y')::c], [NULL::c]])")
    assert lake.duck("SELECT l FROM postgres.t") == [('{"(1,x)"}',), ('{{"(2,y)"},{NULL}}',)]
    lake.sql("ALTER TYPE c DROP ATTRIBUTE a, ADD ATTRIBUTE k int")
    assert lake.rows("t") == [('{"(x,)"}',), ('{{"(y,)"},{NULL}}',)]


def test_columns_from_before_there_were_structs_stay_text(lake: Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TYPE c AS (a int, b text); CREATE TABLE t (n int, s c, l c[])")
    with lake.statement(writes=True):
        link = lake.session.link
        link.execute("DELETE FROM ducklake_column WHERE parent_column IN (2, 6)")
        link.execute("UPDATE ducklake_column SET column_type = 'varchar' WHERE column_id IN (2, 6)")
    lake.session.close()
    lake.session = open_session(lake.catalog)
    lake.sql("INSERT INTO t VALUES (1, '(1,x)', ARRAY[ROW(2, 'y')::c])")
    into_files(lake)
    lake.sql("ALTER TYPE c ADD ATTRIBUTE d int; INSERT INTO t VALUES (2, '(3,z,4)', NULL)")
    assert kinds(lake, "t") == ["INTEGER", "VARCHAR", "VARCHAR[]"]
    assert lake.rows("t") == [("1", "(1,x,)", '{"(2,y,)"}'), ("2", "(3,z,4)", None)]
    assert lake.duck("SELECT s, l FROM postgres.t ORDER BY n") == [("(1,x)", "['(2,y)']"), ("(3,z,4)", None)]
    lake.sql("ALTER TABLE t ALTER s TYPE c USING ROW((s).a, (s).b, 5)::c")
    assert kinds(lake, "t")[1] == "VARCHAR"


@pytest.mark.slow
def test_a_struct_that_duckdb_alters_is_no_composite_type_any_more(lake: Lake) -> None:
    lake.sql("CREATE TYPE c AS (a int, b text)")
    for change in ("ADD COLUMN s.more INTEGER", "DROP COLUMN s.b", "RENAME COLUMN s.a TO z"):
        lake.sql("CREATE TABLE t (s c DEFAULT '(0,)', n c); INSERT INTO t VALUES ('(1,x)', '(2,y)')")
        lake.duck_runs(f"ALTER TABLE postgres.t {change}")
        (found,) = ask(lake.session, "SELECT pg_typeof(s), pg_typeof(n), n FROM t")
        assert found == ("jsonb", "c", "(2,y)")
        lake.sql("ALTER TYPE c ADD ATTRIBUTE k int; ALTER TYPE c DROP ATTRIBUTE k")
        lake.sql("INSERT INTO t VALUES ('{}', NULL), (DEFAULT, NULL)")
        assert lake.duck("SELECT n.a FROM postgres.t") == [("2",), (None,), (None,)]
        lake.sql("DROP TABLE t")
    lake.sql("CREATE TABLE t (s c, l c[])")
    lake.sql("CREATE DATABASE other")
    lake.duck_runs("ALTER TABLE postgres.t ADD COLUMN more INTEGER")
    other = open_session(lake.catalog, "other")  # which adopts what DuckDB has defined
    assert ask(other, "SELECT 1") == [("1",)]
    other.close()
    assert kinds_here(lake.session, "t") == ["c", "c[]", "integer"]


def kinds_here(session: Session, table: str) -> list[str | None]:
    text = f"SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0"
    return [kind for (kind,) in ask(session, text + " ORDER BY attnum")]
