-- prepared transactions, one session
ALTER SYSTEM SET max_prepared_transactions = 10;
\c test_pub
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE TABLE pt (a int PRIMARY KEY, b text);
PREPARE TRANSACTION 'outside';
BEGIN;
SELECT 1 / 0;
PREPARE TRANSACTION 'failed';
BEGIN;
PREPARE TRANSACTION 'nothing';
SELECT gid, owner, database, transaction IS NULL, prepared <= now() FROM pg_prepared_xacts;
ROLLBACK PREPARED 'nothing';
BEGIN;
INSERT INTO pt VALUES (1, 'one');
PREPARE TRANSACTION 'x';
TABLE pt;
BEGIN;
INSERT INTO pt VALUES (2, 'two');
PREPARE TRANSACTION 'x';
COMMIT;
BEGIN;
COMMIT PREPARED 'x';
ROLLBACK;
BEGIN;
ROLLBACK PREPARED 'x';
ROLLBACK;
SELECT 1\; COMMIT PREPARED 'x';
COMMIT PREPARED 'nosuch';
ROLLBACK PREPARED 'nosuch';
-- what it holds
SELECT pid IS NULL AS no_process, locktype, mode, granted, relation::regclass, fastpath
FROM pg_locks l WHERE locktype IN ('transactionid', 'relation') AND pid IS NULL ORDER BY 2, 3;
SET lock_timeout = 50;
INSERT INTO pt VALUES (1, 'another');
ALTER TABLE pt ADD c int;
DROP TABLE pt;
RESET lock_timeout;
INSERT INTO pt VALUES (3, 'three');
-- of whom and where
\c test_sub
COMMIT PREPARED 'x';
ROLLBACK PREPARED 'x';
CREATE ROLE pt_other LOGIN;
DROP DATABASE test_pub;
\c test_pub pt_other
COMMIT PREPARED 'x';
ROLLBACK PREPARED 'x';
SELECT gid, owner FROM pg_prepared_xacts;
BEGIN;
PREPARE TRANSACTION 'mine';
COMMIT PREPARED 'mine';
\c - postgres
DROP ROLE pt_other;
COMMIT PREPARED 'x';
TABLE pt ORDER BY a;
-- what cannot be prepared
BEGIN;
CREATE TEMPORARY TABLE tt (a int);
PREPARE TRANSACTION 'temporary';
CREATE TEMPORARY TABLE tt (a int);
BEGIN;
TABLE tt;
PREPARE TRANSACTION 'temporary';
BEGIN;
INSERT INTO tt VALUES (1);
SAVEPOINT s;
PREPARE TRANSACTION 'temporary';
SELECT repeat('a', 199) AS longest, repeat('a', 200) AS too_long \gset
BEGIN;
PREPARE TRANSACTION :'longest';
ROLLBACK PREPARED :'longest';
BEGIN;
PREPARE TRANSACTION :'too_long';
ROLLBACK PREPARED :'too_long';
-- savepoints, all kinds of changes
BEGIN;
INSERT INTO pt VALUES (4, 'four');
SAVEPOINT s;
INSERT INTO pt VALUES (5, 'five');
ROLLBACK TO s;
SAVEPOINT s;
INSERT INTO pt SELECT g, 'many' FROM generate_series(6, 9) g;
UPDATE pt SET b = b || '!' WHERE a IN (1, 6);
DELETE FROM pt WHERE a IN (3, 7);
UPDATE pt SET a = 70 WHERE a = 8;
PREPARE TRANSACTION 'changes';
TABLE pt ORDER BY a;
\c test_pub
TABLE pt ORDER BY a;
COMMIT PREPARED 'changes';
TABLE pt ORDER BY a;
BEGIN;
DELETE FROM pt;
PREPARE TRANSACTION '';
ROLLBACK PREPARED '';
SELECT count(*) FROM pt;
-- several at a time
BEGIN;
UPDATE pt SET b = 'first' WHERE a = 1;
PREPARE TRANSACTION 'p1';
BEGIN;
UPDATE pt SET b = 'second' WHERE a = 4;
PREPARE TRANSACTION 'p2';
INSERT INTO pt VALUES (2, 'between');
SELECT gid FROM pg_prepared_xacts ORDER BY transaction::text::int;
COMMIT PREPARED 'p2';
ROLLBACK PREPARED 'p1';
TABLE pt ORDER BY a;
-- an implicit block, a read-only session
SELECT 1\; PREPARE TRANSACTION 'implicit';
COMMIT PREPARED 'implicit';
SET default_transaction_read_only = on;
BEGIN;
PREPARE TRANSACTION 'readonly';
COMMIT PREPARED 'readonly';
RESET default_transaction_read_only;
-- settings and cursors of the session
BEGIN;
SET search_path = nowhere;
SET LOCAL work_mem = '1MB';
PREPARE TRANSACTION 'settings';
SHOW search_path;
ROLLBACK PREPARED 'settings';
SHOW search_path;
RESET search_path;
-- keys that are looked at when it is prepared
CREATE TABLE parent (a int PRIMARY KEY);
CREATE TABLE child (a int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO child VALUES (1);
PREPARE TRANSACTION 'orphan';
SELECT count(*) FROM pg_prepared_xacts;
BEGIN;
INSERT INTO child VALUES (1);
INSERT INTO parent VALUES (1);
PREPARE TRANSACTION 'family';
COMMIT PREPARED 'family';
TABLE child;
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE pt SET b = 'serial' WHERE a = 1;
PREPARE TRANSACTION 'serial';
COMMIT PREPARED 'serial';
SELECT b FROM pt WHERE a = 1;
BEGIN;
SELECT a FROM pt WHERE a = 1 FOR UPDATE;
PREPARE TRANSACTION 'locked';
SELECT a FROM pt WHERE a = 1 FOR UPDATE NOWAIT;
SELECT a FROM pt ORDER BY a LIMIT 2 FOR UPDATE SKIP LOCKED;
ROLLBACK PREPARED 'locked';
SELECT a FROM pt WHERE a = 1 FOR UPDATE NOWAIT;
\d pg_prepared_xacts
-- all kinds of values
CREATE TABLE kinds (a int PRIMARY KEY, b bytea, c numeric, d numeric(8, 3), e float8, f float4, g timestamptz, h date, i interval, j jsonb, k text[], l uuid, m boolean, n bigint, o bpchar(4), p int4range);
BEGIN;
INSERT INTO kinds VALUES (1, '\x00ff27', 'NaN', 12345.678, 'Infinity', 1.1, '2024-02-29 12:00:00.123456+00', '0044-03-15 BC', '1 mon 2 days', '{"a": [1, null, "ü"]}', '{a,NULL,"b,c"}', '00000000-0000-0000-0000-0000000000ff', true, 9223372036854775807, 'ab', '[1,5)');
INSERT INTO kinds (a) VALUES (2);
PREPARE TRANSACTION 'kinds';
COMMIT PREPARED 'kinds';
SET timezone = 'UTC';
\x
SELECT * FROM kinds ORDER BY a;
\x
ALTER SYSTEM RESET max_prepared_transactions;
