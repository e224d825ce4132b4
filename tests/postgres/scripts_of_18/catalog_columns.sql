-- the columns of system catalogs and views
\pset format unaligned
\pset tuples_only on
SELECT c.oid::regclass, c.relnatts, string_agg(format('%s %s %s', attnum, attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
FROM pg_class c JOIN pg_attribute ON attrelid = c.oid
WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') AND attnum > 0 AND relname !~ '^pgrepl_|^pg_publication_sequences$'
GROUP BY c.oid, relname, relnatts ORDER BY relname;
SELECT total_vacuum_time, total_autovacuum_time, total_analyze_time, total_autoanalyze_time FROM pg_stat_user_tables;
SELECT relallvisible, relallfrozen FROM pg_class WHERE relname = 'pg_class' AND relallfrozen < 0;
SELECT parallel_workers_to_launch, parallel_workers_launched FROM pg_stat_database WHERE datname = current_database();
SELECT attcacheoff FROM pg_attribute;
SELECT * FROM pg_aios;
SELECT rolname FROM pg_roles ORDER BY 1;
SELECT oid, rolname FROM pg_authid WHERE rolname = 'pg_signal_autovacuum_worker';
CREATE TABLE t (a int);
VACUUM t;
SELECT total_vacuum_time > 0, total_autovacuum_time, vacuum_count FROM pg_stat_user_tables;
SET ROLE pg_signal_autovacuum_worker;
SELECT current_user;
RESET ROLE;
CREATE ROLE r;
GRANT pg_signal_autovacuum_worker TO r;
SELECT roleid::regrole, member::regrole FROM pg_auth_members WHERE member = 'r'::regrole;
DROP ROLE r;
