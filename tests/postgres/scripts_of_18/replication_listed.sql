-- the lists of publications and subscriptions
CREATE TABLE a (x int PRIMARY KEY, y int, g int GENERATED ALWAYS AS (x * 2) STORED);
CREATE SCHEMA s;
CREATE PUBLICATION p1 FOR TABLE a (x, g), TABLES IN SCHEMA s;
CREATE PUBLICATION p1 FOR TABLE a (x, g);
CREATE PUBLICATION p2 FOR ALL TABLES WITH (publish = 'insert', publish_generated_columns = stored);
CREATE PUBLICATION p3 FOR TABLES IN SCHEMA s WITH (publish_via_partition_root);
CREATE PUBLICATION p4;
\dRp
\dRp+
\dRp+ p1
\dRp
\dRp p1
\dRp+ p1
\dRs
\dRs+
CREATE SUBSCRIPTION s1 CONNECTION 'dbname=test_sub' PUBLICATION p1 WITH (connect = false);
CREATE SUBSCRIPTION s2 CONNECTION 'dbname=test_sub' PUBLICATION p1, p2 WITH (connect = false, streaming = off, two_phase, binary, origin = none, disable_on_error, password_required = false, run_as_owner, failover, slot_name = 'x', synchronous_commit = local);
\dRs
\dRs+
\dRs+ s1
\x
\dRs+
\dRp+
ALTER SUBSCRIPTION s1 SKIP (lsn = '0/1234');
\dRs+ s1
ALTER SUBSCRIPTION s1 SET (slot_name = NONE);
ALTER SUBSCRIPTION s2 SET (slot_name = NONE);
DROP SUBSCRIPTION s1;
DROP SUBSCRIPTION s2;
