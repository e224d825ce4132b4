\c test_pub
CREATE TABLE t1(id int, a text, b text, c text, d text, e text, PRIMARY KEY(id));
CREATE PUBLICATION p1 FOR TABLE t1 (id, b, a, d);
\dRp+
\d t1
\c test_sub
CREATE TABLE t1(id int, b text, a text, d text, PRIMARY KEY(id));
CREATE SUBSCRIPTION s1
  CONNECTION 'host=localhost dbname=test_pub application_name=s1'
  PUBLICATION p1;
\c test_pub
INSERT INTO t1 VALUES(1, 'a-1', 'b-1', 'c-1', 'd-1', 'e-1');
INSERT INTO t1 VALUES(2, 'a-2', 'b-2', 'c-2', 'd-2', 'e-2');
INSERT INTO t1 VALUES(3, 'a-3', 'b-3', 'c-3', 'd-3', 'e-3');
SELECT * FROM t1 ORDER BY id;
\c test_sub
SELECT * FROM t1 ORDER BY id;
