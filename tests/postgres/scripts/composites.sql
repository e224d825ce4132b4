-- Columns of a table's row type.
CREATE TABLE pt (x int, y text, n numeric(8,2));
CREATE TABLE addr (street text, p pt, tags text[]);
CREATE TABLE t (id int PRIMARY KEY, p pt, a addr);
INSERT INTO t VALUES (1, row(1,'a',1.5), row('s', row(2,'b',null), array['x','y']));
INSERT INTO t VALUES (2, '(3,"q, r",2.345)', null), (3, null, '(,,)'), (4, '(,"",)', '("a ""b\\""",,"{""q w"",NULL}")');
SELECT * FROM t ORDER BY id;
SELECT id, (p).x, (a).p, ((a).p).y, (a).tags[1] FROM t ORDER BY id;
SELECT (t.p).* FROM t ORDER BY id;
SELECT id, p IS NULL, p IS NOT NULL, a IS NULL FROM t ORDER BY id;
SELECT count(*), count(p), count(DISTINCT p) FROM t;
SELECT id FROM t WHERE p = row(1,'a',1.50)::pt;
SELECT id FROM t WHERE p > row(1,'a',1.50)::pt ORDER BY p;
SELECT row_to_json(t) FROM t ORDER BY id;
COPY t TO STDOUT;
COPY t TO STDOUT (FORMAT csv, HEADER);
COPY t FROM STDIN;
5	(9,new,1)	\N
6	\N	(elm,"(1,,2.5)",{})
\.
COPY t FROM STDIN (FORMAT csv);
7,"(8,""c,d"",)",
\.
SELECT * FROM t WHERE id > 4 ORDER BY id;
UPDATE t SET p.x = 7, a.tags = '{z}' WHERE id = 1 RETURNING *;
UPDATE t SET p.y = 'made' WHERE id = 3 RETURNING p, (p).y;
UPDATE t SET p = (p).x + 1 WHERE id = 2;
UPDATE t SET p = row((p).x + 1, 'r', 0) WHERE (p).x = 3 RETURNING id, p;
INSERT INTO t (id, p.x, p.y) VALUES (10, 5, 'only') RETURNING *;
INSERT INTO t VALUES (11, '(1,2)');
INSERT INTO t VALUES (11, '(1,2,3,4)');
INSERT INTO t VALUES (11, '(x,2,3)');
INSERT INTO t VALUES (11, '1,2,3');
INSERT INTO t VALUES (11, row(1,2));
INSERT INTO t SELECT id + 100, p, a FROM t WHERE id < 3;
DELETE FROM t WHERE (p).x > 7 RETURNING id;
-- The row type changes.
ALTER TABLE pt ADD COLUMN z date;
SELECT id, p, (p).z FROM t ORDER BY id;
UPDATE t SET p.z = '2024-02-29' WHERE id = 2;
ALTER TABLE pt DROP COLUMN y;
SELECT id, p, row_to_json(p) FROM t ORDER BY id;
INSERT INTO t VALUES (20, '(1,2,2024-01-01)');
INSERT INTO t VALUES (21, row(1,2,'2024-01-01'));
UPDATE t SET p.n = 9 WHERE id = 21;
SELECT id, (p).z, (p).n, p FROM t WHERE id IN (2, 20, 21) ORDER BY id;
ALTER TABLE pt RENAME COLUMN x TO xx;
SELECT (p).xx FROM t WHERE id = 20;
ALTER TABLE pt ALTER COLUMN xx TYPE bigint;
DROP TABLE pt;
ALTER TABLE t ADD COLUMN q pt DEFAULT '(5,6,)';
SELECT id, q FROM t ORDER BY id;
CREATE TABLE d (a int, q pt DEFAULT row(1, 2, null));
INSERT INTO d VALUES (1);
INSERT INTO d VALUES (2, DEFAULT), (3, '(,,)');
SELECT * FROM d ORDER BY a;
SELECT a, q FROM d GROUP BY a, q ORDER BY q, a;
SELECT d FROM d ORDER BY d;
CREATE VIEW v AS SELECT a, (q).n AS n, q FROM d;
SELECT * FROM v ORDER BY a;
CREATE TABLE c AS SELECT * FROM d;
SELECT * FROM c ORDER BY a;
ALTER TABLE c ADD CHECK ((q).xx > 0);
INSERT INTO c VALUES (4, '(0,1,)');
VACUUM t;
SELECT count(*), max(id) FROM t;
\d t
DROP TABLE t, d, c, pt, addr CASCADE;
