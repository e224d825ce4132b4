"""Query strings: where statements begin and end, what fails, and what is only said."""

from __future__ import annotations

import pytest

from pgrepl.ground.errors import PgError, Report
from pgrepl.sql.keywords import StringRules
from pgrepl.sql.nodes import AConst, AConstKind, AExpr, AExprKind, ColumnRef, TypeName, UnsupportedStmt
from pgrepl.sql.parser import parse, parse_expression, parse_type_name


def spans(text: str) -> list[tuple[int, int]]:
    return [(raw.location, raw.length) for raw in parse(text)]


def error(text: str) -> Report:
    with pytest.raises(PgError) as caught:
        parse(text)
    return caught.value.report


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ;; -- nothing\n;", []),
        ("SELECT 1", [(0, 0)]),
        ("SELECT 1;", [(0, 8)]),
        (" SELECT 1 ; SELECT 2", [(0, 10), (11, 0)]),
        ("SELECT 1;;SELECT 2;", [(0, 8), (10, 8)]),
    ],
)
def test_a_query_string_is_split_as_postgresql_splits_it(text: str, expected: list[tuple[int, int]]) -> None:
    assert spans(text) == expected


def test_one_bad_statement_spoils_the_whole_string() -> None:
    assert error("SELECT 1; SELEC 2") == Report("ERROR", "42601", 'syntax error at or near "SELEC"', position=11)


def test_the_error_shows_the_text_as_it_was_written() -> None:
    assert error("SELECT * FROM ;").message == 'syntax error at or near ";"'
    assert error("SELECT 1 'It''s'").message == "syntax error at or near \"'It''s'\""
    assert error('CREATE "Ta Ble"').message == 'syntax error at or near ""Ta Ble""'


def test_at_the_end_the_cursor_is_behind_the_last_character() -> None:
    assert error("SELECT 1 +  ") == Report("ERROR", "42601", "syntax error at end of input", position=13)


def test_the_cursor_counts_characters() -> None:
    assert error("SELECT 'äöü日' ß 1").position == 17


def test_a_scanners_error_behind_a_syntax_error_is_not_reached() -> None:
    assert error("SELECT FROM FROM 'x").message == 'syntax error at or near "FROM"'


@pytest.mark.parametrize(
    ("text", "sqlstate", "message", "position"),
    [
        ("SELECT a.*.b FROM t", "42601", 'improper use of "*" at or near "FROM"', 14),
        ("SELECT * FROM t[1]", "42601", "syntax error at end of input", 19),
        ("SELECT t.*(1)", "42601", 'syntax error at or near "("', 11),
        ("SELECT * FROM a.b.c.d", "42601", "improper qualified name (too many dotted names): a.b.c.d", 15),
        ("SELECT 1 LIMIT 1, 2", "42601", "LIMIT #,# syntax is not supported", 10),
        ("(SELECT 1 ORDER BY 1) ORDER BY a", "42601", "multiple ORDER BY clauses not allowed", 32),
        ("(SELECT 1 LIMIT 1) LIMIT 2", "42601", "multiple LIMIT clauses not allowed", 26),
        ("(SELECT 1 OFFSET 1) OFFSET 2", "42601", "multiple OFFSET clauses not allowed", 28),
        ("WITH x AS (SELECT 1) (WITH y AS (SELECT 1) SELECT 2)", "42601", "multiple WITH clauses not allowed", 1),
        ("SELECT 1 FETCH FIRST ROW WITH TIES", "42601", "WITH TIES cannot be specified without ORDER BY clause", None),
        ("SELECT sum(a) OVER (ROWS UNBOUNDED FOLLOWING)", "42P20", "frame start cannot be UNBOUNDED FOLLOWING", 26),
        ("SELECT f(DISTINCT a) WITHIN GROUP (ORDER BY b)", "42601", "cannot use DISTINCT with WITHIN GROUP", 22),
        ("SELECT (1, 2, 3) OVERLAPS (1, 2)", "42601",
         "wrong number of parameters on left side of OVERLAPS expression", 8),
        ("SELECT 1::float(54)", "22023", "precision for type float must be less than 54 bits", 17),
        ("SELECT s.t(x => 1) '1'", "42601", "type modifier cannot have parameter name", 12),
        ("SELECT UNIQUE (SELECT 1)", "0A000", "UNIQUE predicate is not yet implemented", 8),
        ("SELECT JSON('{}' FORMAT JSON ENCODING x)", "22023", "unrecognized JSON encoding: x", None),
        ("COPY t TO PROGRAM STDOUT", "42601", "STDIN/STDOUT not allowed with PROGRAM", None),
        ("COPY t TO STDOUT WHERE a", "42601", "WHERE clause not allowed with COPY TO", 18),
    ],
)  # fmt: skip
def test_faults_that_a_rule_finds(text: str, sqlstate: str, message: str, position: int | None) -> None:
    assert error(text) == Report(
        "ERROR", sqlstate, message, position=position,
        hint="Use separate LIMIT and OFFSET clauses." if message.startswith("LIMIT") else None,
    )  # fmt: skip


def test_notices_reach_the_caller() -> None:
    notices: list[Report] = []
    parse(f"SELECT 1 AS {'x' * 64} INTO GLOBAL TEMP t", notices.append)
    assert notices == [
        Report("NOTICE", "42622", f'identifier "{"x" * 64}" will be truncated to "{"x" * 63}"'),
        Report("WARNING", "01000", "GLOBAL is deprecated in temporary table creation", position=83),
    ]
    parse(f"SELECT {'x' * 64} INTO GLOBAL TEMP t")
    assert len(notices) == 2


def test_a_text_that_comes_again() -> None:
    first, second, third = (parse("SELECT 1; SELECT 2") for _ in range(3))
    assert first == second == third
    assert second[0] is third[0] and second is not third
    notices: list[Report] = []
    for _ in range(3):
        parse(r"SELECT 'a\\b'", notices.append, StringRules(conforming=False))
        assert parse(r"SELECT 'a\\b'") != parse(r"SELECT 'a\\b'", None, StringRules(conforming=False))
    assert len(notices) == 3


def test_an_expression_by_itself() -> None:
    assert parse_expression("a > 5") == AExpr(
        AExprKind.OP, (">",), ColumnRef(("a",), 0), AConst(AConstKind.INTEGER, 5, 4), 2
    )
    with pytest.raises(PgError, match='syntax error at or near ";"'):
        parse_expression("a > 5;")


def test_a_type_name_by_itself() -> None:
    assert parse_type_name("s.t[]") == TypeName(("s", "t"), array_bounds=(-1,), location=0)
    with pytest.raises(PgError, match='syntax error at or near "1"'):
        parse_type_name("int 1")


def test_statements_outside_the_dialect_say_what_they_are() -> None:
    assert [raw.stmt for raw in parse("LOAD 'x'; IMPORT FOREIGN SCHEMA a FROM SERVER s INTO b; CLUSTER")] == [
        UnsupportedStmt("LOAD", 0),
        UnsupportedStmt("IMPORT FOREIGN SCHEMA", 10),
        UnsupportedStmt("CLUSTER", 56),
    ]
