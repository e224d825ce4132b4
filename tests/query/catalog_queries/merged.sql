-- Queries whose subqueries and views may be merged into the query around them, or must not be.

-- a constant of a nullable side
SELECT c.relname, s.x, s.y FROM pg_class c
LEFT JOIN (SELECT oid, 1 AS x, coalesce(relname, 'none') || '!' AS y FROM pg_class WHERE relname = 'pg_type') s ON s.oid = c.oid
WHERE c.relname IN ('pg_class', 'pg_type') ORDER BY 1;

-- a strict expression of a nullable side
SELECT c.relname, s.n + 1 FROM pg_class c
RIGHT JOIN (SELECT relname AS r, relnatts::int + 0 AS n FROM pg_class k WHERE relname = 'customer') s ON s.r = c.relname AND c.relkind = 'v'
LEFT JOIN (SELECT nspname, oid::int % 1 AS zero FROM pg_namespace WHERE nspname LIKE 'x%') z ON z.zero = s.n ORDER BY 1;

-- conditions of a nullable side
SELECT n.nspname, count(t.relname), count(*) FROM pg_namespace n
LEFT JOIN (SELECT relname, relnamespace FROM pg_class JOIN pg_attribute a ON a.attrelid = pg_class.oid AND attname = 'home' WHERE relkind = 'r') t
  ON t.relnamespace = n.oid WHERE n.nspname IN ('public', 'app') GROUP BY 1 ORDER BY 1;

-- full join
SELECT a.relname, b.relname FROM (SELECT relname FROM pg_class WHERE relname IN ('item1', 'item2')) a
FULL JOIN (SELECT relname FROM pg_class WHERE relname IN ('item2', 'item4')) b USING (relname) ORDER BY 1, 2;

-- merged columns
SELECT relname, a.relkind, s.relkind FROM (SELECT relname, relkind FROM pg_class WHERE relname LIKE 'item4%') a
JOIN (SELECT relname, relkind FROM pg_class) s USING (relname) WHERE relname < 'item42' ORDER BY 1, 2, 3;

-- whole rows
SELECT s, s.relname FROM (SELECT relname, relkind FROM pg_class WHERE relname = 'item1') s;

-- a whole row of a join
SELECT j FROM ((SELECT relname FROM pg_class WHERE relname = 'item1') a CROSS JOIN (SELECT nspname FROM pg_namespace WHERE nspname = 'app') b) j;

-- an outer query's row
SELECT n.nspname FROM pg_namespace n
WHERE EXISTS (SELECT FROM (SELECT relname AS r FROM pg_class k WHERE k.relnamespace = n.oid) q WHERE q.r = 'item1') ORDER BY 1;

-- a row of two levels above
SELECT n.nspname, (SELECT count(*) FROM (SELECT relname FROM pg_class c WHERE c.relnamespace = n.oid
                   AND (SELECT q.x FROM (SELECT c.relkind = 'r' AS x, n.oid) q)) s WHERE s.relname LIKE 'item%') AS found
FROM pg_namespace n WHERE n.nspname IN ('app', 'public') ORDER BY 1;

-- groups over merged columns
SELECT s.k, count(*), max(s.n) FROM (SELECT relkind::text || 'x' AS k, relname AS n FROM pg_class WHERE relname LIKE 'item%') s
GROUP BY s.k HAVING count(*) > 1 ORDER BY s.k;

-- grouping sets
SELECT s.k, s.z, count(*) FROM (SELECT relkind AS k, relname = 'item1' AS z FROM pg_class WHERE relname IN ('item1', 'item2', 'overview')) s
GROUP BY ROLLUP (s.k, s.z) ORDER BY 1, 2;

-- an aggregate of an outer query
SELECT (SELECT max(s.n) FROM (SELECT 1) q) FROM (SELECT relname AS n FROM pg_class WHERE relname LIKE 'item1%' AND relkind = 'r') s;

-- windows
SELECT * FROM (SELECT relname, row_number() OVER (PARTITION BY relkind ORDER BY relname) AS n, relkind FROM pg_class
               WHERE relname LIKE 'item1%') s WHERE s.n = 2 AND s.relkind = 'r';

-- distinct on
SELECT * FROM (SELECT DISTINCT ON (relkind) relkind, relname FROM pg_class WHERE relname LIKE 'item4%' ORDER BY relkind, relname DESC) s
WHERE s.relname LIKE '%4%' ORDER BY 1;

-- limits stay
SELECT * FROM (SELECT relname FROM pg_class WHERE relname LIKE 'item%' AND relkind = 'r' ORDER BY relname LIMIT 2) s WHERE s.relname <> 'item0';

-- union
SELECT * FROM (SELECT relname::text AS n, 'c' AS k FROM pg_class UNION SELECT nspname, 'n' FROM pg_namespace
               UNION ALL SELECT typname, 't' FROM pg_type) u WHERE u.n IN ('item1', 'app', 'mood') AND u.k <> 'x' ORDER BY 1, 2;

-- except and intersect
SELECT * FROM (SELECT relname FROM pg_class WHERE relkind = 'r' EXCEPT SELECT relname FROM pg_class WHERE relname < 'item2') u
WHERE u.relname LIKE 'item3%'
INTERSECT SELECT relname FROM pg_class WHERE relname <> 'item30' ORDER BY 1;

-- limited arms
SELECT count(*) FROM ((SELECT relname FROM pg_class LIMIT 3) UNION ALL (SELECT nspname FROM pg_namespace ORDER BY 1 LIMIT 1)) u
WHERE u.relname <> '';

-- conditions on groups
SELECT * FROM (SELECT relkind, count(*) AS n FROM pg_class WHERE relname LIKE 'item%' GROUP BY relkind) g
WHERE g.relkind IN ('r', 'v') AND g.n > 1;

-- a group of all rows
SELECT * FROM (SELECT count(*) AS n FROM pg_class WHERE relname = 'nothing') g WHERE g.n = 0;

-- rows of expressions
SELECT c.relname, m.twice, m.kind FROM pg_class c CROSS JOIN LATERAL (SELECT c.relnatts * 2, upper(c.relkind::text)) m (twice, kind)
WHERE m.twice > 8 AND c.relname LIKE 'item1_' AND c.relkind = 'r' ORDER BY 1;

-- rows of expressions that may be missing
SELECT c.relname, m.x FROM pg_class c LEFT JOIN LATERAL (SELECT c.relnatts AS x) m ON m.x > 8 WHERE c.relname IN ('item1', 'overview') ORDER BY 1;

-- lateral subqueries
SELECT c.relname, a.attname FROM pg_class c, LATERAL (SELECT attname FROM pg_attribute WHERE attrelid = c.oid AND attnum = 2) a
WHERE c.relname IN ('item1', 'customer') ORDER BY 1;

-- sets in targets
SELECT s.relname, s.k FROM (SELECT relname, unnest(ARRAY[1, 2]) AS k FROM pg_class WHERE relname = 'item1') s WHERE s.k > 1;

-- volatile targets
SELECT count(DISTINCT s.x) > 1, bool_and(s.x = s.x) FROM (SELECT random() AS x FROM pg_class LIMIT 20) s;

-- queries of WITH
WITH c AS (SELECT relname, relnamespace FROM pg_class WHERE relname LIKE 'item%' AND relkind = 'r')
SELECT s.relname, n.nspname FROM (SELECT * FROM c WHERE relname < 'item2') s JOIN (SELECT oid, nspname FROM pg_namespace) n ON n.oid = s.relnamespace
ORDER BY 1;

-- recursion over merged subqueries
WITH RECURSIVE t (oid, depth) AS (
  SELECT s.oid, 0 FROM (SELECT oid FROM pg_type WHERE typname = '_mood') s
  UNION ALL
  SELECT e.typelem, t.depth + 1 FROM t JOIN (SELECT oid, typelem FROM pg_type) e ON e.oid = t.oid WHERE e.typelem <> 0)
SELECT oid::regtype, depth FROM t ORDER BY depth;

-- views of views
SELECT schemaname, tablename, hasindexes FROM pg_tables t JOIN (SELECT nspname FROM pg_namespace) n ON n.nspname = t.schemaname
WHERE t.tablename IN ('item1', 'item2') ORDER BY 1, 2;

-- a view as a whole
SELECT v.tablename FROM pg_tables v WHERE v IS NOT DISTINCT FROM v AND tablename = 'item1' AND (v).schemaname = 'public';

-- types that views declare
SELECT pg_typeof(table_name), pg_typeof(ordinal_position), pg_typeof(is_nullable), pg_typeof(column_default), collation for (table_name)
FROM information_schema.columns WHERE table_name = 'item1' AND ordinal_position = 1;

-- views beside a table of the lake
SELECT t.tablename, c.name FROM pg_tables t LEFT JOIN customer c ON c.name = t.tablename WHERE t.tablename = 'item1';

-- IN of a view
SELECT relname FROM pg_class WHERE (relname, relkind) IN (SELECT tablename, 'r'::"char" FROM pg_tables WHERE schemaname = 'app' AND tablename < 'item2')
ORDER BY 1;

-- NOT IN of a subquery with NULL
SELECT count(*) FROM pg_namespace WHERE nspname NOT IN (SELECT s.x FROM (SELECT relname AS x FROM pg_class UNION ALL SELECT NULL) s);

-- errors are raised for the same rows
SELECT s.x FROM (SELECT 1 / (relnatts - relnatts) AS x, relname FROM pg_class) s WHERE s.relname = 'nothing of this name';

-- outer joins that add nothing
SELECT a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN (pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace) ON t.oid = a.atttypid
LEFT JOIN pg_description x ON x.objoid = d.oid AND x.classoid = 2604 AND x.objsubid = 0
WHERE c.relname = 'item1' AND a.attnum > 0 ORDER BY 1;

-- outer joins that find several rows
SELECT c.relname, count(*) FROM pg_index i RIGHT JOIN pg_class c ON i.indrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid
LEFT JOIN pg_namespace n ON n.oid = n.nspowner WHERE c.relname IN ('item1', 'customer') GROUP BY 1 ORDER BY 1;

-- outer joins that others need
SELECT c.relname, d.adnum, n.nspname IS NULL FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = 1
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum LEFT JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'app'
LEFT JOIN pg_authid r ON r.oid = n.nspowner LEFT JOIN LATERAL (SELECT r.rolname = 'none' AS no) l ON true
WHERE c.relname IN ('item1', 'item3', 'customer') AND l.no IS NOT TRUE ORDER BY 1;
