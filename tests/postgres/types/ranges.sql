CREATE TABLE r (id int, g int4range, m nummultirange);
INSERT INTO r VALUES (1, '[1,5)', '{[1,2)}'), (2, '[1,5)', '{[1,2)}'), (3, 'empty', '{}'), (4, NULL, NULL), (5, '[0,)', '{(,2)}');
SELECT DISTINCT g FROM r ORDER BY g;
SELECT DISTINCT m FROM r ORDER BY m;
SELECT DISTINCT ON (g) g, id FROM r ORDER BY g, id DESC;
SELECT g FROM r UNION SELECT g FROM r ORDER BY 1;
SELECT m FROM r EXCEPT SELECT m FROM r WHERE id = 1 ORDER BY 1;
SELECT g, m FROM r INTERSECT ALL SELECT g, m FROM r WHERE id < 3;
SELECT id, rank() OVER (PARTITION BY g ORDER BY id), count(*) OVER (PARTITION BY m) FROM r ORDER BY id;
TABLE r EXCEPT TABLE r;
SELECT DISTINCT r FROM r ORDER BY r;
WITH RECURSIVE w AS (SELECT m FROM r UNION SELECT m FROM w) SELECT count(*) FROM w;
SELECT count(DISTINCT g), max(g), min(m) FROM r;
SELECT a.id, b.id FROM r a JOIN r b USING (g, m) ORDER BY 1, 2;
SELECT ROW(g, m) < ROW(g, '{}'::nummultirange) FROM r ORDER BY id;
SELECT row(a.*) = row(b.*), a.* IS NOT DISTINCT FROM b.* FROM r a, r b WHERE a.id = 1 AND b.id = 1;
\dT int[]
\dT timestamptz[]
\df lower anyrange
