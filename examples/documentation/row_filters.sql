\c test_pub
CREATE TABLE t1(a int, b int, c text, PRIMARY KEY(a,c));
CREATE TABLE t2(d int, e int, f int, PRIMARY KEY(d));
CREATE TABLE t3(g int, h int, i int, PRIMARY KEY(g));
CREATE PUBLICATION p1 FOR TABLE t1 WHERE (a > 5 AND c = 'NSW');
CREATE PUBLICATION p2 FOR TABLE t1, t2 WHERE (e = 99);
CREATE PUBLICATION p3 FOR TABLE t2 WHERE (d = 10), t3 WHERE (g = 10);
\dRp+
\d t1
\d t2
\d t3
\c test_sub
CREATE TABLE t1(a int, b int, c text, PRIMARY KEY(a,c));
CREATE SUBSCRIPTION s1
  CONNECTION 'host=localhost dbname=test_pub application_name=s1'
  PUBLICATION p1;
\c test_pub
INSERT INTO t1 VALUES (2, 102, 'NSW');
INSERT INTO t1 VALUES (3, 103, 'QLD');
INSERT INTO t1 VALUES (4, 104, 'VIC');
INSERT INTO t1 VALUES (5, 105, 'ACT');
INSERT INTO t1 VALUES (6, 106, 'NSW');
INSERT INTO t1 VALUES (7, 107, 'NT');
INSERT INTO t1 VALUES (8, 108, 'QLD');
INSERT INTO t1 VALUES (9, 109, 'NSW');
SELECT * FROM t1;
\c test_sub
SELECT * FROM t1;
\c test_pub
UPDATE t1 SET b = 999 WHERE a = 6;
SELECT * FROM t1;
\c test_sub
SELECT * FROM t1;
\c test_pub
UPDATE t1 SET a = 555 WHERE a = 2;
SELECT * FROM t1;
\c test_sub
SELECT * FROM t1;
\c test_pub
UPDATE t1 SET c = 'VIC' WHERE a = 9;
SELECT * FROM t1;
\c test_sub
SELECT * FROM t1;
\c test_pub
CREATE TABLE parent(a int PRIMARY KEY) PARTITION BY RANGE(a);
CREATE TABLE child PARTITION OF parent DEFAULT;
\c test_sub
CREATE TABLE parent(a int PRIMARY KEY) PARTITION BY RANGE(a);
CREATE TABLE child PARTITION OF parent DEFAULT;
\c test_pub
CREATE PUBLICATION p4 FOR TABLE parent WHERE (a < 5), child WHERE (a >= 5)
  WITH (publish_via_partition_root=true);
\c test_sub
CREATE SUBSCRIPTION s4
  CONNECTION 'host=localhost dbname=test_pub application_name=s4'
  PUBLICATION p4;
\c test_pub
INSERT INTO parent VALUES (2), (4), (6);
INSERT INTO child VALUES (3), (5), (7);
SELECT * FROM parent ORDER BY a;
\c test_sub
SELECT * FROM parent ORDER BY a;
\c test_pub
DROP PUBLICATION p4;
CREATE PUBLICATION p4 FOR TABLE parent, child WHERE (a >= 5)
  WITH (publish_via_partition_root=false);
\c test_sub
ALTER SUBSCRIPTION s4 REFRESH PUBLICATION;
\c test_pub
TRUNCATE parent;
INSERT INTO parent VALUES (2), (4), (6);
INSERT INTO child VALUES (3), (5), (7);
SELECT * FROM parent ORDER BY a;
\c test_sub
SELECT * FROM child ORDER BY a;
