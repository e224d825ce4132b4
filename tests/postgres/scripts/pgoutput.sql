-- the messages of the replication protocol: which, in which order, and what is in them but for OIDs, LSNs and times
SET synchronous_commit = on;
CREATE TABLE t(a int PRIMARY KEY, b text);
CREATE TABLE u(a int, b numeric(5,2));
CREATE TABLE m(a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (50);
CREATE TABLE m2 PARTITION OF m FOR VALUES FROM (50) TO (100);
CREATE PUBLICATION p FOR TABLE t, u, m;
SELECT slot_name FROM pg_create_logical_replication_slot('look', 'pgoutput');
\set messages 'SELECT CASE WHEN get_byte(data, 0) IN (82, 73, 85, 68) THEN encode(substr(data, 1, 1) || substr(data, 6), ''escape'') WHEN get_byte(data, 0) = 84 THEN ''T of '' || get_byte(data, 4) || '' flags '' || get_byte(data, 5) ELSE encode(substr(data, 1, 1), ''escape'') END AS message FROM pg_logical_slot_get_binary_changes(''look'', NULL, NULL, ''proto_version'', ''1'', ''publication_names'', ''p'')'
-- rows
INSERT INTO t VALUES (1, 'x'), (2, NULL);
UPDATE t SET b = 'y' WHERE a = 1;
UPDATE t SET a = 3 WHERE a = 2;
DELETE FROM t WHERE a = 3;
INSERT INTO u VALUES (1, 2);
ALTER TABLE u REPLICA IDENTITY FULL;
UPDATE u SET b = 5;
DELETE FROM u;
INSERT INTO m VALUES (1), (60);
UPDATE m SET a = 61 WHERE a = 1;
:messages;
-- a table that is emptied is described again, before the message and after the transaction
INSERT INTO t VALUES (4);
TRUNCATE t;
INSERT INTO t VALUES (5);
INSERT INTO t VALUES (6);
BEGIN;
INSERT INTO t VALUES (7);
TRUNCATE t;
INSERT INTO t VALUES (8);
INSERT INTO t VALUES (9);
INSERT INTO u VALUES (9, 9);
TRUNCATE t, u RESTART IDENTITY CASCADE;
INSERT INTO t VALUES (10);
COMMIT;
INSERT INTO t VALUES (11);
INSERT INTO u VALUES (11, 1);
BEGIN;
TRUNCATE t;
ROLLBACK;
INSERT INTO t VALUES (12);
TRUNCATE m;
INSERT INTO m VALUES (1), (60);
TRUNCATE m1;
INSERT INTO m VALUES (2), (62);
:messages;
-- columns that come, go and change
INSERT INTO t VALUES (20, 'x');
BEGIN;
INSERT INTO t VALUES (21, 'x');
ALTER TABLE t ADD COLUMN c int DEFAULT 5;
INSERT INTO t VALUES (22, 'x');
COMMIT;
ALTER TABLE t DROP COLUMN b;
INSERT INTO t VALUES (23);
ALTER TABLE t RENAME COLUMN c TO "C c";
INSERT INTO t VALUES (24);
ALTER TABLE t RENAME TO "T t";
INSERT INTO "T t" VALUES (25);
ALTER TABLE "T t" RENAME TO t;
ALTER PUBLICATION p SET TABLE t (a) WHERE (a > 26);
INSERT INTO t VALUES (26), (27);
:messages;
-- nothing to tell
INSERT INTO u VALUES (30, 1);
:messages;
SELECT pg_drop_replication_slot('look');
