\c test_pub
CREATE TABLE t1(a int, b text, PRIMARY KEY(a));
CREATE TABLE t2(c int, d text, PRIMARY KEY(c));
CREATE TABLE t3(e int, f text, PRIMARY KEY(e));
\c test_sub
CREATE TABLE t1(a int, b text, PRIMARY KEY(a));
CREATE TABLE t2(c int, d text, PRIMARY KEY(c));
CREATE TABLE t3(e int, f text, PRIMARY KEY(e));
\c test_pub
INSERT INTO t1 VALUES (1, 'one'), (2, 'two'), (3, 'three');
INSERT INTO t2 VALUES (1, 'A'), (2, 'B'), (3, 'C');
INSERT INTO t3 VALUES (1, 'i'), (2, 'ii'), (3, 'iii');
CREATE PUBLICATION pub1 FOR TABLE t1;
CREATE PUBLICATION pub2 FOR TABLE t2 WITH (publish = 'truncate');
CREATE PUBLICATION pub3a FOR TABLE t3 WITH (publish = 'truncate');
CREATE PUBLICATION pub3b FOR TABLE t3 WHERE (e > 5);
\c test_sub
CREATE SUBSCRIPTION sub1
  CONNECTION 'host=localhost dbname=test_pub application_name=sub1'
  PUBLICATION pub1;
CREATE SUBSCRIPTION sub2
  CONNECTION 'host=localhost dbname=test_pub application_name=sub2'
  PUBLICATION pub2;
CREATE SUBSCRIPTION sub3
  CONNECTION 'host=localhost dbname=test_pub application_name=sub3'
  PUBLICATION pub3a, pub3b;
SELECT * FROM t1;
SELECT * FROM t2;
SELECT * FROM t3;
\c test_pub
INSERT INTO t1 VALUES (4, 'four'), (5, 'five'), (6, 'six');
INSERT INTO t2 VALUES (4, 'D'), (5, 'E'), (6, 'F');
INSERT INTO t3 VALUES (4, 'iv'), (5, 'v'), (6, 'vi');
SELECT * FROM t1;
SELECT * FROM t2;
SELECT * FROM t3;
\c test_sub
SELECT * FROM t1;
SELECT * FROM t2;
SELECT * FROM t3;
