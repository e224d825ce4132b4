"""Groups that are found by whole columns are the groups that the row-by-row way finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.catalog.session.session import Session
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.query.answers import answer_to, session_after

TABLES = """
CREATE TABLE g (i2 smallint, i4 int, i8 bigint, b bool, d date, s timestamp, z timestamptz, t text, v varchar(9),
                u uuid, n numeric(12,3), w numeric, f double precision, p int PRIMARY KEY);
INSERT INTO g SELECT nullif(x % 5, 3), nullif(x % 7, 2) * 300000000,
    (x % 3 - 1) * 9000000000000000000 + x % 2, x % 4 = 1, date '2020-01-01' + x % 9,
    timestamp '2020-01-01 00:00:00.5' + x % 6 * interval '1 h',
    timestamptz '2020-01-01 00:00+02' + x % 6 * interval '1 min', 'é' || nullif(x % 8, 5), 'v' || x % 4,
    ('00000000-0000-0000-0000-00000000000' || x % 10)::uuid, x % 11 / 8.0, x % 11 / 8.0, x % 13 / 7.0, x
  FROM generate_series(1, 400) x;
INSERT INTO g (i4, d, s, p) VALUES (-5, 'infinity', '-infinity', -1), (NULL, '-infinity', 'infinity', -2);
DELETE FROM g WHERE p % 17 = 0;
UPDATE g SET t = 'changed', i8 = NULL WHERE p % 19 = 0;
ALTER TABLE g ADD COLUMN late int DEFAULT 7;
INSERT INTO g (p, late) VALUES (1000, 8);
CREATE TABLE nothing (i4 int, t text);
CREATE TABLE floats (k int, f float8, r real);
INSERT INTO floats SELECT x % 6, x / 7.0, -x FROM generate_series(1, 300) x;
INSERT INTO floats VALUES (1, 'NaN', 'NaN'), (2, 'inf', '-inf'), (3, '-inf', 'NaN'), (4, NULL, NULL),
    (7, 'NaN', 'NaN'), (7, 'NaN', NULL), (8, NULL, NULL), (9, 'NaN', 5), (9, '-inf', 'inf');
CREATE TABLE parts (k int, v int) PARTITION BY LIST (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1, 2);
CREATE TABLE parts_2 (v int, k int);
ALTER TABLE parts ATTACH PARTITION parts_2 DEFAULT;
INSERT INTO parts SELECT x % 4, x FROM generate_series(1, 200) x;
CREATE TABLE docs (k int, v jsonb, r int4range, a text[]);
INSERT INTO docs SELECT x, jsonb_build_object('a', 'x' || x % 9, 'n', x % 10), int4range(x % 7, x),
  ARRAY['b', 'v' || x % 5] FROM generate_series(8, 300) x;
"""
DOCUMENTS = [
    "SELECT count(*), min(k) FROM docs WHERE v->>'a' = 'x7' AND v @> '{\"n\": 2}' AND 8 / (k - 8) >= 0",
    "SELECT count(*), max(k) FROM docs WHERE r BETWEEN '[2,50)' AND '[5,80)' AND a > '{b,v1}'",
]
QUERIES = [
    "SELECT count(*) FROM g",
    "SELECT min(f), max(f), min(r), max(r) FROM floats",
    "SELECT k, min(f), max(f), min(r), max(r), count(f) FROM floats GROUP BY k ORDER BY k",
    "SELECT k, min(f) FILTER (WHERE r > -100), max(f) FILTER (WHERE f < 'NaN') FROM floats GROUP BY k ORDER BY k",
    "SELECT min(f), max(f), max(r) FROM floats WHERE k = 8",
    "SELECT min(f + r), max(f * 2) FROM floats WHERE k IN (1, 7)",
    "SELECT count(*), 5, count(*) + 1 FROM g HAVING count(*) > 5",
    "SELECT count(*) FROM nothing",
    "SELECT count(*) FROM parts",
    "SELECT count(*), count(i2), sum(i2), avg(i2), min(i2), max(i2) FROM g",
    "SELECT sum(i4), avg(i4), sum(i8), min(i8), max(i8), sum(n), avg(n), bool_and(b), every(b), bool_or(b) FROM g",
    "SELECT min(d), max(d), min(s), max(s), min(z), max(z) FROM g",
    "SELECT i2, count(*) FROM g GROUP BY i2 ORDER BY i2",
    "SELECT t, i4, sum(i8), count(i8), avg(n) FROM g GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT b, d, sum(i2) + count(*) * 2 AS x FROM g GROUP BY b, d HAVING count(*) > 3 ORDER BY x DESC, d, b",
    "SELECT v, u, max(i4) FROM g GROUP BY v, u ORDER BY v DESC, u LIMIT 5 OFFSET 2",
    "SELECT s, z, count(*), rank() OVER (ORDER BY count(*)) FROM g GROUP BY s, z ORDER BY 3, 1, 2",
    "SELECT DISTINCT count(*) FROM g GROUP BY t ORDER BY 1",
    "SELECT late, count(*), upper(t) FROM g GROUP BY late, t ORDER BY 1, 2, 3",
    "SELECT count(*), sum(i4), min(i4), bool_or(i4 IS NULL) FROM nothing",
    "SELECT count(*), sum(i4), min(i4) FROM nothing",
    "SELECT t, count(*) FROM nothing GROUP BY t",
    "SELECT 1 FROM nothing HAVING count(*) = 0",
    "SELECT 1 FROM g GROUP BY i2",
    "SELECT k, sum(v), count(*) FROM parts GROUP BY k ORDER BY k",
    "SELECT k, sum(v), count(*) FROM parts WHERE k > 1 AND v % 3 = 1 GROUP BY k ORDER BY k",
    "SELECT i2 + 1, i4 % 3, sum(i4 * 2), max(n), min(t), max(v) FROM g GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT count(*), sum(i2) FROM g WHERE i4 > 300000000 AND t <> 'é1' OR i2 IS NULL AND d < 'infinity'",
    "SELECT count(*) FROM g WHERE p = 33",
    "SELECT count(*) FROM g WHERE false",
    "SELECT t, count(*) FILTER (WHERE i2 > 1), sum(i4) FILTER (WHERE b), max(d) FILTER (WHERE p < 0) FROM g GROUP BY t "
    "ORDER BY t",
    "SELECT sum(i4 * 8) FROM g",
    "SELECT count(*) FROM g WHERE 1 / (i2 - 1) > 0",
    "SELECT late + 1, count(*) FROM g WHERE late < 9 GROUP BY 1 ORDER BY 1",
    "SELECT i2 IS NULL, b AND i2 > 1, count(*) FROM g GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT count(*) FROM g WHERE f > 0.5 AND z >= '2020-01-01' AND u = '00000000-0000-0000-0000-000000000003'",
    "SELECT count(*), sum(length(t)) FROM g WHERE upper(t) LIKE '%1'",
    "SELECT 5, count(*) FROM g GROUP BY 1",
    "SELECT sum(w), avg(f), sum(f), min(t), count(DISTINCT i2), array_agg(i2 ORDER BY p) FROM g",
    "SELECT round(sum(f)::numeric, 9), round(avg(f)::numeric, 9), sum(floor(f)), count(f) FROM g",
    "SELECT i2, round(sum(f - 1)::numeric, 9), round(avg(f) FILTER (WHERE b)::numeric, 9) FROM g GROUP BY 1 ORDER BY 1",
    "SELECT sum(1e308 * i4) FROM g WHERE i4 > 0",
    "SELECT sum(CASE WHEN p = 3 THEN 'NaN' ELSE f END), avg(CASE WHEN p = 3 THEN '-infinity' ELSE f END) FROM g",
    "SELECT p, t, count(*) FROM g GROUP BY p ORDER BY p LIMIT 3",
    "SELECT sum(i8) FILTER (WHERE b), string_agg(t, ',' ORDER BY p) FROM g WHERE i4 > 0",
]  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    tables = tmp_path_factory.mktemp("tables") / "tables.sql"
    tables.write_text(TABLES)
    with session_after(tables, tmp_path_factory.mktemp("catalog")) as session:
        play(session, "SET pgrepl.engine = local")
        yield session


def play(session: Session, statement: str) -> list[str | None]:
    """The first column."""
    return [row[0] for result in run(session, statement) for row in result.rows]


@pytest.mark.parametrize("query", [*DOCUMENTS, *dose(QUERIES, 4)])
def test_both_ways_find_the_same_groups(session: Session, query: str) -> None:
    by_rows = answer_to(session, query)
    play(session, "SET pgrepl.local_rows = 0")
    try:
        by_columns = answer_to(session, query)
    finally:
        play(session, "RESET pgrepl.local_rows")
    assert by_columns == by_rows


@pytest.mark.parametrize(("query", "engine"), [
    ("SELECT sum(i4) FROM g", "columns"), ("SELECT i2, avg(f) FROM g GROUP BY i2", "columns"),
    ("SELECT sum(w) FROM g", "local"), ("SELECT sum(f::real) FROM g", "local"),
    *[(query, "columns") for query in DOCUMENTS], ("SELECT count(*) FROM docs WHERE v->>'a' LIKE 'x%'", "local"),
])  # fmt: skip
def test_explain_names_the_engine(session: Session, query: str, engine: str) -> None:
    play(session, "SET pgrepl.local_rows = 0")
    try:
        plan = play(session, f"EXPLAIN {query}")
    finally:
        play(session, "RESET pgrepl.local_rows")
    assert any(str(line).startswith(f"  Engine: {engine} (") for line in plan)


def test_what_columns_decline_is_for_spark(session: Session, spark: object) -> None:
    play(session, "SET pgrepl.engine = auto")
    play(session, "SET pgrepl.local_rows = 1")
    done = "SELECT sum(calls) FROM pgrepl_stat_engine WHERE work = 'SELECT' AND engine = 'spark'"
    try:
        before = int(play(session, done)[0] or 0)
        play(session, "SELECT p, t, count(*) FROM g GROUP BY p")
        assert int(play(session, done)[0] or 0) == before + 1
    finally:
        play(session, "RESET pgrepl.local_rows")
        play(session, "SET pgrepl.engine = local")


def test_row_security_hides_rows_from_both_ways(session: Session) -> None:
    play(session, "CREATE ROLE bob")
    play(session, "CREATE TABLE secret (a int)")
    play(session, "INSERT INTO secret VALUES (1)")
    play(session, "GRANT SELECT ON secret TO bob")
    play(session, "ALTER TABLE secret ENABLE ROW LEVEL SECURITY")
    play(session, "SET ROLE bob")
    play(session, "SET pgrepl.local_rows = 0")
    try:
        assert play(session, "SELECT count(*) FROM secret") == play(session, "SELECT count(a) FROM secret") == ["0"]
    finally:
        play(session, "RESET pgrepl.local_rows")
        play(session, "RESET ROLE")
