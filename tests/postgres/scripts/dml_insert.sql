-- INSERT: columns, defaults, sources, literals of every type, errors and their places
CREATE TABLE t (a int, b text DEFAULT 'none', c numeric(6,2), d date DEFAULT '2020-02-29');
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (2, 'two'), (3, 'three');
INSERT INTO t (c, a) VALUES (1.239, 4), ('7', 5);
INSERT INTO t VALUES (6, DEFAULT, DEFAULT, DEFAULT), (7, 'seven', 1, DEFAULT), (8, DEFAULT, 2.5, '2021-01-01');
INSERT INTO t DEFAULT VALUES;
INSERT INTO t (a) VALUES (DEFAULT);
INSERT INTO t (b, a) SELECT 'row ' || n, n FROM generate_series(10, 12) n;
INSERT INTO t SELECT 20;
INSERT INTO t (a, b) SELECT 21, 'literal';
INSERT INTO t (d, a) SELECT '2022-03-04', 22;
INSERT INTO t (a) TABLE t;
SELECT * FROM t;
INSERT INTO t (a, b) (SELECT a + 100, b FROM t WHERE a = 1 ORDER BY a LIMIT 1);
INSERT INTO t (a) VALUES (30), (31) ORDER BY 1 LIMIT 1;
INSERT INTO t (a) WITH w AS (SELECT 40 AS n) SELECT n FROM w;
WITH w AS (SELECT 41 AS n) INSERT INTO t (a) SELECT n FROM w;
WITH w(x) AS (VALUES (50), (51)) INSERT INTO t (a, b) VALUES ((SELECT max(x) FROM w), 'max'), ((SELECT min(x) FROM w), 'min');
INSERT INTO t AS alias (a) VALUES ((SELECT count(*) FROM t)) RETURNING alias.a;
SELECT a, b, c, d FROM t WHERE a > 25;
INSERT INTO t (a) SELECT 1 UNION ALL SELECT 2;
-- too many, too few, unknown, twice
INSERT INTO t VALUES (1, 'b', 2, '2020-01-01', 5);
INSERT INTO t VALUES (1), (2, 3);
INSERT INTO t (a, b) VALUES (1);
INSERT INTO t (a, b) VALUES (1, 'x'), (2);
INSERT INTO t (a) VALUES (1, 2);
INSERT INTO t (a, nosuch) VALUES (1, 2);
INSERT INTO t (a, b, a) VALUES (1, 2, 3);
INSERT INTO t (ctid) VALUES ('(0,1)');
INSERT INTO t (a, b) SELECT 1;
INSERT INTO t (a, b) SELECT (1, 2);
INSERT INTO t (a, b) VALUES ((1, 2));
INSERT INTO t SELECT * FROM t, t AS u;
INSERT INTO nosuch VALUES (1);
INSERT INTO nosuch.t VALUES (1);
-- types
INSERT INTO t VALUES ('x');
INSERT INTO t (d) VALUES (1);
INSERT INTO t (a) VALUES (true);
INSERT INTO t (a) VALUES ('1'::text);
INSERT INTO t (c) VALUES (12345.678);
INSERT INTO t (a) VALUES (99999999999);
INSERT INTO t (d) VALUES ('2020-02-30');
INSERT INTO t (a) SELECT b FROM t;
INSERT INTO t (a, b) VALUES (1, 2), (3, true);
INSERT INTO t (a, b) VALUES (1, 'x'), ('y', 'z');
INSERT INTO t (a) VALUES (1.6), (2.5), (-1.5);
INSERT INTO t (b) VALUES (1.50), (now() - now());
SELECT a, b FROM t ORDER BY d LIMIT 0;
INSERT INTO t (a) VALUES (a);
INSERT INTO t (a) VALUES (t.a);
INSERT INTO t (a) VALUES (count(*));
INSERT INTO t (a) VALUES (generate_series(60, 62));
INSERT INTO t (a) VALUES (generate_series(1, 2)), (1);
INSERT INTO t (a) VALUES (DEFAULT) LIMIT 1;
INSERT INTO t (a) VALUES (DEFAULT + 1);
INSERT INTO t (a) SELECT DEFAULT;
INSERT INTO t (a[1]) VALUES (1);
INSERT INTO t (a.b) VALUES (1);
SELECT count(*), count(a), sum(a), min(b), max(b) FROM t;
-- column types
CREATE TABLE every (
  i2 smallint, i4 int, i8 bigint, f4 real, f8 double precision, n numeric, n2 numeric(10,3), bo bool, te text, vc varchar(5), ch char(4),
  na name, by bytea, da date, ti time, tt timetz, ts timestamp, tz timestamptz, iv interval, uu uuid, js json, jb jsonb, ia int[], ta text[],
  ip inet, bi bit(3), r int4range, oi oid, xm text COLLATE "C");
SET timezone = 'Europe/Berlin';
SET datestyle = 'ISO, DMY';
INSERT INTO every VALUES (
  1, 2, 3, 4.5, 1e300, 1.2300, 1.23456, 'yes', 'text', 'five', 'ab',
  'name', '\x00ff', '2020-02-03', '12:34:56.789', '12:34+02', '2020-02-03 04:05:06.7', '2020-07-03 04:05:06+00', '1 year 2 mons 3 days 04:05:06', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1}', '{"b": 1, "a": 2}', '{1,2,NULL}', '{a,"b c",NULL}',
  '10.0.0.1/8', '101', '[1,5)', 16384, 'c');
INSERT INTO every (f4, f8, n) VALUES ('NaN', '-Infinity', 'NaN'), ('Infinity', 'NaN', 'Infinity');
INSERT INTO every (da, ts, tz) VALUES ('infinity', '-infinity', 'infinity'), ('-infinity', 'infinity', '-infinity');
INSERT INTO every (i2) VALUES (NULL);
\x on
SELECT * FROM every;
\x off
INSERT INTO every (vc) VALUES ('abcdef');
INSERT INTO every (vc) VALUES ('abcde   ');
INSERT INTO every (ch) VALUES ('abcde');
INSERT INTO every (i2) VALUES (40000);
INSERT INTO every (n2) VALUES (12345678);
INSERT INTO every (bi) VALUES ('1010');
INSERT INTO every (uu) VALUES ('x');
INSERT INTO every (js) VALUES ('{');
INSERT INTO every (ia) VALUES (ARRAY[1,2]), ('{3,4}');
INSERT INTO every (ia[2], ia[1]) VALUES (5, 6);
INSERT INTO every (ia[1:2]) VALUES ('{7,8}');
INSERT INTO every (ia[1]) VALUES ('x');
INSERT INTO every (jb['k']) VALUES ('5');
SELECT ia, jb FROM every WHERE ia IS NOT NULL OR jb IS NOT NULL;
RESET timezone;
RESET datestyle;
-- relations that are not tables
CREATE SEQUENCE s;
CREATE INDEX ti ON t (a);
INSERT INTO s VALUES (1);
INSERT INTO ti VALUES (1);
DROP TABLE t, every;
DROP SEQUENCE s;
