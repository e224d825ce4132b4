CREATE TABLE t1 (a int PRIMARY KEY, b text);
CREATE PUBLICATION p FOR TABLE t1 (a) WHERE (a > 5);
\dRp+
\c test_sub
CREATE TABLE t1 (a int PRIMARY KEY, b text);
CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p;
\dRs+
DROP SUBSCRIPTION s;
