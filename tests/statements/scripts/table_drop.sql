-- DROP TABLE
CREATE TABLE a (x int PRIMARY KEY);
CREATE TABLE b (y int REFERENCES a);
CREATE VIEW va AS SELECT x FROM a;
CREATE VIEW vva AS SELECT * FROM va;
CREATE TABLE c (z a);
DROP TABLE a;
DROP TABLE a RESTRICT;
DROP TABLE a, b;
DROP TABLE b, b;
DROP TABLE nosuch;
DROP TABLE nosuch.nosuch;
DROP TABLE nosuch, b;
DROP TABLE IF EXISTS nosuch;
DROP TABLE IF EXISTS nosuch.nosuch;
DROP TABLE IF EXISTS nosuch1, nosuch2;
DROP TABLE va;
DROP TABLE a_pkey;
DROP TABLE pg_class;
DROP TABLE other.public.a;
DROP TABLE a.b.c.d;
DROP TABLE a CASCADE;
\d b
\d c
DROP TABLE c;
CREATE TABLE many (a int);
CREATE VIEW m1 AS SELECT * FROM many;
CREATE VIEW m2 AS SELECT * FROM m1;
CREATE VIEW m3 AS SELECT m1.a FROM m1, m2;
CREATE TABLE child () INHERITS (many);
CREATE TABLE refs (a int, b many);
DROP TABLE many;
CREATE SCHEMA s1;
CREATE TABLE s1.t (a serial PRIMARY KEY);
CREATE VIEW s1.v AS SELECT * FROM s1.t, m3;
DROP TABLE many CASCADE;
DROP SCHEMA s1;
DROP SCHEMA s1 CASCADE;
-- RENAME
CREATE TABLE r (a int PRIMARY KEY, b text DEFAULT 'x' CHECK (b <> ''), c int GENERATED ALWAYS AS (a + 1) STORED, d serial);
CREATE INDEX r_b ON r (b);
ALTER TABLE r RENAME TO rr;
ALTER TABLE rr RENAME TO rr;
ALTER TABLE rr RENAME TO refs;
ALTER TABLE nosuch RENAME TO x;
ALTER TABLE IF EXISTS nosuch RENAME TO x;
ALTER TABLE rr RENAME COLUMN a TO aa;
ALTER TABLE rr RENAME b TO bb;
ALTER TABLE rr RENAME nosuch TO x;
ALTER TABLE rr RENAME aa TO bb;
ALTER TABLE rr RENAME aa TO ctid;
ALTER TABLE rr RENAME ctid TO x;
ALTER TABLE IF EXISTS nosuch RENAME a TO b;
ALTER TABLE nosuch RENAME a TO b;
ALTER TABLE rr RENAME CONSTRAINT r_pkey TO rr_key;
ALTER TABLE rr RENAME CONSTRAINT r_b_check TO rr_check;
ALTER TABLE rr RENAME CONSTRAINT nosuch TO x;
ALTER TABLE rr RENAME CONSTRAINT rr_check TO rr_key;
ALTER TABLE rr RENAME CONSTRAINT rr_key TO r_b;
ALTER TABLE IF EXISTS nosuch RENAME CONSTRAINT a TO b;
ALTER INDEX rr_key RENAME TO rr_key2;
ALTER TABLE rr_key2 RENAME TO rr_key3;
ALTER SEQUENCE r_d_seq RENAME TO rr_d_seq;
ALTER INDEX rr RENAME TO rrr;
ALTER SEQUENCE rrr RENAME TO rr;
ALTER VIEW rrr RENAME TO rr;
ALTER TABLE pg_class RENAME TO x;
ALTER TABLE rrr RENAME TO pg_class;
\d public.pg_class
ALTER TABLE public.pg_class RENAME TO rrr;
\d rrr
ALTER INDEX rr_key3 RENAME COLUMN aa TO x;
ALTER SEQUENCE rr_d_seq RENAME COLUMN last_value TO x;
ALTER TABLE rr_d_seq RENAME COLUMN last_value TO x;
-- SET SCHEMA
CREATE SCHEMA s1;
CREATE TABLE s1.taken (a int);
CREATE TABLE taken (a int);
ALTER TABLE rrr SET SCHEMA s1;
\d s1.rrr
ALTER TABLE s1.rrr SET SCHEMA s1;
ALTER TABLE taken SET SCHEMA s1;
ALTER TABLE s1.rrr SET SCHEMA nosuch;
ALTER TABLE s1.rrr SET SCHEMA pg_toast;
ALTER SEQUENCE s1.rr_d_seq SET SCHEMA public;
ALTER INDEX s1.rr_key3 SET SCHEMA public;
ALTER TABLE s1.rr_key3 SET SCHEMA public;
ALTER VIEW s1.rrr SET SCHEMA public;
ALTER SEQUENCE s1.rrr SET SCHEMA public;
ALTER TABLE nosuch SET SCHEMA public;
ALTER TABLE IF EXISTS nosuch SET SCHEMA public;
SELECT conname, connamespace::regnamespace FROM pg_constraint WHERE conrelid = 's1.rrr'::regclass ORDER BY 1;
SET search_path = s1, public;
\d rrr
CREATE TABLE taken2 (a int);
\d taken2
DROP TABLE taken;
\d taken
RESET search_path;
-- owners
CREATE ROLE regress_drop1;
CREATE ROLE regress_drop2;
ALTER TABLE s1.rrr OWNER TO regress_drop1;
SELECT relname, pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 's1'::regnamespace ORDER BY 1;
ALTER SEQUENCE s1.rr_d_seq OWNER TO postgres;
ALTER INDEX s1.rr_key3 OWNER TO postgres;
ALTER VIEW s1.rrr OWNER TO postgres;
ALTER TABLE s1.rrr OWNER TO nosuch;
GRANT USAGE ON SCHEMA s1 TO regress_drop1;
SET ROLE regress_drop1;
ALTER TABLE s1.rrr OWNER TO regress_drop2;
ALTER TABLE s1.rrr RENAME TO x;
ALTER TABLE s1.rrr RENAME aa TO x;
ALTER TABLE s1.rrr SET SCHEMA public;
ALTER TABLE s1.taken2 RENAME a TO b;
DROP TABLE s1.taken2;
DROP INDEX s1.r_b;
DROP TABLE s1.rrr;
RESET ROLE;
DROP SCHEMA s1 CASCADE;
DROP ROLE regress_drop1, regress_drop2;
-- system catalogs
CREATE TABLE pg_catalog.x (a int);
CREATE TABLE information_schema.x (a int);
DROP TABLE information_schema.x;
CREATE INDEX x ON pg_class (relname);
ALTER TABLE pg_class ADD COLUMN x int;
ALTER TABLE pg_class SET SCHEMA public;
ALTER TABLE pg_class OWNER TO postgres;
DROP TABLE pg_type;
-- publications
CREATE TABLE pub1 (a int PRIMARY KEY, b int, c int);
CREATE TABLE pub2 (a int, b int);
CREATE PUBLICATION regress_pub_drop FOR TABLE pub1 (a, b) WHERE (c > 5), pub2 WHERE (b = 1);
ALTER TABLE pub1 DROP COLUMN b;
ALTER TABLE pub1 DROP COLUMN c;
ALTER TABLE pub1 RENAME c TO cc;
ALTER TABLE pub1 ALTER cc TYPE bigint;
ALTER TABLE pub1 ALTER b TYPE bigint;
\d pub1
ALTER TABLE pub1 DROP COLUMN cc CASCADE;
\dRp+ regress_pub_drop
DROP TABLE pub2;
DROP TABLE pub2 CASCADE;
\dRp+ regress_pub_drop
DROP PUBLICATION regress_pub_drop;
CREATE TABLE bykey (a int PRIMARY KEY, b int NOT NULL UNIQUE, c int);
ALTER TABLE bykey REPLICA IDENTITY USING INDEX bykey_b_key;
DROP INDEX bykey_b_key;
ALTER TABLE bykey DROP CONSTRAINT bykey_b_key;
\d bykey
