"""DROP and COMMENT as nodes."""

from __future__ import annotations

import pytest

from pgrepl.sql.nodes import CommentStmt, DropStmt, ObjectType, TypeName, UnsupportedStmt
from tests.sql.one import node, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP TABLE t", DropStmt(ObjectType.TABLE, (("t",),))),
        (
            "DROP TABLE IF EXISTS d.s.t, u CASCADE",
            DropStmt(ObjectType.TABLE, (("d", "s", "t"), ("u",)), missing_ok=True, cascade=True),
        ),
        ("DROP VIEW v RESTRICT", DropStmt(ObjectType.VIEW, (("v",),))),
        ("DROP SEQUENCE q", DropStmt(ObjectType.SEQUENCE, (("q",),))),
        ("DROP SCHEMA s, r CASCADE", DropStmt(ObjectType.SCHEMA, (("s",), ("r",)), cascade=True)),
        ("DROP INDEX s.i", DropStmt(ObjectType.INDEX, (("s", "i"),))),
        ("DROP INDEX CONCURRENTLY i", DropStmt(ObjectType.INDEX, (("i",),), concurrently=True)),
        (
            "DROP INDEX CONCURRENTLY IF EXISTS i",
            DropStmt(ObjectType.INDEX, (("i",),), missing_ok=True, concurrently=True),
        ),
        ("DROP TABLE if", DropStmt(ObjectType.TABLE, (("if",),))),
        ("DROP FOREIGN DATA WRAPPER w", UnsupportedStmt("DROP FOREIGN DATA WRAPPER")),
        ("DROP PROCEDURAL LANGUAGE l", UnsupportedStmt("DROP LANGUAGE")),
        ("DROP TEXT SEARCH PARSER IF EXISTS p", UnsupportedStmt("DROP TEXT SEARCH PARSER")),
        ("DROP POLICY p ON t", UnsupportedStmt("DROP POLICY")),
        ("DROP MATERIALIZED VIEW m", DropStmt(ObjectType.MATVIEW, (("m",),))),
    ],
)
def test_drop(text: str, expected: DropStmt | UnsupportedStmt) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TABLE s.t IS 'x'", CommentStmt(ObjectType.TABLE, ("s", "t"), "x", 0)),
        ("COLUMN s.t.a IS 'x'", CommentStmt(ObjectType.COLUMN, ("s", "t", "a"), "x", 0)),
        ("CONSTRAINT c ON s.t IS NULL", CommentStmt(ObjectType.TABCONSTRAINT, ("s", "t", "c"), None, 0)),
        ("INDEX i IS 'x'", CommentStmt(ObjectType.INDEX, ("i",), "x", 0)),
        ("VIEW v IS 'x'", CommentStmt(ObjectType.VIEW, ("v",), "x", 0)),
        ("SEQUENCE q IS 'x'", CommentStmt(ObjectType.SEQUENCE, ("q",), "x", 0)),
        ("SCHEMA s IS ''", CommentStmt(ObjectType.SCHEMA, ("s",), "", 0)),
        ("DATABASE d IS 'x'", CommentStmt(ObjectType.DATABASE, ("d",), "x", 0)),
        ("ROLE joe IS 'x'", CommentStmt(ObjectType.ROLE, ("joe",), "x", 0)),
        ("PUBLICATION p IS 'x'", CommentStmt(ObjectType.PUBLICATION, ("p",), "x", 0)),
        ("SUBSCRIPTION s IS 'x'", CommentStmt(ObjectType.SUBSCRIPTION, ("s",), "x", 0)),
        ("TYPE s.t IS 'x'", CommentStmt(ObjectType.TYPE, ("s", "t"), "x", 0, named=TypeName(("s", "t"), location=16))),
        ("TRIGGER x ON t IS 'x'", CommentStmt(ObjectType.TRIGGER, ("t", "x"), "x", 0)),
        ("EXTENSION e IS 'x'", UnsupportedStmt("COMMENT ON EXTENSION", 0)),
    ],
)
def test_comment(text: str, expected: CommentStmt | UnsupportedStmt) -> None:
    assert node(f"COMMENT ON {text}") == expected
