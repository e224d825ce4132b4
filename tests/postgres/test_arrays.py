"""Arrays of several dimensions, and with other lower bounds, as values of columns: as a real server has them."""

from __future__ import annotations

from tests.postgres.side_by_side import SideBySide

SCRIPT = """
CREATE TABLE t (n int PRIMARY KEY, a int[], b text[][])
INSERT INTO t VALUES (1, '{1,2}', '{{a,b},{c,NULL}}'), (2, '{}', '{}'), (3, NULL, NULL)
SELECT * FROM t ORDER BY n
INSERT INTO t VALUES (4, '{{1,2},{3,4}}', '{x}'), (5, '[0:1]={7,8}', '[2:2][-1:0]={{"a b",""}}')
SELECT * FROM t ORDER BY n
SELECT n, array_ndims(a), array_dims(a), array_lower(a, 1), array_upper(b, 2), cardinality(b) FROM t ORDER BY n
SELECT n, a[1], a[1:1], b[1:2][1], b[2][-1], a[1][2] FROM t ORDER BY n
SELECT n FROM t ORDER BY a, n
SELECT x.n, y.n FROM t x, t y WHERE x.a < y.a ORDER BY 1, 2
SELECT n FROM t WHERE a = '{{1,2},{3,4}}'
SELECT n, unnest(b) FROM t ORDER BY n, 2
UPDATE t SET a[0] = 9 WHERE n = 1
UPDATE t SET b[1][2] = 'changed' WHERE n = 1
UPDATE t SET a[1:2][2:2] = '{8,9}' WHERE n = 4
UPDATE t SET a = a || '{{5,6}}' WHERE n = 4
UPDATE t SET a[5][5] = 1 WHERE n = 4
SELECT * FROM t ORDER BY n
SELECT DISTINCT a FROM t ORDER BY a
SELECT a, count(*) FROM t GROUP BY a ORDER BY a
INSERT INTO t VALUES (1, '{{1}}') ON CONFLICT (n) DO UPDATE SET a = excluded.a RETURNING *
ALTER TABLE t ADD c numeric(3,1)[] DEFAULT '{{1,2},{3,4}}'
SELECT * FROM t ORDER BY n
ALTER TABLE t ALTER a TYPE bigint[]
ALTER TABLE t ALTER b TYPE text USING b::text
SELECT * FROM t ORDER BY n
CREATE TABLE made AS SELECT n, array_agg(a) AS g, ARRAY[[n], [2]] AS h FROM t WHERE n = 4 GROUP BY n
SELECT * FROM made
CREATE TABLE keyed (a int[] PRIMARY KEY)
INSERT INTO keyed VALUES ('{1}'), ('{{1}}'), ('[0:0]={1}')
INSERT INTO keyed VALUES ('{{1}}')
SELECT * FROM keyed ORDER BY a
CREATE TABLE parts (k int, a int[]) PARTITION BY LIST (k)
CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1)
CREATE TABLE part2 PARTITION OF parts FOR VALUES IN (2)
INSERT INTO parts VALUES (1, '{{1}}'), (2, '{{2}}'), (1, '{1}')
UPDATE parts SET k = 3 - k
SELECT tableoid::regclass, * FROM parts ORDER BY 1, 3
CREATE TABLE made_of (a int[], n int GENERATED ALWAYS AS (cardinality(a)) STORED CHECK (n < 5))
INSERT INTO made_of VALUES ('{{1,2},{3,4}}')
INSERT INTO made_of VALUES ('{{1,2,3},{3,4,5}}')
SELECT * FROM made_of
"""


def test_a_column_holds_arrays_of_any_dimensions(sides: SideBySide) -> None:
    for statement in SCRIPT.strip().splitlines():
        sides.same(statement)


def test_in_a_block_what_was_written_before_stays(sides: SideBySide) -> None:
    for statement in (
        "CREATE TABLE t (a int[], n int)",
        "INSERT INTO t VALUES ('{1}', 0)",
        "BEGIN",
        "INSERT INTO t VALUES ('{2}', 1)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES ('{{3}}', 2)",
        "UPDATE t SET a = a || '{{4}}' WHERE n = 2",
        "SELECT * FROM t ORDER BY n",
        "ROLLBACK TO s",
        "SELECT * FROM t ORDER BY n",
        "INSERT INTO t VALUES ('{{5}}', 3)",
        "COMMIT",
        "SELECT * FROM t ORDER BY n",
        "BEGIN",
        "INSERT INTO t VALUES ('{{6}}', 4)",
        "ROLLBACK",
        "SELECT * FROM t ORDER BY n",
    ):
        sides.same(statement)


def test_copy_brings_them_in_every_format(sides: SideBySide) -> None:
    sides.run("CREATE TABLE t (a int[], b text[])")
    sides.run("INSERT INTO t VALUES ('{1}', '{a}'), ('{{1,NULL}}', '{{{b}}}'), ('[5:6]={1,2}', NULL)")
    there, here = sides.written("t")
    assert here == there
    for form in ("text", "csv", "binary"):
        sides.ours(
            f"COPY t TO '{sides.file}' (FORMAT {form})",
            "DROP TABLE IF EXISTS back",
            "CREATE TABLE back (LIKE t)",
            "INSERT INTO back VALUES ('{0}', '{z}')",
            f"COPY back FROM '{sides.file}' (FORMAT {form})",
        )
        assert sides.ours("SELECT * FROM back OFFSET 1") == sides.ours("TABLE t")
