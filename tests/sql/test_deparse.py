"""The canonical text. (That it means the same to PostgreSQL is tested in test_against_postgresql.)"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import Node
from pgrepl.sql.parser import parse, parse_expression
from tests.sql.corpus import EXPRESSIONS, QUERIES
from tests.sql.deparse import deparse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a+b*-1", "(a + (b * (-1)))"),
        ("not a is null or b and c", "((NOT (a IS NULL)) OR (b AND c))"),
        ('"A b".select', '"A b"."select"'),
        ("x::int4 + y::int", "(CAST(x AS int4) + CAST(y AS integer))"),
        ("a::timestamp(3) with time zone[]", "CAST(a AS timestamp(3) with time zone[])"),
        ("date '2024-01-01'", "CAST('2024-01-01' AS date)"),
        ("E'a\\\\b\\'c'", "E'a\\\\b''c'"),
        ("a not like b escape '!'", "(a NOT LIKE b ESCAPE '!')"),
        ("a similar to 'b'", "(a SIMILAR TO 'b')"),
        ("a between symmetric 1 and 2", "(a BETWEEN SYMMETRIC 1 AND 2)"),
        ("x in (1, 2) and y not in (select 1)", "((x IN (1, 2)) AND (NOT (y IN (SELECT 1))))"),
        ("a operator(s.@@) any (array[1])", "(a OPERATOR(s.@@) ANY (ARRAY[1]))"),
        ("trim(both 'x' from a)", "TRIM(BOTH 'x' FROM a)"),
        ("extract(day from a at time zone 'x')", "EXTRACT('day' FROM (a AT TIME ZONE 'x'))"),
        ("(row(1)).f[1:]", "(ROW(1)).f[1:]"),
        ("case a when 1 then 2 else 3 end", "CASE a WHEN 1 THEN 2 ELSE 3 END"),
        ("count(*) filter (where a) over (w rows 1 preceding)", "count(*) FILTER (WHERE a) OVER (w ROWS 1 PRECEDING)"),
        ("current_timestamp(2)", "CURRENT_TIMESTAMP(2)"),
    ],
)
def test_expressions(text: str, canonical: str) -> None:
    assert deparse(parse_expression(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (
            "select distinct a as x, * from t left join u using (k), lateral f(1) as g(y) where a group by b",
            "SELECT DISTINCT a AS x, * FROM (t LEFT JOIN u USING (k)), LATERAL f(1) AS g (y) WHERE a GROUP BY b",
        ),
        (
            "with x(a) as (values (1)) select 1 union all (select 2 limit 1) order by 1 offset 2 for update",
            "WITH x (a) AS (VALUES (1)) (SELECT 1) UNION ALL (SELECT 2 LIMIT 1) ORDER BY 1 OFFSET 2 FOR UPDATE",
        ),
        ("table only s.t", "SELECT * FROM ONLY s.t"),
    ],
)
def test_queries(text: str, canonical: str) -> None:
    assert deparse(parse(text)[0].stmt) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT XMLCONCAT(a)", "XMLCONCAT is not supported"),
        ("WITH x AS (DELETE FROM t) SELECT 1", "a data-modifying statement in WITH is not supported"),
    ],
)
def test_what_cannot_be_evaluated_is_not_printed(text: str, message: str) -> None:
    with pytest.raises(PgError) as caught:
        deparse(parse(text)[0].stmt)
    assert (caught.value.sqlstate, caught.value.message) == ("0A000", message)


def without_locations(value: Any) -> Any:
    if isinstance(value, Node):
        changes = {field.name: without_locations(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if "location" in changes:
            changes["location"] = -1
        return dataclasses.replace(value, **changes)
    return tuple(map(without_locations, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("text", [f"SELECT {text}" for text in EXPRESSIONS] + QUERIES)
def test_the_text_parses_to_the_same_tree(text: str) -> None:
    node = parse(text)[0].stmt
    try:
        printed = deparse(node)
    except PgError as error:
        assert error.sqlstate == "0A000"
        return
    again = parse(printed)[0].stmt
    assert without_locations(again) == without_locations(node)
    assert deparse(again) == printed
