"""Views in queries."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.facts.relation import relation
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Query, RteKind
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from tests.expr.conftest import Place


def relations(query: Query) -> Iterator[int]:
    """The tables and views that are read, at any depth of FROM, WITH and sublinks."""
    yield from (rte.relid for rte in query.rtable if rte.kind is RteKind.RELATION)
    for inner in subqueries(query):
        yield from relations(inner)
    for expr in query_exprs(query):
        for node in walk(expr):
            inner_query = getattr(node, "query", None)
            if isinstance(inner_query, Query):
                yield from relations(inner_query)


def expanded(place: Place, text: str) -> list[str]:
    stmt = parse(text)[0].stmt
    assert isinstance(stmt, SelectStmt)
    query = expand_views(place.session, analyze_query(place.session, stmt))
    return sorted(relation(place.session, oid).name for oid in relations(query))


def test_views_become_what_they_stand_for(place: Place) -> None:
    place.run(
        "CREATE TABLE t (a int)",
        "CREATE TABLE u (a int)",
        "CREATE VIEW v AS SELECT a FROM t WHERE a IN (SELECT a FROM u)",
        "CREATE VIEW over_v AS SELECT v.a, t.a AS b FROM v JOIN t USING (a)",
    )
    assert expanded(place, "SELECT * FROM t") == ["t"]
    assert expanded(place, "SELECT * FROM v") == ["t", "u"]
    assert expanded(place, "SELECT * FROM over_v") == ["t", "t", "u"]
    assert expanded(place, "WITH c AS (SELECT * FROM v) SELECT * FROM c, u") == ["t", "u", "u"]
    assert expanded(place, "SELECT (SELECT max(a) FROM v) FROM u ORDER BY EXISTS (SELECT FROM v)") == list("ttuuu")
    assert expanded(place, "SELECT * FROM u LEFT JOIN t ON t.a = (SELECT a FROM v) LIMIT (SELECT count(*) FROM v)") == [
        *"ttt",
        *"uuu",
    ]
    framed = "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN (SELECT count(*) FROM v) PRECEDING AND CURRENT ROW) FROM u"
    assert expanded(place, framed) == ["t", "u", "u"]


def test_a_view_sees_what_it_was_made_of(place: Place) -> None:
    place.run("CREATE TABLE t (a int)", "CREATE VIEW v AS SELECT * FROM t", "ALTER TABLE t RENAME a TO b")
    place.run("ALTER TABLE t RENAME TO renamed", "ALTER TABLE renamed ADD COLUMN c int")
    assert expanded(place, "SELECT a FROM v") == ["renamed"]
