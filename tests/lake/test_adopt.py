"""What DuckDB defines in the catalog is there for pgrepl: schemas, tables, columns, and what it changes and drops."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.lake import duck
from tests.lake.conftest import Lake

ROOT = Path(__file__).resolve().parents[2]

TABLES = """
    SELECT n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
      pg_get_expr(d.adbin, d.adrelid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.oid >= 16384 AND c.relkind = 'r' ORDER BY 1, a.attnum"""


def ask(session: Session, sql: str) -> list[tuple[str | None, ...]]:
    return [row for result in run(session, sql) for row in result.rows]


def tables(session: Session) -> dict[str | None, list[str]]:
    """The tables of the session's database, each column in words."""
    found: dict[str | None, list[str]] = {}
    for table, column, kind, not_null, default in ask(session, TABLES):
        words = [f"{column} {kind}"] if column is not None else []
        words += ["not null"] if not_null == "t" else []
        words += [f"= {default}"] if default is not None else []
        found.setdefault(table, []).append(" ".join(words))
    return found


@pytest.fixture
def shop(lake: Lake) -> Session:
    lake.sql("CREATE DATABASE shop")
    return open_session(lake.catalog, "shop")


def test_types_defaults_and_nulls(lake: Lake, shop: Session) -> None:
    lake.duck_runs(
        """CREATE TABLE shop.t (a INT NOT NULL, b VARCHAR DEFAULT 'it''s', c INT[], d STRUCT(x INT, y VARCHAR),
        e DECIMAL(10, 3) DEFAULT 1.5, f UTINYINT, g HUGEINT, h TIMESTAMPTZ DEFAULT now(), i BLOB, j JSON, k UUID,
        l MAP(VARCHAR, INT), m BOOLEAN DEFAULT true, n DATE DEFAULT DATE '2024-02-29', o TIMESTAMP_NS, p TIME,
        q INTERVAL, r BIGINT DEFAULT -5, s DOUBLE DEFAULT 0.5, xmin INT)"""
    )
    assert tables(shop)["public.t"] == [
        "a integer not null", "b text = 'it''s'::text", "c integer[]", "d jsonb",
        "e numeric(10,3) = 1.500::numeric(10,3)", "f smallint", "g numeric(39,0)", "h timestamp with time zone = now()",
        "i bytea", "j json", "k uuid", "l jsonb", "m boolean = true", "n date = '2024-02-29'::date",
        "o timestamp without time zone", "p time without time zone", "q interval", "r bigint = '-5'::bigint",
        "s double precision = '0.5'::double precision", "xmin_1 integer",
    ]  # fmt: skip
    list(run(shop, "ALTER TABLE t ADD t int, ALTER h SET NOT NULL, ALTER r SET DEFAULT 6"))
    assert lake.duck(
        "SELECT column_name, column_default FROM information_schema.columns WHERE table_catalog = 'lake'"
        " AND column_name IN ('h', 'm', 'r')"
    ) == [("h", "now()"), ("m", "CAST('t' AS BOOLEAN)"), ("r", "'6'")]


def test_rows_of_an_adopted_table_are_read_and_written(lake: Lake, shop: Session) -> None:
    lake.duck_runs(
        "CREATE TABLE shop.t (a INT, b VARCHAR, c STRUCT(x INT), d INT[])",
        "INSERT INTO shop.t VALUES (0, 'none', {'x': 5}, [1, 2]), (1, 'one', NULL, [1, 2])",
        "INSERT INTO shop.t SELECT i, 'many', {'x': i}, [i] FROM range(2, 102) r(i)",
    )
    assert ask(shop, "SELECT * FROM t WHERE a = 0") == [("0", "none", '{"x": 5}', "{1,2}")]
    list(run(shop, "UPDATE t SET b = 'uno' WHERE a = 1"))
    list(run(shop, "DELETE FROM t WHERE a BETWEEN 3 AND 100"))
    list(run(shop, "INSERT INTO t (a, b, d) VALUES (200, 'more', '{}')"))
    assert sorted(lake.duck("SELECT a, b, d FROM shop.t")) == [
        ("0", "none", "[1, 2]"), ("1", "uno", "[1, 2]"), ("101", "many", "[101]"), ("2", "many", "[2]"),
        ("200", "more", "[]"),
    ]  # fmt: skip


def test_types_of_the_database_are_known_wherever_a_session_adopts(lake: Lake, shop: Session) -> None:
    list(run(shop, "CREATE DOMAIN yr AS int CHECK (VALUE > 1900)"))
    list(run(shop, "CREATE TYPE mood AS ENUM ('sad', 'ok')"))
    list(run(shop, "CREATE TABLE t (id int, a yr DEFAULT 1999, b mood DEFAULT 'ok')"))
    lake.duck_runs("ALTER TABLE shop.t RENAME a TO x", "ALTER TABLE shop.t RENAME b TO y")
    lake.sql("CREATE TABLE seen ()")  # adopts, in database postgres
    assert tables(shop)["public.t"] == ["id integer", "x yr = 1999", "y mood = 'ok'::mood"]


def test_schemas_find_their_databases(lake: Lake, shop: Session) -> None:
    lake.duck_runs(
        'CREATE SCHEMA "shop.sales"',
        'CREATE TABLE "shop.sales".t (a INT)',
        "CREATE TABLE main.m (a INT)",
        "CREATE SCHEMA nowhere",
        'CREATE TABLE nowhere."no.where" (a INT)',
        'CREATE SCHEMA "gone.too"',
        "CREATE TABLE shop.t (a INT)",
    )
    assert tables(shop) == {"public.t": ["a integer"], "sales.t": ["a integer"]}
    assert tables(lake.session) == {"main.m": ["a integer"], "nowhere.no.where": ["a integer"]}
    assert ask(lake.session, "SELECT nspname FROM pg_namespace WHERE oid >= 16384 ORDER BY 1") == [
        ("gone.too",), ("main",), ("nowhere",),
    ]  # fmt: skip
    lake.sql("CREATE DATABASE nowhere")
    lake.sql("ALTER SCHEMA nowhere OWNER TO postgres; CREATE TABLE nowhere.n (b int); CREATE TABLE main.n (c int)")
    found = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'lake' ORDER BY ALL"
    assert lake.duck(found) == [
        ("main", "m"), ("main", "n"), ("nowhere", "n"), ("nowhere", "no.where"), ("shop", "t"), ("shop.sales", "t"),
    ]  # fmt: skip


@pytest.mark.slow
def test_changes_of_columns(lake: Lake, shop: Session) -> None:
    list(run(shop, "CREATE TABLE t (id int PRIMARY KEY, a int, b text DEFAULT 'x', c float4)"))
    list(run(shop, "CREATE VIEW v AS SELECT c FROM t"))
    list(run(shop, "INSERT INTO t VALUES (1, 2, '3', 4)"))
    lake.duck_runs(
        "ALTER TABLE shop.t RENAME a TO z",
        "ALTER TABLE shop.t ALTER z TYPE BIGINT",
        "ALTER TABLE shop.t ALTER b SET DEFAULT 'y'",
        "ALTER TABLE shop.t ALTER z SET NOT NULL",
        "ALTER TABLE shop.t ALTER id DROP NOT NULL",
        "ALTER TABLE shop.t ADD COLUMN d DATE DEFAULT '2024-01-01'",
        "ALTER TABLE shop.t DROP COLUMN c",
    )
    assert tables(shop) == {
        "public.t": [
            "id integer not null", "z bigint not null", "b text = 'y'::text", "d date = '2024-01-01'::date",
        ]
    }  # fmt: skip
    assert ask(shop, "SELECT * FROM t") == [("1", "2", "3", "2024-01-01")]
    assert ask(shop, "SELECT relname FROM pg_class WHERE oid >= 16384 AND relkind = 'v'") == []
    lake.duck_runs("ALTER TABLE shop.t ALTER b DROP DEFAULT", "ALTER TABLE shop.t ALTER z DROP NOT NULL")
    assert tables(shop)["public.t"][1:3] == ["z bigint", "b text"]
    list(run(shop, "INSERT INTO t VALUES (7, 8)"))
    assert lake.duck("SELECT * FROM shop.t ORDER BY id") == [
        ("1", "2", "3", "2024-01-01"), ("7", "8", None, "2024-01-01"),
    ]  # fmt: skip


def test_tables_renamed_and_dropped_with_what_depends_on_them(lake: Lake, shop: Session) -> None:
    for text in (
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int REFERENCES a)",
        "CREATE VIEW v AS SELECT * FROM a",
        "CREATE PUBLICATION p FOR TABLE a, b",
        "CREATE SCHEMA s CREATE TABLE t (a int)",
    ):
        list(run(shop, text))
    lake.duck_runs("ALTER TABLE shop.b RENAME TO c", "DROP TABLE shop.a", 'DROP SCHEMA "shop.s" CASCADE')
    assert tables(shop) == {"public.c": ["id integer"]}
    assert ask(shop, "SELECT prrelid::regclass FROM pg_publication_rel") == [("c",)]
    assert ask(shop, "SELECT conname FROM pg_constraint") == []
    assert ask(shop, "SELECT nspname FROM pg_namespace WHERE oid >= 16384") == []
    lake.duck_runs("DROP SCHEMA shop CASCADE")
    assert tables(shop) == {}
    list(run(shop, "CREATE TABLE again (a int)"))
    assert lake.duck("SELECT * FROM shop.again") == []


def test_several_changes_in_one_transaction(lake: Lake, shop: Session) -> None:
    list(run(shop, "CREATE TABLE t (a int)"))
    lake.duck_runs(
        "BEGIN",
        "ALTER TABLE shop.t RENAME TO old",
        "CREATE TABLE shop.t (b INT)",
        "INSERT INTO shop.t VALUES (1)",
        "CREATE TABLE shop.never (c INT)",
        "DROP TABLE shop.never",
        "COMMIT",
    )
    assert tables(shop) == {"public.old": ["a integer"], "public.t": ["b integer"]}
    assert ask(shop, "SELECT * FROM t") == [("1",)]


def test_what_is_called_as_something_else_here_gets_a_number(lake: Lake, shop: Session) -> None:
    list(run(shop, "CREATE SEQUENCE s; CREATE VIEW v AS SELECT 1"))
    lake.duck_runs(
        "CREATE TABLE shop.s (a INT)", "CREATE TABLE shop.v (a INT)", f"CREATE TABLE shop.{'n' * 70} (a INT)"
    )
    assert list(tables(shop)) == [f"public.{'n' * 63}", "public.s_1", "public.v_1"]


def test_a_number_is_within_the_63_bytes_of_a_name(lake: Lake, shop: Session) -> None:
    long = "n" * 70
    list(run(shop, f"CREATE SEQUENCE {'n' * 63}"))
    lake.duck_runs(f"CREATE TABLE shop.{long} ({long} INT, {long}x INT)")
    assert tables(shop) == {f"public.{'n' * 61}_1": [f"{'n' * 63} integer", f"{'n' * 61}_1 integer"]}


def test_history_is_that_of_the_lake(lake: Lake, shop: Session) -> None:
    lake.duck_runs("CREATE TABLE shop.t (a INT)", "INSERT INTO shop.t VALUES (1)")
    made = lake.last_snapshot() - 1
    lake.duck_runs("ALTER TABLE shop.t RENAME a TO b", "INSERT INTO shop.t VALUES (2)")
    assert ask(shop, "SELECT b FROM t") == [("1",), ("2",)]
    assert lake.query("SELECT begin_snapshot FROM pg_class WHERE relname = 't'") == [(made,)]
    list(run(shop, "ALTER TABLE t RENAME b TO c"))
    lake.duck_runs("ALTER TABLE shop.t RENAME c TO d")
    assert tables(shop) == {"public.t": ["d integer"]}
    found = lake.query(
        "SELECT attname, begin_snapshot, end_snapshot FROM pg_attribute WHERE attnum = 1 AND attrelid ="
        " (SELECT oid FROM pg_class WHERE relname = 't') ORDER BY begin_snapshot"
    )
    assert [name for name, _begin, _end in found] == ["a", "b", "c", "d"]
    changes = [made, made + 2, made + 4, made + 5]
    assert [(b, e) for _n, b, e in found] == list(zip(changes, [*changes[1:], None], strict=True))


def test_nothing_is_written_as_long_as_there_is_nothing_to_adopt(lake: Lake, shop: Session) -> None:
    list(run(shop, "CREATE TABLE t (a int)"))
    ask(shop, "SELECT * FROM t")
    before = lake.query("PRAGMA data_version")
    lake.duck_runs("INSERT INTO shop.t SELECT * FROM range(100)")
    after_duck = lake.query("PRAGMA data_version")
    assert before != after_duck
    assert ask(shop, "SELECT count(*) FROM t") == [("100",)]
    assert lake.query("PRAGMA data_version") == after_duck


def test_a_block_sees_it_when_it_begins_and_takes_it_back_with_the_rest(lake: Lake, shop: Session) -> None:
    other = open_session(lake.catalog, "shop")
    ask(other, "SELECT 1")
    lake.duck_runs("CREATE TABLE shop.t (a INT)")
    list(run(other, "BEGIN"))
    list(run(other, "INSERT INTO t VALUES (1)"))
    list(run(other, "ROLLBACK"))
    assert tables(other) == {"public.t": ["a integer"]}
    list(run(other, "INSERT INTO t VALUES (2)"))
    other.close()
    assert ask(shop, "SELECT * FROM t") == [("2",)]
    duck.close(lake.path)


def test_who_cannot_write_at_once_reads_on_and_adopts_later(lake: Lake, shop: Session) -> None:
    list(run(shop, "CREATE TABLE t (a int)"))
    writer = open_session(lake.catalog)
    lake.duck_runs("CREATE TABLE shop.u (a INT)", "INSERT INTO shop.t VALUES (1)")
    list(run(writer, "BEGIN"))
    list(run(writer, "CREATE TABLE w (a int)"))
    assert ask(shop, "SELECT * FROM t") == [("1",)]
    assert list(tables(shop)) == ["public.t"]
    list(run(writer, "COMMIT"))
    assert list(tables(shop)) == ["public.t", "public.u"]
    writer.close()


def test_duckdb_is_told_at_once_that_somebody_writes(lake: Lake, shop: Session) -> None:
    list(run(shop, "BEGIN"))
    list(run(shop, "CREATE TABLE t (a int)"))
    with pytest.raises(duck.DuckError, match="database is locked"):
        lake.duck_runs("CREATE TABLE shop.u (a INT)")
    list(run(shop, "COMMIT"))
    lake.duck_runs("CREATE TABLE shop.u (a INT)")
    assert list(tables(shop)) == ["public.t", "public.u"]


def test_a_type_that_nobody_can_read_is_an_error_when_it_is_read(lake: Lake, shop: Session) -> None:
    lake.duck_runs("CREATE TABLE shop.t (a INT, b VARIANT)", "INSERT INTO shop.t VALUES (1, 5::VARIANT)")
    assert ask(shop, "SELECT a FROM t") == [("1",)]
    with pytest.raises(PgError, match="a column of lake type variant is not supported"):
        ask(shop, "SELECT b FROM t")


@pytest.mark.parametrize(
    "change", dose(["DROP COLUMN b", "RENAME b TO z", "ALTER b TYPE BIGINT", "ADD COLUMN z INT", "DROP COLUMN k"], 3)
)
def test_a_partition_with_other_columns_is_a_table_of_its_own(lake: Lake, shop: Session, change: str) -> None:
    list(run(shop, "CREATE TABLE p (k int PRIMARY KEY, b int) PARTITION BY LIST (k)"))
    list(run(shop, "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p DEFAULT"))
    list(run(shop, "INSERT INTO p VALUES (1, 2), (3, 4)"))
    lake.duck_runs(f"ALTER TABLE shop.p2 {change}")
    assert ask(shop, "SELECT * FROM p") == [("1", "2")]
    assert ask(shop, "SELECT count(*) FROM p2") == [("1",)]
    assert ask(shop, "SELECT relispartition, relpartbound FROM pg_class WHERE relname = 'p2'") == [("f", None)]
    assert lake.duck("SELECT * FROM shop.p") == [("1", "2")]
    list(run(shop, "CREATE TABLE p3 PARTITION OF p DEFAULT; INSERT INTO p VALUES (5, 6)"))
    assert lake.duck("SELECT * FROM shop.p ORDER BY k") == [("1", "2"), ("5", "6")]


def test_a_partition_of_another_name_stays_one(lake: Lake, shop: Session) -> None:
    list(run(shop, "CREATE TABLE p (k int, b int) PARTITION BY LIST (k)"))
    list(run(shop, "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p DEFAULT"))
    list(run(shop, "INSERT INTO p VALUES (1, 2), (3, 4)"))
    lake.duck_runs("ALTER TABLE shop.p2 RENAME TO rest")
    assert ask(shop, "SELECT * FROM p") == [("1", "2"), ("3", "4")]
    assert lake.duck("SELECT * FROM shop.p") == [("1", "2"), ("3", "4")]
    lake.duck_runs("DROP TABLE shop.rest")
    assert ask(shop, "SELECT * FROM p") == [("1", "2")]
    assert lake.duck("SELECT * FROM shop.p") == [("1", "2")]


def test_an_heir_keeps_its_parent_as_long_as_it_has_its_columns(lake: Lake, shop: Session) -> None:
    list(run(shop, "CREATE TABLE parent (a int, b int); CREATE TABLE heir (c int) INHERITS (parent)"))
    list(run(shop, "CREATE TABLE other () INHERITS (parent)"))
    lake.duck_runs("ALTER TABLE shop.heir RENAME c TO d", "ALTER TABLE shop.heir ADD COLUMN e INT")
    found = "SELECT inhrelid::regclass FROM pg_inherits ORDER BY 1::text"
    assert ask(shop, found) == [("heir",), ("other",)]
    lake.duck_runs("ALTER TABLE shop.heir DROP COLUMN b")
    assert ask(shop, found) == [("other",)]
    lake.duck_runs("ALTER TABLE shop.parent DROP COLUMN b")
    assert ask(shop, found) == []
    assert tables(shop) == {
        "public.heir": ["a integer", "d integer", "e integer"],
        "public.other": ["a integer", "b integer"],
        "public.parent": ["a integer"],
    }


def test_the_tool_finds_it_whatever_it_does_first(lake: Lake, shop: Session) -> None:
    """A program looks into the catalog, at its login for one, before it has loaded what adopting takes."""
    lake.duck_runs("CREATE TABLE lake.shop.new (a INTEGER)", "INSERT INTO lake.shop.new VALUES (7)")
    printed = []
    for options in (["-l"], ["-c", "\\dt"], ["-c", "SELECT a FROM new"]):
        printed.append(pgrepl("-XAt", "--catalog", str(lake.path), *options, "shop").stdout)
    assert printed[1:] == ["public|new|table|postgres\n", "7\n"]
