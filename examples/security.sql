CREATE TABLE t (a int PRIMARY KEY);
INSERT INTO t VALUES (1), (2);
CREATE ROLE anna LOGIN;
CREATE ROLE repuser LOGIN;
-- To publish, one needs CREATE in the database, and the table.
SET ROLE anna;
CREATE PUBLICATION pub FOR TABLE t;
RESET ROLE;
GRANT CREATE ON DATABASE test_pub TO anna;
SET ROLE anna;
CREATE PUBLICATION pub FOR TABLE t;
CREATE PUBLICATION pub FOR ALL TABLES;
RESET ROLE;
ALTER TABLE t OWNER TO anna;
SET ROLE anna;
CREATE PUBLICATION pub FOR TABLE t;
RESET ROLE;
\c test_sub
CREATE TABLE t (a int PRIMARY KEY);
-- The role of the connection needs REPLICATION.
CREATE SUBSCRIPTION sub CONNECTION 'host=localhost dbname=test_pub user=repuser' PUBLICATION pub;
ALTER ROLE repuser REPLICATION;
CREATE SUBSCRIPTION sub CONNECTION 'host=localhost dbname=test_pub user=repuser' PUBLICATION pub;
-- And SELECT, for the copy.
SELECT * FROM t;
\c test_pub
GRANT SELECT ON t TO repuser;
\c test_sub
SELECT * FROM t ORDER BY a;
-- The owner of a subscription who is no superuser has to give a password, and the publisher has to ask for it.
ALTER ROLE repuser PASSWORD 'secret';
ALTER SUBSCRIPTION sub CONNECTION 'host=localhost dbname=test_pub user=repuser password=secret';
-- Rows are written with the rights of the table's owner, if the subscription's owner may become that role.
CREATE ROLE owner;
CREATE ROLE applier LOGIN IN ROLE pg_create_subscription;
GRANT CREATE ON DATABASE test_sub TO applier;
ALTER TABLE t OWNER TO owner;
ALTER SUBSCRIPTION sub OWNER TO applier;
\c test_pub
INSERT INTO t VALUES (3);
\c test_sub
SELECT * FROM t ORDER BY a;
GRANT owner TO applier;
SELECT * FROM t ORDER BY a;
-- To subscribe, one needs pg_create_subscription and CREATE in the database.
SET ROLE anna;
CREATE SUBSCRIPTION mine CONNECTION 'host=localhost dbname=test_pub user=repuser password=secret' PUBLICATION pub;
RESET ROLE;
GRANT pg_create_subscription TO anna;
GRANT CREATE ON DATABASE test_sub TO anna;
SET ROLE anna;
CREATE SUBSCRIPTION mine CONNECTION 'host=localhost dbname=test_pub user=repuser' PUBLICATION pub;
CREATE SUBSCRIPTION mine CONNECTION 'host=localhost dbname=test_pub user=repuser password=wrong' PUBLICATION pub;
-- Passwords are for nobody to read.
SELECT subname FROM pg_subscription;
SELECT subconninfo FROM pg_subscription;
RESET ROLE;
