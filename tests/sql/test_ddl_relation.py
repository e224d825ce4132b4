"""Indexes, views, sequences, schemas and databases as nodes."""

from __future__ import annotations

import pytest

from pgrepl.sql.nodes import (
    AlterDatabaseStmt,
    AlterOwnerStmt,
    ColumnRef,
    CommonTableExpr,
    CreateDatabaseStmt,
    CreateSchemaStmt,
    CreateSeqStmt,
    CreateStmt,
    DefElem,
    DropDatabaseStmt,
    FloatText,
    GrantStmt,
    IndexElem,
    IndexStmt,
    NullsOrder,
    ObjectType,
    RangeVar,
    RenameStmt,
    ResTarget,
    RoleSpec,
    SelectStmt,
    SortDir,
    Statement,
    TypeName,
    VariableSetKind,
    VariableSetStmt,
    ViewStmt,
    WithClause,
)
from tests.sql.one import column, integer, operation, plain, string

T = RangeVar("t")
ONE = SelectStmt(targets=(ResTarget(integer(1)),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE INDEX ON t (a)", IndexStmt(None, T, (IndexElem("a", None),))),
        (
            "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON ONLY t USING hash (a) NULLS NOT DISTINCT",
            IndexStmt(
                "i",
                RangeVar("t", inh=False),
                (IndexElem("a", None),),
                unique=True,
                method="hash",
                nulls_not_distinct=True,
                concurrently=True,
                if_not_exists=True,
            ),
        ),
        (
            'CREATE INDEX i ON t (a COLLATE "C" ops DESC NULLS LAST, (b + 1), c ops (x = 5) NULLS FIRST)'
            " INCLUDE (d) WITH (fillfactor = 70) TABLESPACE ts WHERE a > 5",
            IndexStmt(
                "i",
                T,
                (
                    IndexElem("a", None, ("C",), ("ops",), (), SortDir.DESC, NullsOrder.LAST),
                    IndexElem(None, operation(column("b"), "+", integer(1))),
                    IndexElem("c", None, (), ("ops",), (DefElem("x", 5),), nulls=NullsOrder.FIRST),
                ),
                including=(IndexElem("d", None),),
                where=operation(column("a"), ">", integer(5)),
                options=(DefElem("fillfactor", 70),),
                tablespace="ts",
            ),
        ),
    ],
)
def test_indexes(text: str, expected: IndexStmt) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE VIEW t AS SELECT 1", ViewStmt(T, (), ONE)),
        (
            "CREATE OR REPLACE TEMP VIEW t (a) WITH (security_barrier) AS SELECT 1 WITH LOCAL CHECK OPTION",
            ViewStmt(
                RangeVar("t", persistence="t"),
                ("a",),
                ONE,
                replace=True,
                options=(DefElem("security_barrier"),),
                check_option="LOCAL",
            ),
        ),
        ("CREATE VIEW t AS SELECT 1 WITH CHECK OPTION", ViewStmt(T, (), ONE, check_option="CASCADED")),
    ],
)
def test_views(text: str, expected: ViewStmt) -> None:
    assert plain(text) == expected


def test_a_recursive_view_is_a_view_of_a_recursive_query() -> None:
    query = SelectStmt(
        targets=(ResTarget(ColumnRef(("a",))), ResTarget(ColumnRef(("b",)))),
        from_=(T,),
        with_=WithClause((CommonTableExpr("t", ("a", "b"), ONE),), recursive=True),
    )
    expected = ViewStmt(RangeVar("t", "s"), ("a", "b"), query, recursive=True)
    assert plain("CREATE RECURSIVE VIEW s.t (a, b) AS SELECT 1") == expected


def test_sequences() -> None:
    assert plain("CREATE SEQUENCE t") == CreateSeqStmt(T)
    text = """CREATE TEMP SEQUENCE IF NOT EXISTS t AS smallint INCREMENT BY -1 MINVALUE -5 MAXVALUE 9999999999
              START WITH 3 CACHE 20 CYCLE OWNED BY s.t.a"""
    assert plain(text) == CreateSeqStmt(
        RangeVar("t", persistence="t"),
        (
            DefElem("as", TypeName(("pg_catalog", "int2"))),
            DefElem("increment", -1),
            DefElem("minvalue", -5),
            DefElem("maxvalue", FloatText("9999999999")),
            DefElem("start", 3),
            DefElem("cache", 20),
            DefElem("cycle", True),
            DefElem("owned_by", ("s", "t", "a")),
        ),
        if_not_exists=True,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE SCHEMA s", CreateSchemaStmt("s")),
        ("CREATE SCHEMA IF NOT EXISTS s", CreateSchemaStmt("s", if_not_exists=True)),
        ("CREATE SCHEMA s AUTHORIZATION joe", CreateSchemaStmt("s", RoleSpec("joe"))),
        (
            "CREATE SCHEMA IF NOT EXISTS AUTHORIZATION CURRENT_USER",
            CreateSchemaStmt(None, RoleSpec(word="current_user"), if_not_exists=True),
        ),
        (
            "CREATE SCHEMA s CREATE TABLE t () CREATE VIEW v AS SELECT 1 GRANT ALL ON t TO PUBLIC",
            CreateSchemaStmt(
                "s",
                elements=(
                    CreateStmt(T),
                    ViewStmt(RangeVar("v"), (), ONE),
                    GrantStmt(True, "object", ObjectType.TABLE, (("t",),), (), (RoleSpec(word="public"),)),
                ),
            ),
        ),
        ("ALTER SCHEMA s RENAME TO r", RenameStmt(ObjectType.SCHEMA, "r", name="s")),
        ("ALTER SCHEMA s OWNER TO joe", AlterOwnerStmt(ObjectType.SCHEMA, ("s",), RoleSpec("joe"))),
    ],
)
def test_schemas(text: str, expected: Statement) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CREATE DATABASE d WITH OWNER = joe TEMPLATE template0 CONNECTION LIMIT -1 TABLESPACE DEFAULT locale 'C'",
            CreateDatabaseStmt(
                "d",
                (
                    DefElem("owner", "joe"),
                    DefElem("template", "template0"),
                    DefElem("connection_limit", -1),
                    DefElem("tablespace"),
                    DefElem("locale", "C"),
                ),
            ),
        ),
        ("ALTER DATABASE d CONNECTION LIMIT 5", AlterDatabaseStmt("d", (DefElem("connection_limit", 5),))),
        ("ALTER DATABASE d WITH is_template true", AlterDatabaseStmt("d", (DefElem("is_template", "true"),))),
        ("ALTER DATABASE d SET TABLESPACE ts", AlterDatabaseStmt("d", (DefElem("tablespace", "ts"),))),
        (
            "ALTER DATABASE d SET x = 'y'",
            AlterDatabaseStmt("d", setting=VariableSetStmt(VariableSetKind.VALUE, "x", (string("y"),))),
        ),
        (
            "ALTER DATABASE d RESET ALL",
            AlterDatabaseStmt("d", setting=VariableSetStmt(VariableSetKind.RESET_ALL, None)),
        ),
        ("ALTER DATABASE d RENAME TO e", RenameStmt(ObjectType.DATABASE, "e", name="d")),
        ("ALTER DATABASE d OWNER TO joe", AlterOwnerStmt(ObjectType.DATABASE, ("d",), RoleSpec("joe"))),
        ("DROP DATABASE d", DropDatabaseStmt("d")),
        ("DROP DATABASE IF EXISTS d (FORCE)", DropDatabaseStmt("d", missing_ok=True, force=True)),
    ],
)
def test_databases(text: str, expected: Statement) -> None:
    assert plain(text) == expected
