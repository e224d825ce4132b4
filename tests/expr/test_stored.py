"""Trees as the catalog keeps them."""

from __future__ import annotations

import json

import pytest

from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.stored import from_json, to_json
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from tests.expr.conftest import Place


def test_only_what_is_not_the_default_is_kept(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b text)")
    assert to_json(place.analyzed("a > 5 OR b IS NOT NULL")) == {
        "is": "BoolExpr",
        "type": 16,
        "op": "or",
        "args": [
            {
                "is": "OpExpr",
                "type": 16,
                "op": 521,
                "args": [{"is": "Var", "type": 23, "attnum": 1}, {"is": "Const", "type": 23, "value": 5}],
            },
            {
                "is": "NullTest",
                "type": 16,
                "arg": {"is": "Var", "type": 25, "collation": 100, "attnum": 2},
                "kind": "is_not_null",
            },
        ],
    }


def test_places_are_not_kept(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b text)")
    one, other = place.analyzed("a + 1 = length(b)"), place.analyzed("  a   +  1 =\n length( b )")
    assert json.dumps(to_json(one)) == json.dumps(to_json(other))
    assert one == other == from_json(to_json(one), place.session)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("1.50", "1.50"),
        ("'1.5'::float8", "1.5"),
        ("'2020-01-02'::date", "2020-01-02"),
        ("'2020-01-02 03:04+02'::timestamptz", "2020-01-02 01:04:00+00"),
        ("'1 day 02:00'::interval", "1 day 02:00:00"),
        ("'{1,NULL,3}'::int[]", "{1,NULL,3}"),
        ("'\\x00ff'::bytea", "\\x00ff"),
        ("b'101'", "101"),
        ("'{\"a\": 1}'::jsonb", '{"a": 1}'),
        ("true", True),
        ("'x'::text", "x"),
        ("NULL", None),
    ],
)
def test_constants(place: Place, text: str, kept: object) -> None:
    place.run("CREATE TABLE t (a int)", "SET datestyle TO 'German'", "SET intervalstyle TO 'iso_8601'")
    expr = place.analyzed(text)
    data = json.loads(json.dumps(to_json(expr)))
    assert data.get("value") == kept
    assert from_json(data, place.session) == expr


def test_queries(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b text)")
    stmt = parse(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) "
        "SELECT DISTINCT ON (t.b) t.b, sum(n.i) FILTER (WHERE n.i > 2), row_number() OVER (ORDER BY t.b) "
        "FROM t LEFT JOIN n ON n.i = t.a, LATERAL (SELECT t.a) l, generate_series(1, 2) WITH ORDINALITY g(x, y) "
        "WHERE t.a IN (SELECT count(*) FROM n) GROUP BY ROLLUP (t.b), l.a ORDER BY t.b DESC LIMIT 3"
    )[0].stmt
    assert isinstance(stmt, SelectStmt)
    query = analyze_query(place.session, stmt)
    data = json.loads(json.dumps(to_json(query)))
    assert "location" not in json.dumps(data)
    assert from_json(data, place.session) == query
    assert to_json(from_json(data, place.session)) == data
