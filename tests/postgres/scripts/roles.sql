-- roles, membership, privileges and who may do what with publications
CREATE ROLE alice LOGIN;
CREATE USER bob;
CREATE GROUP readers;
CREATE ROLE boss SUPERUSER CREATEDB CREATEROLE LOGIN REPLICATION BYPASSRLS CONNECTION LIMIT 5 VALID UNTIL '2030-01-01';
CREATE ROLE member1 IN ROLE readers;
CREATE ROLE owner1 ROLE member1 ADMIN alice;
CREATE ROLE alice;
CREATE ROLE pg_mine;
CREATE ROLE "public";
CREATE ROLE none;
CREATE ROLE current_user;
CREATE ROLE x SUPERUSER NOSUPERUSER;
CREATE ROLE x LOGIN LOGIN;
CREATE ROLE x IN ROLE nosuch;
CREATE ROLE x CONNECTION LIMIT -2;
CREATE ROLE x VALID UNTIL 'nonsense';
CREATE ROLE x foo;
\du
\du alice
\dg readers
SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1;
GRANT readers TO alice, bob;
GRANT readers TO alice;
GRANT readers TO nosuch;
GRANT nosuch TO alice;
GRANT alice TO alice;
GRANT readers TO owner1;
GRANT owner1 TO readers;
REVOKE readers FROM bob;
REVOKE readers FROM bob;
GRANT readers TO bob WITH ADMIN OPTION;
GRANT readers TO bob WITH INHERIT FALSE, SET TRUE;
\drg
ALTER ROLE alice CREATEDB;
ALTER ROLE alice NOCREATEDB CONNECTION LIMIT 3;
ALTER ROLE nosuch LOGIN;
ALTER ROLE alice RENAME TO alicia;
ALTER ROLE alicia RENAME TO alice;
ALTER ROLE alice RENAME TO bob;
-- acting as somebody
SET ROLE alice;
SELECT current_user, session_user;
CREATE TABLE t (a int PRIMARY KEY);
CREATE PUBLICATION p;
RESET ROLE;
GRANT CREATE ON SCHEMA public TO alice, bob;
GRANT CREATE ON DATABASE test_pub TO alice;
SET ROLE alice;
CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE PUBLICATION pa FOR TABLE t;
CREATE PUBLICATION pall FOR ALL TABLES;
CREATE PUBLICATION psch FOR TABLES IN SCHEMA public;
CREATE ROLE by_alice;
DROP ROLE bob;
SET ROLE bob;
SET ROLE boss;
SET SESSION AUTHORIZATION bob;
RESET ROLE;
SET SESSION AUTHORIZATION bob;
CREATE PUBLICATION pb;
CREATE TABLE tb (a int);
ALTER PUBLICATION pa ADD TABLE tb;
ALTER PUBLICATION pa SET (publish = 'insert');
ALTER PUBLICATION pa RENAME TO pb;
DROP PUBLICATION pa;
COMMENT ON PUBLICATION pa IS 'mine';
ALTER TABLE t ADD COLUMN c int;
DROP TABLE t;
ALTER TABLE t REPLICA IDENTITY FULL;
CREATE INDEX ON t (b);
COMMENT ON TABLE t IS 'x';
SELECT * FROM t;
SELECT subconninfo FROM pg_subscription;
SELECT subname FROM pg_subscription;
SELECT rolpassword FROM pg_authid;
\dRs+
CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pa WITH (connect = false);
CREATE SCHEMA sb;
CREATE DATABASE db;
SET SESSION AUTHORIZATION alice;
RESET SESSION AUTHORIZATION;
CREATE TABLE tp (a int PRIMARY KEY);
SET ROLE alice;
ALTER PUBLICATION pa ADD TABLE tp;
ALTER PUBLICATION pa ADD TABLES IN SCHEMA public;
ALTER PUBLICATION pa SET TABLES IN SCHEMA public;
ALTER PUBLICATION pa DROP TABLE t;
ALTER PUBLICATION pa OWNER TO bob;
ALTER PUBLICATION pa OWNER TO boss;
RESET ROLE;
ALTER PUBLICATION pa OWNER TO bob;
CREATE PUBLICATION pall FOR ALL TABLES;
ALTER PUBLICATION pall OWNER TO alice;
ALTER PUBLICATION pall OWNER TO boss;
CREATE PUBLICATION psch FOR TABLES IN SCHEMA public;
ALTER PUBLICATION psch OWNER TO alice;
\dRp
-- subscriptions
GRANT pg_create_subscription TO bob;
SET ROLE bob;
CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pa WITH (connect = false);
RESET ROLE;
GRANT CREATE ON DATABASE test_pub TO bob;
SET ROLE bob;
CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pa WITH (connect = false);
CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pa WITH (connect = false, password_required = false);
CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=test_pub password=secret' PUBLICATION pa WITH (connect = false, slot_name = NONE);
ALTER SUBSCRIPTION s SET (password_required = false);
ALTER SUBSCRIPTION s CONNECTION 'host=localhost dbname=test_pub';
ALTER SUBSCRIPTION s RENAME TO s2;
ALTER SUBSCRIPTION s2 OWNER TO alice;
RESET ROLE;
SET ROLE alice;
DROP SUBSCRIPTION s2;
ALTER SUBSCRIPTION s2 DISABLE;
RESET ROLE;
ALTER SUBSCRIPTION s2 SET (password_required = false);
SET ROLE bob;
ALTER SUBSCRIPTION s2 DISABLE;
ALTER SUBSCRIPTION s2 RENAME TO s3;
DROP SUBSCRIPTION s2;
RESET ROLE;
-- grants on tables
GRANT SELECT ON t TO bob;
GRANT INSERT, UPDATE (b) ON t TO readers WITH GRANT OPTION;
GRANT ALL ON t TO public;
REVOKE DELETE ON t FROM public;
GRANT USAGE ON SCHEMA nosuch TO bob;
GRANT SELECT ON nosuch TO bob;
GRANT SELECT ON t TO nosuch;
GRANT EXECUTE ON t TO bob;
GRANT CREATE ON t TO bob;
GRANT USAGE ON SCHEMA public TO bob WITH GRANT OPTION;
\dp t
\dp
\dn+
REVOKE ALL ON t FROM public, bob;
REVOKE GRANT OPTION FOR INSERT ON t FROM readers;
\z t
SELECT has_table_privilege('bob', 't', 'SELECT'), has_table_privilege('member1', 't', 'INSERT'), has_schema_privilege('bob', 'public', 'USAGE');
SELECT relacl FROM pg_class WHERE relname = 't';
-- dropping
DROP ROLE alice;
DROP ROLE nosuch;
DROP ROLE IF EXISTS nosuch;
DROP ROLE postgres;
DROP ROLE readers, member1;
REASSIGN OWNED BY alice TO bob;
DROP OWNED BY alice;
DROP ROLE alice;
DROP OWNED BY bob CASCADE;
\dt
\dRp
DROP ROLE bob;
