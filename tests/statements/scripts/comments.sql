-- COMMENT ON everything there is
CREATE TABLE t (a int PRIMARY KEY, b int CONSTRAINT pos CHECK (b > 0));
CREATE VIEW v AS TABLE t;
CREATE SEQUENCE s;
CREATE INDEX i ON t (b);
CREATE PUBLICATION p FOR TABLE t;
COMMENT ON TABLE t IS 'the table';
COMMENT ON COLUMN t.a IS 'its key';
COMMENT ON COLUMN public.t.b IS 'its value';
COMMENT ON COLUMN test_pub.public.t.b IS 'its value, in full';
COMMENT ON CONSTRAINT pos ON t IS 'positive';
COMMENT ON VIEW v IS 'the view';
COMMENT ON COLUMN v.a IS 'of the view';
COMMENT ON SEQUENCE s IS 'the sequence';
COMMENT ON INDEX i IS 'the index';
COMMENT ON PUBLICATION p IS 'the publication';
COMMENT ON DATABASE test_pub IS 'the database';
COMMENT ON ROLE postgres IS 'the role';
\d+ t
\dt+
\dv+
SELECT obj_description('t'::regclass, 'pg_class'), col_description('t'::regclass, 1), shobj_description(oid, 'pg_authid') FROM pg_authid WHERE rolname = 'postgres';
COMMENT ON TABLE v IS 'x';
COMMENT ON VIEW t IS 'x';
COMMENT ON INDEX t IS 'x';
COMMENT ON SEQUENCE t IS 'x';
COMMENT ON TABLE nosuch IS 'x';
COMMENT ON TABLE nosuch.t IS 'x';
COMMENT ON TABLE other.public.t IS 'x';
COMMENT ON COLUMN t.nosuch IS 'x';
COMMENT ON COLUMN a IS 'x';
COMMENT ON COLUMN i.b IS 'x';
COMMENT ON COLUMN s.last_value IS 'x';
COMMENT ON CONSTRAINT nosuch ON t IS 'x';
COMMENT ON CONSTRAINT pos ON nosuch IS 'x';
COMMENT ON PUBLICATION nosuch IS 'x';
COMMENT ON SUBSCRIPTION nosuch IS 'x';
COMMENT ON ROLE nosuch IS 'x';
CREATE ROLE plain;
SET ROLE plain;
COMMENT ON TABLE t IS 'x';
COMMENT ON COLUMN t.a IS 'x';
COMMENT ON CONSTRAINT pos ON t IS 'x';
COMMENT ON INDEX i IS 'x';
COMMENT ON VIEW v IS 'x';
COMMENT ON SEQUENCE s IS 'x';
COMMENT ON PUBLICATION p IS 'x';
COMMENT ON DATABASE test_pub IS 'x';
RESET ROLE;
COMMENT ON TABLE t IS '';
COMMENT ON COLUMN t.a IS NULL;
\d+ t
DROP INDEX i;
DROP TABLE t CASCADE;
SELECT count(*) FROM pg_description WHERE objoid >= 16384;
