-- slots and origins by function
SELECT slot_name FROM pg_create_logical_replication_slot('one', 'pgoutput');
SELECT slot_name FROM pg_create_logical_replication_slot('two', 'pgoutput', false, true, true);
SELECT slot_name FROM pg_create_logical_replication_slot('one', 'pgoutput');
SELECT slot_name FROM pg_create_logical_replication_slot('', 'pgoutput');
SELECT slot_name FROM pg_create_logical_replication_slot('One', 'pgoutput');
SELECT slot_name FROM pg_create_logical_replication_slot('a-b', 'pgoutput');
SELECT slot_name FROM pg_create_logical_replication_slot('x1234567890123456789012345678901234567890123456789012345678901234567890', 'pgoutput');
SELECT slot_name FROM pg_create_logical_replication_slot('nosuch', 'nosuch_plugin');
SELECT slot_name FROM pg_create_logical_replication_slot('three', 'pgoutput', temporary => true, failover => true);
SELECT slot_name FROM pg_create_logical_replication_slot(NULL, 'pgoutput');
SELECT slot_name FROM pg_create_logical_replication_slot('three');
SELECT slot_name, plugin, slot_type, database, temporary, active, active_pid, wal_status, safe_wal_size, two_phase, conflicting, invalidation_reason, failover, synced FROM pg_replication_slots ORDER BY 1;
SELECT confirmed_flush_lsn >= restart_lsn FROM pg_replication_slots ORDER BY slot_name;
SELECT pg_drop_replication_slot('nosuch');
SELECT pg_drop_replication_slot('One');
SELECT pg_drop_replication_slot('two');
SELECT pg_replication_slot_advance('nosuch', '0/1');
SELECT pg_replication_slot_advance('one', '0/0');
SELECT pg_replication_slot_advance('one', 'x');
SELECT slot_name FROM pg_replication_slot_advance('one', pg_current_wal_lsn());
SELECT confirmed_flush_lsn <= pg_current_wal_lsn() FROM pg_replication_slots WHERE slot_name = 'one';
-- slots outlive their transaction, and are not made in one that has written
BEGIN;
SELECT slot_name FROM pg_create_logical_replication_slot('stays', 'pgoutput');
ROLLBACK;
SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'stays';
BEGIN;
SELECT pg_drop_replication_slot('stays');
ROLLBACK;
SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'stays';
BEGIN;
CREATE TABLE w(a int);
SELECT slot_name FROM pg_create_logical_replication_slot('never', 'pgoutput');
ROLLBACK;
-- the slots of a database go with it
CREATE DATABASE other;
\c other
SELECT slot_name FROM pg_create_logical_replication_slot('elsewhere', 'pgoutput');
\c test_pub
SELECT slot_name, database FROM pg_replication_slots ORDER BY 1;
SELECT slot_name FROM pg_replication_slot_advance('elsewhere', pg_current_wal_lsn());
SELECT pg_drop_replication_slot('elsewhere');
\c other
SELECT slot_name FROM pg_create_logical_replication_slot('elsewhere', 'pgoutput');
\c test_pub
DROP DATABASE other;
SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'elsewhere';
-- as many as there may be
SELECT slot_name FROM generate_series(1, 9) i, pg_create_logical_replication_slot('many_' || i, 'pgoutput');
SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'many%';
SELECT slot_name FROM pg_create_logical_replication_slot('many_1', 'pgoutput');
SELECT slot_name FROM pg_create_logical_replication_slot('too_many', 'pgoutput');
SELECT count(pg_drop_replication_slot(slot_name)::text) FROM pg_replication_slots WHERE slot_name LIKE 'many%';
SELECT slot_name FROM pg_replication_slots ORDER BY 1;
-- permissions
CREATE ROLE plain LOGIN;
CREATE ROLE rep LOGIN REPLICATION;
SET ROLE plain;
SELECT slot_name FROM pg_create_logical_replication_slot('nosuch', 'pgoutput');
SELECT pg_drop_replication_slot('nosuch');
SELECT pg_replication_slot_advance('nosuch', '0/1');
SET ROLE rep;
SELECT slot_name FROM pg_create_logical_replication_slot('mine', 'pgoutput');
SELECT pg_drop_replication_slot('mine');
RESET ROLE;
-- origins
SELECT pg_replication_origin_create('o1');
SELECT pg_replication_origin_create('o2');
SELECT pg_replication_origin_create('o1');
SELECT pg_replication_origin_create('pg_mine');
SELECT pg_replication_origin_create('None');
SELECT pg_replication_origin_create('any');
SELECT pg_replication_origin_create(NULL);
SELECT pg_replication_origin_oid('o2'), pg_replication_origin_oid('nosuch');
SELECT pg_replication_origin_progress('o1', true);
SELECT pg_replication_origin_progress('nosuch', true);
SELECT pg_replication_origin_advance('o1', '0/AB');
SELECT pg_replication_origin_advance('nosuch', '0/AB');
SELECT pg_replication_origin_progress('o1', false);
SELECT * FROM pg_replication_origin_status;
SELECT pg_replication_origin_advance('o1', '0/12');
SELECT pg_replication_origin_progress('o1', false);
SELECT * FROM pg_replication_origin ORDER BY roident;
SELECT pg_replication_origin_session_is_setup();
SELECT pg_replication_origin_session_progress(true);
SELECT pg_replication_origin_xact_setup('0/1', now());
SELECT pg_replication_origin_session_reset();
SELECT pg_replication_origin_drop('o1');
SELECT pg_replication_origin_drop('o1');
SELECT pg_replication_origin_create('o3');
SELECT pg_replication_origin_drop('o2'), pg_replication_origin_drop('o3');
SELECT * FROM pg_replication_origin_status;
SET ROLE rep;
SELECT pg_replication_origin_create('o3');
SELECT pg_replication_origin_drop('o3');
SELECT pg_replication_origin_oid('o3');
SELECT pg_replication_origin_progress('o3', true);
SELECT pg_replication_origin_advance('o3', '0/1');
SELECT pg_replication_origin_session_is_setup();
SELECT * FROM pg_replication_origin_status;
SELECT * FROM pg_replication_origin;
RESET ROLE;
-- what is left goes
SELECT pg_drop_replication_slot('one');
SELECT slot_name FROM pg_replication_slots ORDER BY 1;
