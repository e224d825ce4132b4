-- Statements that cannot be rolled back are refused in functions, whatever their language.
\set SHOW_CONTEXT always
CREATE FUNCTION by_sql() RETURNS void LANGUAGE sql AS 'VACUUM';
CREATE FUNCTION second() RETURNS int LANGUAGE sql AS 'SELECT 1; DISCARD ALL; SELECT 2';
CREATE FUNCTION nested() RETURNS void LANGUAGE sql AS 'SELECT by_sql()';
CREATE PROCEDURE procedure() LANGUAGE sql AS 'CREATE DATABASE never';
CREATE FUNCTION dynamic(command text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE command; END';
CREATE TABLE t (a int);
CREATE INDEX t_a ON t (a);
SELECT by_sql();
\echo :LAST_ERROR_SQLSTATE
SELECT by_sql() FROM generate_series(1, 2);
SELECT second();
SELECT nested();
CALL procedure();
DO 'BEGIN PERFORM by_sql(); END';
BEGIN;
SELECT by_sql();
ROLLBACK;
SELECT dynamic('ALTER SYSTEM SET work_mem = ''4MB''');
SELECT dynamic('DROP DATABASE never');
SELECT dynamic('CREATE INDEX CONCURRENTLY t_b ON t (a)');
SELECT dynamic('DROP INDEX CONCURRENTLY t_a');
SELECT dynamic('REINDEX INDEX CONCURRENTLY t_a');
SELECT dynamic('COMMIT PREPARED ''never''');
-- Of a subscription's statements those with a refresh, and those that make or drop a slot.
SELECT dynamic('CREATE SUBSCRIPTION s CONNECTION ''dbname=x'' PUBLICATION p');
SELECT dynamic('CREATE SUBSCRIPTION s CONNECTION ''dbname=x'' PUBLICATION p WITH (connect = false, slot_name = NONE)');
SELECT dynamic('ALTER SUBSCRIPTION s REFRESH PUBLICATION');
ALTER SUBSCRIPTION s SET (slot_name = never);
ALTER SUBSCRIPTION s ENABLE;
CREATE FUNCTION refresh() RETURNS void LANGUAGE sql AS 'ALTER SUBSCRIPTION s REFRESH PUBLICATION';
CREATE PROCEDURE refreshing() LANGUAGE plpgsql AS 'BEGIN ALTER SUBSCRIPTION s REFRESH PUBLICATION; END';
SELECT refresh();
CALL refreshing();
SELECT dynamic('ALTER SUBSCRIPTION s SET PUBLICATION q');
SELECT dynamic('ALTER SUBSCRIPTION s ADD PUBLICATION q');
SELECT dynamic('ALTER SUBSCRIPTION s ADD PUBLICATION q WITH (refresh = false)');
SELECT dynamic('ALTER SUBSCRIPTION s DROP PUBLICATION q');
ALTER SUBSCRIPTION s DISABLE;
SELECT dynamic('ALTER SUBSCRIPTION s SET (failover)');
SELECT dynamic('DROP SUBSCRIPTION s');
BEGIN;
CALL refreshing();
ROLLBACK;
ALTER SUBSCRIPTION s SET (slot_name = NONE);
SELECT dynamic('DROP SUBSCRIPTION s');
-- What a function in SQL calls is called by a function.
CREATE PROCEDURE ends() LANGUAGE plpgsql AS 'BEGIN COMMIT; END';
CREATE PROCEDURE calls() LANGUAGE sql AS 'CALL ends()';
CREATE PROCEDURE does() LANGUAGE sql AS 'DO ''BEGIN COMMIT; END''';
CALL calls();
CALL does();
CREATE FUNCTION place() RETURNS text LANGUAGE plpgsql AS
  'DECLARE found text; BEGIN RAISE NOTICE ''here''; GET DIAGNOSTICS found = PG_CONTEXT; RETURN found; END';
CREATE FUNCTION rows() RETURNS SETOF text LANGUAGE sql AS 'SELECT place() UNION ALL SELECT ''end''';
SELECT rows();
CREATE PROCEDURE inserts() LANGUAGE sql AS 'TRUNCATE t; INSERT INTO t SELECT length(place())';
CALL inserts();
TABLE t;
