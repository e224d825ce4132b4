CREATE TABLE t (a int PRIMARY KEY);
CREATE TABLE u (a int PRIMARY KEY);
INSERT INTO t SELECT generate_series(1, 100);
INSERT INTO u VALUES (1);
CREATE PUBLICATION pub FOR TABLE t, u;
\c test_sub
CREATE TABLE t (a int PRIMARY KEY);
CREATE TABLE u (a int PRIMARY KEY);
INSERT INTO u VALUES (1);
CREATE SUBSCRIPTION sub CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pub;
-- One table is ready; the other cannot be copied, because a row is there already.
SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1;
SELECT subname, apply_error_count, sync_error_count > 0 AS copies_failed FROM pg_stat_subscription_stats;
-- Nobody works for a subscription at this moment: a shell lets it catch up between two statements.
SELECT subname, worker_type, pid FROM pg_stat_subscription;
-- The row is removed: the copy succeeds by itself.
DELETE FROM u;
SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1;
\c test_pub
INSERT INTO t VALUES (101);
\c test_sub
-- How far the subscriber has come, by its own account and by the publisher's.
SELECT external_id = 'pg_' || s.oid AS ours, remote_lsn IS NOT NULL AS has_position
  FROM pg_replication_origin_status, pg_subscription s;
\c test_pub
SELECT slot_name, confirmed_flush_lsn = pg_current_wal_lsn() AS has_everything, wal_status, active
  FROM pg_replication_slots;
-- What has not been sent yet is kept for it.
INSERT INTO t VALUES (102), (103);
DELETE FROM t WHERE a < 10;
SELECT slot_name, pg_current_wal_lsn() - confirmed_flush_lsn AS behind FROM pg_replication_slots;
