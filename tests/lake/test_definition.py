"""What DuckDB sees of schemas, tables, columns and partitioned tables once a statement has defined them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgrepl.backend import open_session
from pgrepl.ground.errors import PgError
from pgrepl.lake.expire import expire
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.lake.conftest import Lake


def columns(lake: Lake, schema: str = "postgres") -> dict[str, list[str]]:
    """The tables and views of a schema, each column in words."""
    found: dict[str, list[str]] = {}
    for table, column, kind, nullable, default in lake.duck(
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns"
        f" WHERE table_catalog = 'lake' AND table_schema = '{schema}' ORDER BY table_name, ordinal_position"
    ):
        words = [column, kind]
        words += ["not null"] if nullable == "NO" else []
        words += [f"= {default}"] if default not in (None, "NULL") else []
        found.setdefault(table, []).append(" ".join(words))
    return found


def schemas(lake: Lake) -> list[str]:
    rows = lake.duck(
        "SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'lake' AND schema_name <> 'main'"
        " ORDER BY 1"
    )
    return [row[0] for row in rows]


def test_every_type_has_a_place(lake: Lake) -> None:
    lake.sql(
        """CREATE TABLE t (a bool, b int2, c int4, d int8, e float4, f float8, g numeric(10,2), h numeric, i text,
        j varchar(5), k char(3), l bytea, m date, n timestamp, o timestamptz, p uuid, q json, r jsonb, s int[],
        u text[], v interval, w inet, x int4range, y oid, z "char")"""
    )
    assert columns(lake)["t"] == [
        "a BOOLEAN", "b SMALLINT", "c INTEGER", "d BIGINT", "e FLOAT", "f DOUBLE", "g DECIMAL(10,2)", "h VARCHAR",
        "i VARCHAR", "j VARCHAR", "k VARCHAR", "l BLOB", "m DATE", "n TIMESTAMP", "o TIMESTAMP WITH TIME ZONE",
        "p UUID", "q JSON", "r JSON", "s INTEGER[]", "u VARCHAR[]", "v VARCHAR", "w VARCHAR", "x VARCHAR",
        "y BIGINT", "z VARCHAR",
    ]  # fmt: skip


def test_not_null_and_constant_defaults_are_told(lake: Lake) -> None:
    lake.sql(
        """CREATE TABLE t (id int PRIMARY KEY, a text DEFAULT 'it''s', b int NOT NULL DEFAULT 2 + 3,
        c timestamptz DEFAULT now(), d serial, e numeric(4,1) DEFAULT 1, f text DEFAULT '', g bytea DEFAULT '\\x00ff',
        h date DEFAULT '2024-02-29', i bool DEFAULT true, j text DEFAULT 'NULL')"""
    )
    assert columns(lake)["t"] == [
        "id INTEGER not null", "a VARCHAR = 'it''s'", "b INTEGER not null = '5'", "c TIMESTAMP WITH TIME ZONE",
        "d INTEGER not null", "e DECIMAL(4,1) = '1.0'", "f VARCHAR = ''", "g BLOB = '\\x00\\xFF'",
        "h DATE = '2024-02-29'", "i BOOLEAN = 'true'", "j VARCHAR",
    ]  # fmt: skip
    lake.duck_runs("INSERT INTO postgres.t (id, d) VALUES (1, 1)")
    assert lake.duck("SELECT * FROM postgres.t") == [
        ("1", "it's", "5", None, "1", "1.0", "", "\\x00\\xFF", "2024-02-29", "true", None)
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    dose(
        [
            ("ADD c int", ["a INTEGER", "b VARCHAR", "c INTEGER"]),
            ("ADD c int NOT NULL DEFAULT 7", ["a INTEGER", "b VARCHAR", "c INTEGER not null = '7'"]),
            ("ADD c int[], ADD d text", ["a INTEGER", "b VARCHAR", "c INTEGER[]", "d VARCHAR"]),
            ("DROP a", ["b VARCHAR"]),
            ("DROP a, ADD a bigint", ["b VARCHAR", "a BIGINT"]),
            ("RENAME a TO z", ["z INTEGER", "b VARCHAR"]),
            ("ALTER a TYPE bigint", ["a BIGINT", "b VARCHAR"]),
            ("ALTER a TYPE text", ["a VARCHAR", "b VARCHAR"]),
            ("ALTER b TYPE varchar(3)", ["a INTEGER", "b VARCHAR"]),
            ("ALTER b TYPE int[] USING ARRAY[1]", ["a INTEGER", "b INTEGER[]"]),
            ("ALTER a SET NOT NULL", ["a INTEGER not null", "b VARCHAR"]),
            ("ALTER b SET DEFAULT 'd'", ["a INTEGER", "b VARCHAR = 'd'"]),
            ("ALTER b SET DEFAULT current_user", ["a INTEGER", "b VARCHAR"]),
            ("ADD PRIMARY KEY (a)", ["a INTEGER not null", "b VARCHAR"]),
            ("DROP a, DROP b", ["no_columns BOOLEAN"]),
        ],
        3,
    ),
)
def test_alter_table(lake: Lake, change: str, expected: list[str]) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql(f"ALTER TABLE t {change}")
    assert columns(lake) == {"t": expected}


def test_what_is_taken_back_is_told_too(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int NOT NULL DEFAULT 1)")
    lake.sql("ALTER TABLE t ALTER a DROP NOT NULL, ALTER a DROP DEFAULT")
    assert columns(lake) == {"t": ["a INTEGER"]}
    lake.sql("ALTER TABLE t DROP a")
    lake.sql("ALTER TABLE t ADD b text")
    assert columns(lake) == {"t": ["b VARCHAR"]}


def test_columns_keep_their_ids_and_their_past(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b int[], c text)")
    lake.sql("INSERT INTO t VALUES (1, '{2}', 'x')")
    before = lake.last_snapshot()
    lake.sql("ALTER TABLE t RENAME a TO k")
    lake.sql("ALTER TABLE t ALTER k TYPE bigint")
    lake.sql("ALTER TABLE t DROP c")
    lake.sql("ALTER TABLE t ADD c int DEFAULT 9")
    now, then = lake.table("t"), None
    assert [(c.attnum, c.name, c.column_id, c.type) for c in now.columns] == [
        (1, "k", 1, "int64"), (2, "b", 2, "list"), (4, "c", 5, "int32"),
    ]  # fmt: skip
    assert [(f.column_id, f.name, f.type) for f in now.columns[1].fields] == [(3, "element", "int32")]
    assert (now.columns[2].initial_default, now.columns[2].missing) == ("9", 9)
    with lake.statement():
        from pgrepl.lake.table import lake_table

        then = lake_table(lake.session, now.oid, before)
    assert [(c.name, c.column_id, c.type) for c in then.columns] == [
        ("a", 1, "int32"), ("b", 2, "list"), ("c", 4, "varchar"),
    ]  # fmt: skip
    assert lake.duck("SELECT * FROM postgres.t") == [("1", "[2]", "9")]
    assert lake.duck(f"SELECT * FROM postgres.t AT (VERSION => {before})") == [("1", "[2]", "x")]
    assert lake.rows("t") == [("1", "{2}", "9")]


def test_a_type_that_files_cannot_be_read_as_makes_another_column_in_the_same_place(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("INSERT INTO t VALUES (1, '2')")
    lake.sql("ALTER TABLE t ALTER a TYPE text, ALTER b TYPE int USING b::int")
    assert [(c.name, c.column_id, c.type) for c in lake.table("t").columns] == [
        ("a", 3, "varchar"), ("b", 4, "int32"),
    ]  # fmt: skip
    assert columns(lake) == {"t": ["a VARCHAR", "b INTEGER"]}
    assert lake.duck("SELECT a, b + 1 FROM postgres.t") == [("1", "3")]


def test_inlined_rows_of_partitions_that_got_a_column(lake: Lake) -> None:
    lake.sql("CREATE TABLE p (a int, b int) PARTITION BY LIST (a); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    lake.sql("CREATE TABLE p2 (b int, a int); ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2)")
    lake.sql("INSERT INTO p VALUES (1, 4), (2, 5); ALTER TABLE p ADD COLUMN c int")
    assert lake.duck("SELECT * FROM postgres.p ORDER BY a") == [("1", "4", None), ("2", "5", None)]


def test_names_that_differ_in_case_only_get_a_number(lake: Lake) -> None:
    lake.sql('CREATE TABLE t (a int, "A" int, "row_id" int, "Row_ID_1" text)')
    lake.sql('CREATE TABLE "T" (x int)')
    lake.sql('CREATE SCHEMA s; CREATE SCHEMA "S"')
    assert columns(lake) == {
        "T_1": ["x INTEGER"],
        "t": ["a INTEGER", "A_1 INTEGER", "row_id_1 INTEGER", "Row_ID_1_1 VARCHAR"],
    }
    assert schemas(lake) == ["postgres", "postgres.S_1", "postgres.s"]
    lake.sql("INSERT INTO t VALUES (1, 2, 3, '4')")
    assert lake.duck("SELECT * FROM postgres.t") == [("1", "2", "3", "4")]
    assert lake.rows("t") == [("1", "2", "3", "4")]
    lake.sql("ALTER TABLE t DROP a")
    lake.sql("DROP TABLE t")
    lake.sql('ALTER TABLE "T" RENAME x TO y')
    assert columns(lake) == {"T": ["y INTEGER"]}


def test_tables_of_a_schema_keep_their_rows_wherever_they_go(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int); CREATE SCHEMA s")
    lake.sql("INSERT INTO t SELECT generate_series(1, 100)")
    lake.sql("ALTER TABLE t SET SCHEMA s")
    lake.sql("ALTER SCHEMA s RENAME TO s2")
    lake.sql("ALTER TABLE s2.t RENAME TO u")
    assert schemas(lake) == ["postgres", "postgres.s2"]
    assert columns(lake, "postgres.s2") == {"u": ["a INTEGER"]}
    assert lake.duck('SELECT count(*), sum(a) FROM "postgres.s2".u') == [("100", "5050")]
    lake.duck_runs('INSERT INTO "postgres.s2".u SELECT 1 FROM range(50)')
    lake.sql("CREATE TABLE s2.n AS SELECT count(*) FROM s2.u")
    assert lake.duck('SELECT * FROM "postgres.s2".n') == [("150",)]
    lake.sql("DROP SCHEMA s2 CASCADE")
    assert schemas(lake) == ["postgres"]


def test_databases(lake: Lake) -> None:
    lake.sql("CREATE DATABASE shop")
    lake.sql('CREATE DATABASE "a.b"')
    lake.sql("CREATE DATABASE main")
    assert schemas(lake) == ['"a.b"', '"main"', "postgres", "shop"]
    shop = open_session(lake.catalog, "shop")
    for text in (
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.t (a int)",
        "CREATE TABLE p (a int) PARTITION BY LIST (a)",
        "CREATE TABLE sales.p1 PARTITION OF p DEFAULT",
        "INSERT INTO p VALUES (1)",
    ):
        list(run(shop, text))
    shop.close()
    assert columns(lake, "shop.sales") == {"p1": ["a INTEGER"], "t": ["a INTEGER"]}
    lake.sql("ALTER DATABASE shop RENAME TO store")
    assert schemas(lake) == ['"a.b"', '"main"', "postgres", "store", "store.sales"]
    assert lake.duck("SELECT * FROM store.p") == [("1",)]
    lake.sql("DROP DATABASE store")
    assert schemas(lake) == ['"a.b"', '"main"', "postgres"]
    assert lake.duck("SELECT count(*) FROM ducklake_table_info('lake')") == [("0",)]


def test_partitioned_tables_are_views_over_their_leaves(lake: Lake) -> None:
    lake.sql("CREATE TABLE p (a int, b text) PARTITION BY LIST (a)")
    assert columns(lake) == {"p": ["a INTEGER", "b VARCHAR"]}
    assert lake.duck("SELECT * FROM postgres.p") == []
    lake.sql("CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    lake.sql("CREATE TABLE p2 (b text, x int, a int)")
    lake.sql("ALTER TABLE p2 DROP x")
    lake.sql("INSERT INTO p VALUES (1, 'one')")
    lake.sql("INSERT INTO p2 VALUES ('two', 2)")
    lake.sql("ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2)")
    lake.sql("CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3, 4) PARTITION BY LIST (a)")
    lake.sql("CREATE TABLE p34 PARTITION OF p3 DEFAULT")
    lake.sql("INSERT INTO p VALUES (3, 'three'), (4, 'four')")
    everything = [("1", "one"), ("2", "two"), ("3", "three"), ("4", "four")]
    assert lake.duck("SELECT * FROM postgres.p ORDER BY a") == everything
    assert lake.duck("SELECT * FROM postgres.p3 ORDER BY a") == everything[2:]
    lake.sql("ALTER TABLE p RENAME b TO word")
    lake.sql("ALTER TABLE p34 RENAME TO rest")
    lake.sql("CREATE SCHEMA s")
    lake.sql("ALTER TABLE p1 SET SCHEMA s")
    assert lake.duck("SELECT a, word FROM postgres.p ORDER BY a") == everything
    lake.sql("ALTER TABLE p DETACH PARTITION p2")
    assert lake.duck("SELECT a, word FROM postgres.p ORDER BY a") == [everything[0], *everything[2:]]
    lake.sql("DROP TABLE p3")
    lake.sql("ALTER TABLE p ADD c int DEFAULT 5")
    assert lake.duck("SELECT * FROM postgres.p") == [("1", "one", "5")]
    lake.sql("DROP TABLE p")
    assert columns(lake) == {"p2": ["word VARCHAR", "a INTEGER"]}


def test_what_is_rolled_back_never_was(lake: Lake) -> None:
    lake.sql("CREATE TABLE kept (a int)")
    tables = ("ducklake_table", "ducklake_column", "ducklake_schema", "ducklake_snapshot", "ducklake_view")

    def state() -> list[object]:
        return [lake.query(f"SELECT * FROM {table}") for table in tables]

    before = state()
    lake.sql("BEGIN")
    lake.sql("CREATE SCHEMA s")
    lake.sql("CREATE TABLE s.t (a int)")
    lake.sql("ALTER TABLE kept ADD b int, ALTER a TYPE text")
    lake.sql("ROLLBACK")
    assert state() == before
    with pytest.raises(PgError):
        lake.sql("CREATE TABLE t (a int); ALTER TABLE kept RENAME TO t")
    assert state() == before
    lake.sql("BEGIN")
    lake.sql("CREATE TABLE one (a int)")
    lake.sql("SAVEPOINT p")
    lake.sql("CREATE TABLE two (a int); ALTER TABLE one ADD b int; DROP TABLE kept")
    lake.sql("ROLLBACK TO p")
    lake.sql("ALTER TABLE one ADD c int")
    lake.sql("COMMIT")
    assert columns(lake) == {"kept": ["a INTEGER"], "one": ["a INTEGER", "c INTEGER"]}


def test_inlined_rows_go_on_with_the_new_columns(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("INSERT INTO t VALUES (1, 'x')")
    for change in ("ADD c int DEFAULT 3", "RENAME b TO d", "DROP a", "ALTER c TYPE bigint"):
        lake.sql(f"ALTER TABLE t {change}")
        lake.duck_runs("INSERT INTO postgres.t BY NAME SELECT 'duck' AS " + ("b" if "ADD" in change else "d"))
        lake.sql("INSERT INTO t DEFAULT VALUES")
    assert lake.duck("SELECT d, c FROM postgres.t ORDER BY rowid") == lake.rows("t")
    assert lake.rows("t") == [
        ("x", "3"), ("duck", "3"), (None, "3"), ("duck", "3"), (None, "3"), ("duck", "3"), (None, "3"),
        ("duck", "3"), (None, "3"),
    ]  # fmt: skip


def test_temporary_tables_stand_apart_and_go_with_the_session(lake: Lake) -> None:
    other = open_session(lake.catalog)
    list(run(other, "CREATE TEMP TABLE t (a int)"))
    list(run(other, "INSERT INTO t VALUES (1)"))
    assert columns(lake) == {}
    assert schemas(lake) == ["postgres", f"postgres.{other.temporary_name}"]
    other.close()
    assert schemas(lake) == ["postgres"]


def test_changes_are_told_in_ducklakes_words(lake: Lake) -> None:
    lake.sql("CREATE SCHEMA s")
    lake.sql('CREATE TABLE "it""s" (a int)')
    lake.sql('ALTER TABLE "it""s" SET SCHEMA s')
    lake.sql("CREATE TABLE p (a int) PARTITION BY LIST (a)")
    lake.sql("CREATE TABLE p1 PARTITION OF p DEFAULT")
    lake.sql("COMMENT ON TABLE p IS 'nothing of DuckLake''s'")
    lake.sql("CREATE PUBLICATION pub FOR TABLE p1")
    lake.sql("DROP TABLE p")
    lake.sql("DROP SCHEMA s CASCADE")
    found = lake.query("SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes ORDER BY snapshot_id")
    assert found[1:] == [
        (1, 'created_schema:"postgres.s"'),
        (2, 'created_table:"postgres"."it""s"'),
        (3, "altered_table:3"),
        (4, 'created_view:"postgres"."p"'),
        (5, 'created_table:"postgres"."p1",altered_view:4'),
        (6, ""),
        (7, "dropped_table:5,dropped_view:4"),
        (8, "dropped_schema:2,dropped_table:3"),
    ]
    versions = [int(v) for (v,) in lake.duck("SELECT schema_version FROM lake.snapshots() ORDER BY snapshot_id")]
    assert versions == [0, 1, 2, 3, 4, 5, 5, 6, 7]


def test_snapshots_of_a_transaction_say_so(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int)")
    lake.sql("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); INSERT INTO t VALUES (3); COMMIT")
    lake.sql("BEGIN; INSERT INTO t VALUES (4); COMMIT")
    lake.sql("BEGIN; INSERT INTO t VALUES (5); SAVEPOINT s; INSERT INTO t VALUES (6); ROLLBACK TO s; COMMIT")
    lake.sql("INSERT INTO t VALUES (7); INSERT INTO t VALUES (8)")
    found = lake.query("SELECT snapshot_id, commit_extra_info FROM ducklake_snapshot_changes ORDER BY 1")
    assert found[2:] == [
        (2, '{"transaction": 2}'),
        (3, '{"transaction": 2}'),
        (4, '{"transaction": 2, "last": true}'),
        (5, None),
        (6, None),
        (7, '{"transaction": 7}'),
        (8, '{"transaction": 7, "last": true}'),
    ]


def test_ids_of_columns_never_come_back(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b int)")
    lake.sql("INSERT INTO t SELECT i, 7 FROM generate_series(1, 30) i")
    lake.sql("INSERT INTO t VALUES (0, 7)")
    lake.sql("ALTER TABLE t DROP b")
    lake.sql("ALTER TABLE t RENAME a TO k")
    with lake.statement(writes=True):
        expire(lake.session, timedelta(0))
    lake.sql("ALTER TABLE t ADD c int")
    assert [c.column_id for c in lake.table("t").columns] == [1, 3]
    found = [(str(n), None) for n in range(31)]
    assert sorted(lake.rows("t"), key=lambda row: int(str(row[0]))) == found
    assert lake.duck("SELECT * FROM postgres.t ORDER BY k") == found


def test_columns_keep_their_order_when_duckdb_alters_one_of_another_type(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b int, c int)")
    lake.sql("INSERT INTO t VALUES (1, 2, 3)")
    lake.sql("ALTER TABLE t ALTER b TYPE text")
    lake.duck_runs("ALTER TABLE postgres.t RENAME b TO z", "ALTER TABLE postgres.t ALTER a SET NOT NULL")
    assert columns(lake) == {"t": ["a INTEGER not null", "z VARCHAR", "c INTEGER"]}
    assert lake.duck("SELECT * FROM postgres.t") == lake.rows("t") == [("1", "2", "3")]
