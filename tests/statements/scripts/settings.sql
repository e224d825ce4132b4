-- SET, SHOW, RESET: units, ranges, words, contexts, and what transactions do to them
CREATE ROLE sa_x;
CREATE ROLE sa_y LOGIN;
GRANT sa_x TO sa_y;

SET ROLE sa_x;
SHOW role;
SHOW session_authorization;

SET SESSION AUTHORIZATION sa_y;
SHOW role;
SELECT current_user, session_user;

SET ROLE sa_x;
SELECT current_user, session_user;
SHOW role;

RESET SESSION AUTHORIZATION;
SHOW role;
SELECT current_user, session_user;

SET ROLE sa_x;
SET SESSION AUTHORIZATION DEFAULT;
SHOW role;
SELECT current_user;

SET ROLE sa_x;
RESET ALL;
SHOW role;
SELECT current_user;

RESET ROLE;

SET SESSION AUTHORIZATION sa_y;
SET SESSION AUTHORIZATION postgres;
SELECT current_user;

SET SESSION AUTHORIZATION sa_y;
SET ROLE postgres;
SET ROLE nosuch;
SET ROLE none;
SHOW role;
SHOW is_superuser;

SET log_statement = 'all';
SET session_replication_role='replica';


SET wal_level = 'logical';
SET wal_keep_size = 10;
SET server_version = 1;
SET log_connections = on;
SET ignore_system_indexes = on;

RESET SESSION AUTHORIZATION;

SET log_connections = on;
SET ignore_system_indexes = on;
SET session_replication_role='replica';
RESET session_replication_role;

SET nosuch = 1;
SET a.b = 1;
SHOW a.b;
SHOW A.B;
SET "a.b c" = 1;
SET a.1 = 2;
SET "x.1"=3;
SHOW x.y;
RESET x.y;
SET x.y TO DEFAULT;
show x.y;

SET work_mem = '1GB';
SHOW work_mem;
SET work_mem = 64;
SET work_mem = 100;
SHOW work_mem;
SET work_mem='2 parsecs';
SET work_mem = 1;
SET work_mem='abc';
SET work_mem = '1.5MB';
SHOW work_mem;
SET work_mem='';
SET work_mem='99999999999999';
SET work_mem='0x100';
SHOW work_mem;
SET work_mem='0o12';
set work_mem='1e3';
show work_mem;

SET statement_timeout='1.5s';
SHOW statement_timeout;
SET statement_timeout = '1h';
SHOW statement_timeout;
SET statement_timeout='-1';
reset statement_timeout;
show statement_timeout;

SET client_min_messages = foo;
SET client_min_messages = 'debug';
SHOW client_min_messages;
SET client_min_messages = info;
SHOW client_min_messages;
DROP TABLE IF EXISTS nosuch;
SET client_min_messages = 'NOTICE';
SHOW client_min_messages;

SET enable_seqscan = maybe;
SET enable_seqscan = tr;
SHOW enable_seqscan;
SET enable_seqscan = o;
SET enable_seqscan TO off;
SHOW enable_seqscan;
SET enable_seqscan TO DEFAULT;

SET datestyle = 'german';
SHOW datestyle;
SET datestyle = 'ISO';
SHOW datestyle;
SET datestyle TO iso, dmy;
SHOW datestyle;
SET datestyle = 'foo';
SET datestyle = 'iso, sql';
SET datestyle = postgres, european;
SHOW datestyle;
SET datestyle=default;
SHOW datestyle;
SET datestyle = ',';

SET timezone = 'nosuch';
SET timezone = 'europe/berlin';
SHOW timezone;
SET TIME ZONE -3;
SHOW timezone;
SET TIME ZONE 5.5;
SHOW timezone;
SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE;
SHOW timezone;
SET TIME ZONE 'PST8PDT';
SHOW timezone;
SET TIME ZONE DEFAULT;
SET timezone = '<+03>-03';
SHOW timezone;
SHOW timezone;
SET timezone='200';
SET timezone = 'UTC';
show timezone;
SET timezone='utc';
show timezone;
SET timezone='+02:30';
show timezone;
set timezone='foo5';
show timezone;
set timezone to '';

SET search_path = a, "B c", public;
SHOW search_path;
SET search_path = '';
SHOW search_path;
SET search_path = 'a, b';
SHOW search_path;
SET search_path = 1;
SHOW search_path;
SET search_path TO DEFAULT;
SHOW search_path;
SELECT set_config('search_path', 'a b', false);
SELECT set_config('search_path', '"a', false);

SET search_path FROM CURRENT;

SET client_encoding = 'utf-8';
SHOW client_encoding;
SET client_encoding = 'nosuch';
SET NAMES 'utf8';
SHOW client_encoding;
SET client_encoding = 'UNICODE';
SHOW client_encoding;
SET client_encoding TO DEFAULT;
SET client_encoding='SQL_ASCII';
SHOW client_encoding;
RESET client_encoding;

SET work_mem = 1, 2;
SET datestyle = 1;
SET application_name = 'héé';
SHOW application_name;
SET application_name='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';
show application_name;

SET extra_float_digits = 4;
SET extra_float_digits=3;
SHOW extra_float_digits;
SET seed=0.5;
SHOW seed;
RESET seed;
SET seed = 2;
SET geqo_seed = '0.25';
SHOW geqo_seed;
SET geqo_seed=2;
SET seq_page_cost='1e10';
show seq_page_cost;
SET seq_page_cost = -1;
set vacuum_cost_delay='0.5ms';
show vacuum_cost_delay;
set vacuum_cost_delay='1500us';
show vacuum_cost_delay;
SET vacuum_cost_delay = '200ms';

RESET transaction_isolation;
RESET nosuch;
SHOW nosuch;
SHOW "Nosuch";
SHOW WORK_MEM;
SHOW "TimeZone";
SHOW TIME ZONE;
SHOW SESSION AUTHORIZATION;
SHOW TRANSACTION ISOLATION LEVEL;

SET default_transaction_isolation = 'serializable';
SHOW transaction_isolation;
BEGIN;
SHOW transaction_isolation;
SET default_transaction_isolation = 'read committed';
SHOW transaction_isolation;
COMMIT;
SHOW transaction_isolation;
RESET default_transaction_isolation;

BEGIN;
SELECT 1;
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
ROLLBACK;
BEGIN;
SAVEPOINT a;
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
ROLLBACK;
BEGIN READ ONLY;
SELECT 1;
SET TRANSACTION READ WRITE;
ROLLBACK;
BEGIN READ ONLY;
SAVEPOINT a;
SET TRANSACTION READ WRITE;
ROLLBACK;
BEGIN;
SELECT 1;
SET TRANSACTION DEFERRABLE;
ROLLBACK;
BEGIN;
SAVEPOINT s;
SET TRANSACTION DEFERRABLE;
ROLLBACK;
BEGIN;
SAVEPOINT a;
SET TRANSACTION READ ONLY;
SHOW transaction_read_only;
ROLLBACK TO a;
SHOW transaction_read_only;
ROLLBACK;

SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, ISOLATION LEVEL REPEATABLE READ;
SHOW default_transaction_read_only;
SHOW default_transaction_isolation;
CREATE TABLE xx(a int);
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE;
RESET ALL;
BEGIN;
SET TRANSACTION SNAPSHOT 'foo';
ROLLBACK;
SET TRANSACTION SNAPSHOT 'foo';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET TRANSACTION SNAPSHOT 'foo';
ROLLBACK;

BEGIN;
SET LOCAL work_mem='8MB';
SET work_mem='16MB';
SHOW work_mem;
COMMIT;
SHOW work_mem;
BEGIN;
SET work_mem='32MB';
SET LOCAL work_mem='8MB';
SHOW work_mem;
COMMIT;
SHOW work_mem;
BEGIN;
SET LOCAL work_mem='1MB';
RESET work_mem;
SHOW work_mem;
COMMIT;
SHOW work_mem;
SET work_mem='5MB';
BEGIN;
SET LOCAL work_mem TO DEFAULT;
SHOW work_mem;
ROLLBACK;
SHOW work_mem;
RESET work_mem;

BEGIN;
SAVEPOINT a;
SET LOCAL work_mem='3MB';
RELEASE a;
SHOW work_mem;
SAVEPOINT b;
SET work_mem='6MB';
ROLLBACK TO b;
SHOW work_mem;
COMMIT;
SHOW work_mem;

BEGIN;
SET work_mem='9MB';
SELECT 1/0;
SHOW work_mem;
ROLLBACK;
SHOW work_mem;
BEGIN;
SAVEPOINT a;
SET work_mem='9MB';
SELECT 1/0;
ROLLBACK TO a;
show work_mem;
ROLLBACK;

BEGIN;
PREPARE TRANSACTION 'x';
SELECT 1;
BEGIN;
SELECT 1/0;
PREPARE TRANSACTION 'y';
COMMIT PREPARED 'x';
ROLLBACK PREPARED 'x';

DISCARD ALL;
DISCARD PLANS;
DISCARD TEMP;
DISCARD SEQUENCES;
BEGIN;
DISCARD ALL;
ROLLBACK;

SET synchronous_commit = 1;
SHOW synchronous_commit;
SET xmloption='foo';
SET bytea_output='x';
SET intervalstyle='iso_8601';
SHOW IntervalStyle;
SET default_tablespace='foo';
SET temp_tablespaces='a';
SET default_table_access_method = 'foo';
SET default_text_search_config='foo';
SET password_encryption='foo';
SET password_encryption=md5;
SET row_security=off;
show row_security;
SET check_function_bodies=off;
SET createrole_self_grant='set';
SHOW createrole_self_grant;
SET createrole_self_grant='foo';
SET createrole_self_grant='set, inherit';
SET temp_buffers='1MB';
SET default_with_oids=on;
SET default_with_oids=off;
SET ssl_renegotiation_limit=1;
show ssl_renegotiation_limit;
SET restrict_nonsystem_relation_kind = 'view,foo';
SET backtrace_functions='a b';
SET wal_consistency_checking='foo';
SET wal_compression = on;
SHOW wal_compression;
SET wal_compression='pglz';
SHOW wal_compression;
SET client_connection_check_interval=1;
SET debug_discard_caches=1;
SET log_destination='foo';
SET effective_io_concurrency=1001;
SET huge_pages=on;

RESET ALL;
DROP ROLE sa_x;
DROP ROLE sa_y;

-- a session begins with what was set for its role and database
CREATE ROLE starter LOGIN;
ALTER ROLE ALL SET work_mem = '1MB';
ALTER DATABASE test_pub SET work_mem = '2MB';
ALTER ROLE starter SET work_mem = '3MB';
ALTER ROLE starter IN DATABASE test_pub SET statement_timeout = '5s';
ALTER ROLE starter SET my.mark = 'x';
ALTER ROLE postgres SET client_min_messages = 'warning';
\c - starter
SHOW work_mem;
SHOW statement_timeout;
SHOW my.mark;
SET work_mem = '9MB';
RESET work_mem;
SHOW work_mem;
\c - postgres
SHOW work_mem;
SHOW client_min_messages;
DROP ROLE IF EXISTS nobody;
ALTER ROLE postgres RESET ALL;
ALTER ROLE ALL RESET ALL;
ALTER DATABASE test_pub RESET ALL;
\c -
SHOW work_mem;
SELECT name, setting, unit, context, vartype, source, min_val, max_val, enumvals, boot_val, reset_val FROM pg_settings WHERE name IN ('work_mem', 'client_min_messages', 'enable_seqscan', 'seq_page_cost', 'search_path') ORDER BY 1;
SELECT current_setting('work_mem'), current_setting('no.such', true), set_config('work_mem', '7MB', false), current_setting('work_mem');
SELECT set_config('my.other', 'y', true);
SHOW my.other;
SELECT current_setting('nosuch');
-- who does not own, does not see
SET ROLE starter;
SHOW data_directory;
