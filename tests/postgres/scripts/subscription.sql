-- subscriptions, their slots and what psql shows of them
CREATE TABLE t1 (a int PRIMARY KEY, b text);
CREATE TABLE t2 (a int PRIMARY KEY, b text);
CREATE TABLE t3 (a int PRIMARY KEY, b text);
CREATE SCHEMA s1;
CREATE TABLE s1.t4 (a int PRIMARY KEY);
CREATE TABLE part (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part2 PARTITION OF part DEFAULT;
CREATE PUBLICATION p1 FOR TABLE t1;
CREATE PUBLICATION p2 FOR TABLE t2 (a), t3 WHERE (a > 1);
CREATE PUBLICATION p3 FOR TABLES IN SCHEMA s1;
CREATE PUBLICATION p4 FOR TABLE part WITH (publish_via_partition_root);
CREATE PUBLICATION p5 FOR TABLE part;
CREATE PUBLICATION p6 FOR TABLE t1 (a);
\c test_sub
CREATE TABLE t1 (a int PRIMARY KEY, b text);
CREATE TABLE t2 (a int PRIMARY KEY, b text);
CREATE TABLE t3 (a int PRIMARY KEY, b text);
CREATE SUBSCRIPTION s1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1;
CREATE SUBSCRIPTION s2 CONNECTION 'host=localhost dbname=test_pub application_name=two' PUBLICATION p1, p2 WITH (enabled = false, slot_name = 'other', copy_data = false);
\dRs
\dRs s1
\dRs+
\x
\dRs+ s2
\x
SELECT srrelid::regclass, srsubstate, srsublsn IS NULL FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = srsubid WHERE subname = 's2' ORDER BY 1;
SELECT subname, subenabled, subslotname, subsynccommit, subpublications, suborigin, subfailover FROM pg_subscription ORDER BY 1;
\c test_pub
SELECT slot_name, plugin, slot_type, database, temporary, active, two_phase, failover, synced FROM pg_replication_slots ORDER BY 1;
\c test_sub
-- missing things
CREATE SUBSCRIPTION s3 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION nosuch;
CREATE SUBSCRIPTION s4 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1, nosuch, nosuch2;
CREATE SUBSCRIPTION s5 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p3;
CREATE SCHEMA s1;
CREATE SUBSCRIPTION s5 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p3;
CREATE VIEW s1.t4 AS SELECT 1 AS a;
CREATE SUBSCRIPTION s5 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p3;
CREATE SUBSCRIPTION s6 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1, p6;
CREATE SUBSCRIPTION s6 CONNECTION 'host=localhost dbname=nosuch' PUBLICATION p1;
CREATE SUBSCRIPTION s6 CONNECTION 'host=localhost dbname=test_pub user=nosuch' PUBLICATION p1;
CREATE SUBSCRIPTION s1 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1;
CREATE SUBSCRIPTION s6 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1 WITH (slot_name = 's1');
CREATE SUBSCRIPTION s6 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1 WITH (slot_name = 'Bad Name');
-- a partitioned table: one name or its leaves
CREATE TABLE part (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part2 PARTITION OF part DEFAULT;
CREATE SUBSCRIPTION s7 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p4 WITH (enabled = false);
CREATE SUBSCRIPTION s8 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p5 WITH (enabled = false);
CREATE SUBSCRIPTION s9 CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p4, p5 WITH (enabled = false);
SELECT subname, srrelid::regclass, srsubstate FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = srsubid WHERE subname IN ('s7', 's8', 's9') ORDER BY 1, srrelid::regclass::text;
DROP SUBSCRIPTION s7;
DROP SUBSCRIPTION s8;
DROP SUBSCRIPTION s9;
-- without contact
CREATE SUBSCRIPTION off CONNECTION 'host=localhost dbname=wherever' PUBLICATION p1 WITH (connect = false);
CREATE SUBSCRIPTION off2 CONNECTION 'host=localhost dbname=wherever' PUBLICATION p1, p2 WITH (connect = false, slot_name = NONE);
CREATE SUBSCRIPTION noslot CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1 WITH (create_slot = false, slot_name = NONE, enabled = false);
CREATE SUBSCRIPTION own CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p1 WITH (create_slot = false, slot_name = 'nosuch_slot', enabled = false);
\dRs
DROP SUBSCRIPTION own;
ALTER SUBSCRIPTION own SET (slot_name = NONE);
DROP SUBSCRIPTION own;
DROP SUBSCRIPTION off;
ALTER SUBSCRIPTION off SET (slot_name = NONE);
DROP SUBSCRIPTION off;
DROP SUBSCRIPTION off2;
ALTER SUBSCRIPTION noslot ENABLE;
ALTER SUBSCRIPTION noslot REFRESH PUBLICATION;
ALTER SUBSCRIPTION noslot SET (slot_name = 'later');
ALTER SUBSCRIPTION noslot ENABLE;
ALTER SUBSCRIPTION noslot SET (slot_name = NONE);
ALTER SUBSCRIPTION noslot DISABLE;
ALTER SUBSCRIPTION noslot SET (slot_name = NONE);
DROP SUBSCRIPTION noslot;
-- changing one
ALTER SUBSCRIPTION s1 SET (synchronous_commit = local, binary, streaming = parallel, disable_on_error = true, run_as_owner, origin = none);
\dRs+ s1
ALTER SUBSCRIPTION s1 SET (streaming = on, origin = 'any', binary = false);
ALTER SUBSCRIPTION s1 SET PUBLICATION p1, p2;
SELECT srrelid::regclass FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = srsubid WHERE subname = 's1' ORDER BY srrelid::regclass::text;
ALTER SUBSCRIPTION s1 DROP PUBLICATION p1;
ALTER SUBSCRIPTION s1 ADD PUBLICATION p1 WITH (refresh = false);
SELECT srrelid::regclass FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = srsubid WHERE subname = 's1' ORDER BY srrelid::regclass::text;
ALTER SUBSCRIPTION s1 REFRESH PUBLICATION WITH (copy_data = false);
ALTER SUBSCRIPTION s1 ADD PUBLICATION nosuch;
ALTER SUBSCRIPTION s1 DROP PUBLICATION nosuch WITH (refresh = false);
ALTER SUBSCRIPTION s1 DISABLE;
ALTER SUBSCRIPTION s1 REFRESH PUBLICATION;
ALTER SUBSCRIPTION s1 SET PUBLICATION p1;
ALTER SUBSCRIPTION s1 SET PUBLICATION p1 WITH (refresh = false);
ALTER SUBSCRIPTION s1 ENABLE;
ALTER SUBSCRIPTION s1 CONNECTION 'host=localhost dbname=test_pub application_name=x';
ALTER SUBSCRIPTION s1 SKIP (lsn = '0/12345');
SELECT subskiplsn FROM pg_subscription WHERE subname = 's1';
ALTER SUBSCRIPTION s1 SKIP (lsn = NONE);
SELECT subskiplsn FROM pg_subscription WHERE subname = 's1';
ALTER SUBSCRIPTION s1 RENAME TO s1_new;
SELECT subname, subslotname FROM pg_subscription ORDER BY 1;
COMMENT ON SUBSCRIPTION s1_new IS 'renamed';
SELECT obj_description(oid, 'pg_subscription') FROM pg_subscription WHERE subname = 's1_new';
BEGIN;
DROP SUBSCRIPTION s1_new;
ROLLBACK;
BEGIN;
ALTER SUBSCRIPTION s1_new REFRESH PUBLICATION;
ROLLBACK;
BEGIN;
ALTER SUBSCRIPTION s1_new SET PUBLICATION p2;
ROLLBACK;
BEGIN;
ALTER SUBSCRIPTION s1_new SET PUBLICATION p1 WITH (refresh = false);
ALTER SUBSCRIPTION s1_new DISABLE;
COMMIT;
ALTER SUBSCRIPTION s1_new SET (failover = true);
ALTER SUBSCRIPTION s1_new ENABLE;
ALTER SUBSCRIPTION s1_new SET (failover = false);
\c test_pub
SELECT slot_name, failover FROM pg_replication_slots ORDER BY 1;
DROP PUBLICATION p2;
\c test_sub
DROP SUBSCRIPTION s1_new;
DROP SUBSCRIPTION IF EXISTS s1_new;
DROP SUBSCRIPTION s2;
DROP SUBSCRIPTION s3;
DROP SUBSCRIPTION s4;
\dRs
\c test_pub
SELECT slot_name FROM pg_replication_slots;
