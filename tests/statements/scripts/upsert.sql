-- ON CONFLICT where columns were dropped, in partitions with another order of columns, through views
CREATE TABLE t (x int, a int PRIMARY KEY, y text, b text, c int DEFAULT 7, g int GENERATED ALWAYS AS (a + c) STORED);
ALTER TABLE t DROP COLUMN x;
INSERT INTO t (a, b) VALUES (1, 'one');
INSERT INTO t (a, b) VALUES (1, 'uno') ON CONFLICT (a) DO UPDATE SET b = excluded.b || t.b, c = excluded.c + t.c RETURNING *;
INSERT INTO t VALUES (1, 'y', 'uno'), (2, 'y', 'dos') ON CONFLICT (a) DO UPDATE SET b = excluded.b WHERE t.a = excluded.a RETURNING *, t.*, tableoid::regclass;
ALTER TABLE t DROP COLUMN y;
ALTER TABLE t ADD COLUMN z int DEFAULT 3;
INSERT INTO t (a, b) VALUES (1, 'uno'), (3, 'tres') ON CONFLICT (a) DO UPDATE SET (b, z) = (excluded.b, excluded.g + t.g) RETURNING t;
INSERT INTO t (a, b) VALUES (1, 'uno') ON CONFLICT (a) DO UPDATE SET b = (SELECT excluded.b || t.b || count(*) FROM t) RETURNING *;
INSERT INTO t (a, b) VALUES (1, 'uno') ON CONFLICT (a) DO UPDATE SET b = excluded::text, z = DEFAULT RETURNING *;
INSERT INTO t (a, b) VALUES (1, 'uno') ON CONFLICT (a) DO UPDATE SET b = row_to_json(excluded)::text || t::text RETURNING *;
INSERT INTO t (a, b) VALUES (1, 'uno') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO t (a, b) VALUES (1, 'uno') ON CONFLICT (a) DO NOTHING;
INSERT INTO t (a, b) VALUES (1, 'x') ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET b = 'p' WHERE t.z > 100 RETURNING *;
INSERT INTO t (a, b) VALUES (7, 'x'), (7, 'y') ON CONFLICT (a) DO UPDATE SET b = excluded.b;
CREATE VIEW v AS SELECT b AS bb, a AS aa, z AS zz, a + 1 AS e FROM t;
INSERT INTO v (aa, bb) VALUES (1, 'view') ON CONFLICT (aa) DO UPDATE SET bb = excluded.bb || v.bb, zz = excluded.aa RETURNING *;
INSERT INTO v (aa, bb) VALUES (1, 'view') ON CONFLICT (aa) DO UPDATE SET bb = excluded.e::text RETURNING *;
INSERT INTO v (aa, bb) VALUES (1, 'view') ON CONFLICT (aa) DO UPDATE SET bb = excluded::text || v::text RETURNING v;
INSERT INTO v (aa, bb) VALUES (1, 'view') ON CONFLICT (a) DO NOTHING;
SELECT * FROM t ORDER BY a;
UPDATE t SET b = b || '!' WHERE a = 1 RETURNING *, t;
DELETE FROM t WHERE a = 3 RETURNING t.*, t;
COPY t FROM STDIN;
9	nine	4	5
\.
COPY t (b, a) FROM STDIN;
ten	10
\.
COPY t TO STDOUT;
-- partitions
CREATE TABLE p (dropped int, a int, b text, c int DEFAULT 5, PRIMARY KEY (a)) PARTITION BY RANGE (a);
CREATE TABLE p1 (c int DEFAULT 6, b text, gone text, a int NOT NULL);
ALTER TABLE p1 DROP COLUMN gone;
ALTER TABLE p DROP COLUMN dropped;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
CREATE TABLE p3 (b text, a int NOT NULL, c int) PARTITION BY LIST (b);
ALTER TABLE p DROP CONSTRAINT p_pkey;
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30);
CREATE TABLE p3x (c int, x int, a int NOT NULL, b text);
ALTER TABLE p3x DROP COLUMN x;
ALTER TABLE p3 ATTACH PARTITION p3x FOR VALUES IN ('x');
ALTER TABLE p3 ADD UNIQUE (b, a);
ALTER TABLE p1 ADD PRIMARY KEY (a);
ALTER TABLE p ADD UNIQUE (a, b);
INSERT INTO p (a, b) VALUES (1, 'one'), (11, 'eleven'), (21, 'x') RETURNING *, tableoid::regclass;
INSERT INTO p (a, b) VALUES (1, 'one'), (11, 'eleven'), (21, 'x'), (2, 'two') ON CONFLICT (a, b) DO UPDATE SET c = excluded.c + p.c RETURNING *, p, tableoid::regclass;
INSERT INTO p1 (a, b) VALUES (1, 'uno') ON CONFLICT (a) DO UPDATE SET b = excluded.b || p1.b, c = excluded.c RETURNING *, p1;
INSERT INTO p3 (a, b) VALUES (21, 'x') ON CONFLICT (a, b) DO UPDATE SET c = excluded.a RETURNING *, p3;
INSERT INTO p3x (a, b) VALUES (21, 'x') ON CONFLICT (a, b) DO UPDATE SET c = excluded.a + p3x.a RETURNING *;
INSERT INTO p3x (a, b) VALUES (21, 'x') ON CONFLICT (b, a) DO UPDATE SET c = 5 WHERE p3x.c = 42 AND excluded.c IS NULL RETURNING *, p3x;
INSERT INTO p (a, b) VALUES (1, 'one'), (11, 'eleven'), (21, 'x'), (3, 'three') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO p (a, b) VALUES (21, 'x') ON CONFLICT (a, b) DO UPDATE SET b = 'y';
INSERT INTO p (a, b) VALUES (21, 'x') ON CONFLICT (a, b) DO UPDATE SET a = 12;
INSERT INTO p (a, b) VALUES (11, 'eleven') ON CONFLICT (a, b) DO UPDATE SET a = 12 RETURNING *;
INSERT INTO p (a, b) VALUES (12, 'eleven') ON CONFLICT (a, b) DO UPDATE SET a = 2 RETURNING *;
UPDATE p SET a = a + 10 WHERE a < 3 RETURNING *, p, tableoid::regclass;
UPDATE p SET c = c + 1, b = 'x' WHERE a > 11 RETURNING *, p, tableoid::regclass;
UPDATE p SET c = p.c + o.a FROM t o WHERE o.a = p.a - 20 RETURNING p, o;
DELETE FROM p WHERE a > 20 RETURNING *, p, tableoid::regclass;
COPY p (b, c, a) FROM STDIN;
x	1	25
two	2	3
\.
COPY p1 FROM STDIN;
77	seventy	7
\.
SELECT *, tableoid::regclass FROM p ORDER BY a;
CREATE VIEW pv AS SELECT c AS cc, b AS bb, a AS aa FROM p WHERE a < 100 WITH CHECK OPTION;
INSERT INTO pv (aa, bb) VALUES (25, 'x') ON CONFLICT (aa, bb) DO UPDATE SET cc = pv.cc + excluded.aa RETURNING *;
INSERT INTO pv (aa, bb) VALUES (25, 'x') ON CONFLICT (aa, bb) DO UPDATE SET cc = pv.cc + excluded.aa, aa = 1000 RETURNING *;
WITH w AS (INSERT INTO p (a, b) VALUES (25, 'x') ON CONFLICT (a, b) DO UPDATE SET c = 0 RETURNING *) SELECT * FROM w;
-- indexes by expression, partial, several
CREATE TABLE e (d int, id int, k text, v int, u int UNIQUE);
ALTER TABLE e DROP COLUMN d;
CREATE UNIQUE INDEX e_lower ON e (lower(k)) WHERE v > 0;
INSERT INTO e VALUES (1, 'A', 1, 1), (2, 'b', 0, 2);
INSERT INTO e VALUES (3, 'a', 1, 9) ON CONFLICT (lower(k)) WHERE v > 0 DO UPDATE SET k = excluded.k, u = excluded.u RETURNING *;
INSERT INTO e VALUES (4, 'B', 1, 2) ON CONFLICT (lower(k)) WHERE v > 0 DO UPDATE SET v = 5;
INSERT INTO e VALUES (4, 'B', 0, 2) ON CONFLICT (u) DO UPDATE SET (id, k) = (SELECT excluded.id, e.k || excluded.k) RETURNING *;
-- inheritance
CREATE TABLE parent (d int, a int PRIMARY KEY, b text);
CREATE TABLE child (c int) INHERITS (parent);
ALTER TABLE parent DROP COLUMN d;
INSERT INTO child (a, b, c) VALUES (1, 'x', 2);
INSERT INTO parent (a, b) VALUES (1, 'y') ON CONFLICT (a) DO UPDATE SET b = 'z' RETURNING *;
UPDATE parent SET b = b || 'u' RETURNING *, parent, tableoid::regclass;
