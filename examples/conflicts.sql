CREATE TABLE test (c int CONSTRAINT test_pkey PRIMARY KEY, note text);
CREATE PUBLICATION pub FOR TABLE test;
\c test_sub
CREATE TABLE test (c int CONSTRAINT test_pkey PRIMARY KEY, note text);
CREATE SUBSCRIPTION sub CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pub;
INSERT INTO test VALUES (1, 'local');
\c test_pub
INSERT INTO test VALUES (0, 'before');
INSERT INTO test VALUES (1, 'one'), (2, 'two');
-- Missing rows are no conflict: this update finds nothing to do there.
UPDATE test SET note = 'ten' WHERE c = 10;
\c test_sub
SELECT * FROM test ORDER BY c;
