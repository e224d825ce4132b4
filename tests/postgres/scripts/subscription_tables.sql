-- the tables of a subscription: fetched, refreshed, refused; and what protects them
CREATE TABLE t1(a int PRIMARY KEY);
CREATE TABLE t2(a int PRIMARY KEY);
CREATE TABLE t3(a int PRIMARY KEY, b int, c int GENERATED ALWAYS AS (a) STORED);
CREATE SCHEMA s;
CREATE TABLE s."T 4"(a int);
CREATE PUBLICATION p1 FOR TABLE t1, t2;
CREATE PUBLICATION p2 FOR TABLE t2, t3;
CREATE PUBLICATION p3 FOR TABLE t3 (a, b);
CREATE PUBLICATION p4 FOR TABLE t3 (b, a) WITH (publish = 'truncate');
CREATE PUBLICATION p5 FOR TABLE t3 (a);
CREATE PUBLICATION p6 FOR TABLES IN SCHEMA s;
CREATE PUBLICATION p7 FOR ALL TABLES;
\c test_sub
CREATE TABLE t1(a int PRIMARY KEY);
CREATE TABLE t2(a int PRIMARY KEY);
CREATE TABLE t3(a int PRIMARY KEY, b int);
\set tables '(SELECT subname, srrelid::regclass::text AS target, srsubstate, srsublsn FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = srsubid) AS t'
CREATE SUBSCRIPTION s1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1, p2;
SELECT * FROM :tables ORDER BY 1, 2;
-- equal column lists, unequal ones; a generated column is no part of the full list
CREATE SUBSCRIPTION s2 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2, p3, p4 WITH (copy_data = false);
SELECT * FROM :tables ORDER BY 1, 2;
ALTER SUBSCRIPTION s2 ADD PUBLICATION p5;
ALTER SUBSCRIPTION s2 ADD PUBLICATION p5 WITH (refresh = false);
ALTER SUBSCRIPTION s2 REFRESH PUBLICATION;
ALTER SUBSCRIPTION s2 SET PUBLICATION p4, p5;
ALTER SUBSCRIPTION s2 SET PUBLICATION p5, p1;
SELECT * FROM :tables WHERE subname = 's2' ORDER BY 1, 2;
ALTER SUBSCRIPTION s2 SET PUBLICATION p1 WITH (copy_data = false);
SELECT * FROM :tables WHERE subname = 's2' ORDER BY 1, 2;
ALTER SUBSCRIPTION s2 SET PUBLICATION p7 WITH (copy_data = false);
-- targets
CREATE SCHEMA s;
ALTER SUBSCRIPTION s2 SET PUBLICATION p6;
CREATE SEQUENCE s."T 4";
ALTER SUBSCRIPTION s2 SET PUBLICATION p6;
DROP SEQUENCE s."T 4";
CREATE VIEW s."T 4" AS SELECT 1 AS a;
ALTER SUBSCRIPTION s2 SET PUBLICATION p6;
DROP VIEW s."T 4";
CREATE TABLE i(a int);
CREATE INDEX "T 4" ON i(a);
ALTER SUBSCRIPTION s2 SET PUBLICATION p6;
CREATE UNLOGGED TABLE s."T 4"(z int);
ALTER SUBSCRIPTION s2 SET PUBLICATION p6;
SELECT * FROM :tables WHERE subname = 's2' ORDER BY 1, 2;
SET client_min_messages = debug1;
ALTER SUBSCRIPTION s2 SET PUBLICATION p1 WITH (copy_data = false);
ALTER SUBSCRIPTION s2 REFRESH PUBLICATION;
RESET client_min_messages;
-- the search path plays no part
SET search_path = s;
ALTER SUBSCRIPTION s2 REFRESH PUBLICATION WITH (copy_data = true);
RESET search_path;
-- a dropped publication is a warning where it is named, and its tables go at the next refresh
\c test_pub
DROP PUBLICATION p1;
\c test_sub
ALTER SUBSCRIPTION s1 REFRESH PUBLICATION;
SELECT * FROM :tables ORDER BY 1, 2;
ALTER SUBSCRIPTION s1 SET PUBLICATION p1, p2, p3 WITH (copy_data = false);
ALTER SUBSCRIPTION s1 DROP PUBLICATION p1, p3;
ALTER SUBSCRIPTION s1 ADD PUBLICATION p1, nosuch;
ALTER SUBSCRIPTION s1 DROP PUBLICATION nosuch, p1, nosuch;
ALTER SUBSCRIPTION s1 DROP PUBLICATION nosuch, p1, p2;
ALTER SUBSCRIPTION s1 DROP PUBLICATION p9;
ALTER SUBSCRIPTION s1 ADD PUBLICATION p9, p2;
ALTER SUBSCRIPTION s1 SET PUBLICATION p9, p2, p9;
SELECT subpublications FROM pg_subscription ORDER BY subname;
-- a table of a subscription
DROP TABLE t3;
SELECT * FROM :tables ORDER BY 1, 2;
ALTER SUBSCRIPTION s1 DISABLE;
DROP TABLE t2;
ALTER SUBSCRIPTION s1 SET (slot_name = NONE);
DROP SUBSCRIPTION s1;
ALTER SUBSCRIPTION s2 DISABLE;
ALTER SUBSCRIPTION s2 SET (slot_name = 's2');
DROP TABLE t1;
SELECT * FROM :tables ORDER BY 1, 2;
DROP SUBSCRIPTION s2;
SELECT count(*) FROM pg_subscription_rel;
-- in a transaction
BEGIN;
CREATE SUBSCRIPTION b1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2;
ROLLBACK;
BEGIN;
CREATE SUBSCRIPTION b1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2 WITH (create_slot = false, slot_name = NONE, enabled = false, copy_data = false);
ROLLBACK;
CREATE TABLE t2(a int PRIMARY KEY);
CREATE TABLE t3(a int PRIMARY KEY, b int);
BEGIN;
CREATE SUBSCRIPTION b1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2 WITH (create_slot = false, slot_name = NONE, enabled = false, copy_data = false);
SELECT * FROM :tables ORDER BY 1, 2;
ALTER SUBSCRIPTION b1 SET (slot_name = 'x');
ALTER SUBSCRIPTION b1 ENABLE;
SAVEPOINT one;
ALTER SUBSCRIPTION b1 REFRESH PUBLICATION;
ROLLBACK TO one;
ALTER SUBSCRIPTION b1 SET PUBLICATION p3;
ROLLBACK TO one;
ALTER SUBSCRIPTION b1 DISABLE;
ALTER SUBSCRIPTION b1 SET (failover);
ROLLBACK TO one;
DROP SUBSCRIPTION b1;
ROLLBACK TO one;
ALTER SUBSCRIPTION b1 DISABLE;
ALTER SUBSCRIPTION b1 SET (slot_name = NONE);
DROP SUBSCRIPTION b1;
COMMIT;
SELECT count(*) FROM pg_subscription WHERE subname LIKE 'b%';
-- origin = none: the publisher itself is a subscriber
\c test_pub
\set conn 'host=localhost dbname=test_pub port=' :PORT
CREATE SCHEMA up;
CREATE TABLE part(a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part DEFAULT;
CREATE PUBLICATION pup FOR TABLE t2, part1;
CREATE PUBLICATION ppart FOR TABLE part WITH (publish_via_partition_root);
CREATE PUBLICATION pother FOR TABLE t1;
CREATE SUBSCRIPTION up CONNECTION :'conn' PUBLICATION pup WITH (create_slot = false, slot_name = NONE, enabled = false);
\c test_sub
CREATE TABLE part(a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE t1(a int PRIMARY KEY);
CREATE SUBSCRIPTION o1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2 WITH (origin = none, enabled = false);
CREATE SUBSCRIPTION o2 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2, ppart, pother WITH (origin = 'None', create_slot = false, slot_name = 'x', enabled = false);
CREATE SUBSCRIPTION o3 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2 WITH (origin = none, copy_data = false, create_slot = false, slot_name = 'x');
CREATE SUBSCRIPTION o4 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pother WITH (origin = none, create_slot = false, slot_name = 'x');
SELECT subname, suborigin FROM pg_subscription WHERE subname LIKE 'o%' ORDER BY 1;
ALTER SUBSCRIPTION o3 REFRESH PUBLICATION;
ALTER SUBSCRIPTION o4 ADD PUBLICATION ppart;
ALTER SUBSCRIPTION o4 ADD PUBLICATION p2 WITH (copy_data = false);
ALTER SUBSCRIPTION o3 ADD PUBLICATION pup WITH (refresh = false);
ALTER SUBSCRIPTION o1 SET (origin = ANY);
SELECT subname, suborigin FROM pg_subscription WHERE subname LIKE 'o%' ORDER BY 1;
ALTER SUBSCRIPTION o3 DISABLE;
ALTER SUBSCRIPTION o4 DISABLE;
ALTER SUBSCRIPTION o2 SET (slot_name = NONE);
ALTER SUBSCRIPTION o3 SET (slot_name = NONE);
ALTER SUBSCRIPTION o4 SET (slot_name = NONE);
DROP SUBSCRIPTION o1;
DROP SUBSCRIPTION o2;
DROP SUBSCRIPTION o3;
DROP SUBSCRIPTION o4;
-- two_phase
CREATE SUBSCRIPTION w1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2 WITH (two_phase, copy_data = false);
CREATE SUBSCRIPTION w2 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2 WITH (two_phase);
CREATE SUBSCRIPTION w3 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION nosuch WITH (two_phase, copy_data = false);
CREATE SUBSCRIPTION w4 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2 WITH (two_phase, copy_data = false, create_slot = false, slot_name = 'w1');
SELECT subname, subtwophasestate FROM pg_subscription WHERE subname <> 'up' ORDER BY 1;
ALTER SUBSCRIPTION w1 REFRESH PUBLICATION;
ALTER SUBSCRIPTION w1 REFRESH PUBLICATION WITH (copy_data = false);
ALTER SUBSCRIPTION w1 SET PUBLICATION p3;
ALTER SUBSCRIPTION w1 ADD PUBLICATION p3;
ALTER SUBSCRIPTION w1 ADD PUBLICATION p3 WITH (copy_data = false);
ALTER SUBSCRIPTION w1 DROP PUBLICATION p3;
ALTER SUBSCRIPTION w1 DROP PUBLICATION p3 WITH (copy_data = false);
ALTER SUBSCRIPTION w2 REFRESH PUBLICATION;
\c test_pub
SELECT slot_name, two_phase, failover FROM pg_replication_slots ORDER BY 1;
\c test_sub
-- failover
CREATE SUBSCRIPTION f1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p2 WITH (failover, enabled = false);
ALTER SUBSCRIPTION f1 SET (failover = false);
ALTER SUBSCRIPTION f1 SET (failover = true, slot_name = 'nosuch');
ALTER SUBSCRIPTION f1 SET (failover = true, slot_name = NONE);
SELECT subfailover, subslotname FROM pg_subscription WHERE subname = 'f1';
\c test_pub
SELECT slot_name, failover FROM pg_replication_slots WHERE failover OR slot_name = 'f1';
\c test_sub
-- views
SELECT subname, pid, leader_pid, relid, received_lsn, worker_type FROM pg_stat_subscription WHERE subname <> 'up' ORDER BY 1;
SELECT subname, apply_error_count, sync_error_count, stats_reset FROM pg_stat_subscription_stats WHERE subname <> 'up' ORDER BY 1;
SELECT pg_stat_reset_subscription_stats(oid) FROM pg_subscription WHERE subname = 'w1';
SELECT subname, stats_reset IS NULL FROM pg_stat_subscription_stats WHERE subname <> 'up' ORDER BY 1;
SELECT pg_stat_reset_subscription_stats(0);
SELECT external_id LIKE 'pg_%', remote_lsn FROM pg_replication_origin_status;
SELECT count(*) FROM pg_replication_origin WHERE roname IN (SELECT 'pg_' || oid FROM pg_subscription WHERE subname <> 'up');
ALTER SUBSCRIPTION w1 DISABLE;
ALTER SUBSCRIPTION w4 DISABLE;
DROP SUBSCRIPTION w1;
DROP SUBSCRIPTION w4;
