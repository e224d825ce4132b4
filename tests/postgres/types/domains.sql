CREATE DOMAIN posint AS int CHECK (VALUE > 0);
SELECT 5::posint, '7'::posint;
SELECT (-5)::posint;
SELECT '-5'::posint;
SELECT null::posint;
CREATE DOMAIN us_postal_code AS TEXT CHECK(
   VALUE ~ '^\d{5}$'
OR VALUE ~ '^\d{5}-\d{4}$'
);
CREATE TABLE us_snail_addy (
  address_id SERIAL PRIMARY KEY,
  street1 TEXT NOT NULL,
  city TEXT NOT NULL,
  postal us_postal_code NOT NULL
);
INSERT INTO us_snail_addy (street1, city, postal) VALUES ('a', 'b', '12345');
INSERT INTO us_snail_addy (street1, city, postal) VALUES ('a', 'b', '1234');
UPDATE us_snail_addy SET postal = 'x';
\d us_snail_addy
CREATE DOMAIN nn AS text NOT NULL;
CREATE TABLE t (a int, b nn);
INSERT INTO t VALUES (1, 'x');
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (1, NULL);
INSERT INTO t (a) SELECT 4;
UPDATE t SET b = NULL;
COPY t FROM STDIN;
1	a
2	\N
\.
COPY t FROM STDIN;
1	a
2	b
\.
COPY us_snail_addy (street1, city, postal) FROM STDIN;
a	b	12345-6789
a	b	123
\.
SELECT * FROM t;
CREATE DOMAIN d5 AS varchar(5) DEFAULT 'abc';
CREATE TABLE td (a int, d d5, e d5 DEFAULT 'own', f d5[]);
INSERT INTO td (a) VALUES (1);
INSERT INTO td VALUES (2, 'abcdefg');
INSERT INTO td VALUES (2, 'abcd', DEFAULT, '{a,bc}');
INSERT INTO td VALUES (3, 'abcdefg'::text);
INSERT INTO td VALUES (2, 'abcd', DEFAULT, '{a,bcdefg}');
SELECT * FROM td;
SELECT pg_typeof(d), pg_typeof(f), d || 'x', length(d), f[1], pg_typeof(f[1]) FROM td;
\d td
CREATE DOMAIN small AS posint CHECK (VALUE < 10) CONSTRAINT nn NOT NULL;
SELECT 5::small;
SELECT 50::small;
SELECT 0::small;
SELECT NULL::small;
SELECT 5::small + 1, pg_typeof(5::small + 1);
SELECT '{1,2}'::small[];
SELECT '{1,20}'::small[];
SELECT array[1,20]::small[];
SELECT array[1,2]::posint[];
CREATE DOMAIN intarr AS int[] CHECK (array_length(VALUE, 1) = 2);
SELECT '{1,2}'::intarr;
SELECT '{1,2,3}'::intarr;
CREATE TABLE ia (a intarr);
INSERT INTO ia VALUES ('{1,2}');
UPDATE ia SET a[1] = 5;
UPDATE ia SET a[3] = 5;
SELECT a[1], a FROM ia;
ALTER DOMAIN posint ADD CONSTRAINT even CHECK (VALUE % 2 = 0);
SELECT 3::posint;
SELECT 3::small;
ALTER DOMAIN posint DROP CONSTRAINT even;
ALTER DOMAIN posint DROP CONSTRAINT even;
ALTER DOMAIN posint DROP CONSTRAINT IF EXISTS even;
CREATE TABLE p (x posint, y small DEFAULT 3);
INSERT INTO p VALUES (1, 1), (2, 2), (null, 3);
ALTER DOMAIN posint ADD CONSTRAINT even CHECK (VALUE % 2 = 0);
ALTER DOMAIN posint ADD CONSTRAINT even CHECK (VALUE % 2 = 0) NOT VALID;
INSERT INTO p VALUES (3, 1);
ALTER DOMAIN posint VALIDATE CONSTRAINT even;
DELETE FROM p WHERE x = 1;
ALTER DOMAIN posint VALIDATE CONSTRAINT even;
DELETE FROM p WHERE y IN (1, 3);
ALTER DOMAIN posint VALIDATE CONSTRAINT even;
ALTER DOMAIN posint VALIDATE CONSTRAINT nope;
ALTER DOMAIN posint RENAME CONSTRAINT even TO gerade;
ALTER DOMAIN posint RENAME CONSTRAINT even TO gerade;
INSERT INTO p VALUES (3, 2);
INSERT INTO p VALUES (null, 2);
ALTER DOMAIN posint SET NOT NULL;
DELETE FROM p WHERE x IS NULL;
ALTER DOMAIN posint SET NOT NULL;
INSERT INTO p VALUES (null, 2);
ALTER DOMAIN posint DROP NOT NULL;
INSERT INTO p VALUES (null, 2);
ALTER DOMAIN posint SET DEFAULT 42;
INSERT INTO p (y) VALUES (2);
ALTER DOMAIN posint DROP DEFAULT;
INSERT INTO p (y) VALUES (4);
SELECT * FROM p;
CREATE DOMAIN bad AS int CHECK (x > 0);
CREATE DOMAIN bad AS int CHECK (VALUE);
CREATE DOMAIN bad AS int CHECK ((SELECT VALUE) > 0);
CREATE DOMAIN bad AS int PRIMARY KEY;
CREATE DOMAIN bad AS int UNIQUE;
CREATE DOMAIN bad AS int NULL NOT NULL;
CREATE DOMAIN bad AS int DEFAULT 1 DEFAULT 2;
CREATE DOMAIN bad AS int DEFAULT 'x';
CREATE DOMAIN bad AS int COLLATE "C";
CREATE DOMAIN bad AS anyelement;
CREATE DOMAIN bad AS nope;
CREATE DOMAIN posint AS int;
ALTER DOMAIN nope SET NOT NULL;
ALTER DOMAIN int4 SET NOT NULL;
SELECT conname, contype, pg_get_constraintdef(c.oid), conrelid, contypid::regtype, convalidated FROM pg_constraint c WHERE contypid >= 16384 AND contype = 'c' ORDER BY 1, 5;
SELECT typname, typtype, typbasetype::regtype, typtypmod, typnotnull, typdefault, typinput, typoutput, typcategory, typelem FROM pg_type WHERE typname IN ('posint','small','d5','intarr') ORDER BY 1;
COMMENT ON DOMAIN posint IS 'positive';
COMMENT ON CONSTRAINT gerade ON DOMAIN posint IS 'even';
COMMENT ON CONSTRAINT nope ON DOMAIN posint IS 'even';
SELECT obj_description('posint'::regtype);
SELECT coalesce(null::posint, 2), greatest(2::posint, 4), CASE WHEN true THEN 4::posint END, pg_typeof(coalesce(null::posint, 2::posint));
SELECT x, count(*) FROM p GROUP BY x ORDER BY x;
DROP DOMAIN posint;
DROP DOMAIN posint CASCADE;
\d p
DROP TYPE d5;
ALTER TABLE td ADD COLUMN g nn;
ALTER TABLE td ADD COLUMN g nn DEFAULT 'q';
ALTER TABLE td ADD COLUMN h d5;
SELECT * FROM td ORDER BY a;
ALTER TABLE td ALTER COLUMN h TYPE text;
ALTER TABLE td ALTER COLUMN h TYPE us_postal_code;
ALTER TABLE td ALTER COLUMN h TYPE nn;
\d td
CREATE VIEW vd AS SELECT d::d5 AS dd, 'x'::nn AS n FROM td;
\d+ vd
CREATE FUNCTION pick(nn) RETURNS nn LANGUAGE sql AS 'SELECT $1';
SELECT pick('a');
SELECT pick(null);

-- domains over composite types in routines
CREATE TYPE dc_t AS (a int, b text, c int);
CREATE DOMAIN dc_d AS dc_t CHECK ((VALUE).a > 0);
DO $$ DECLARE x dc_d; BEGIN x := ROW(1,2,3); x.a := -5; END $$;
DO $$ DECLARE x dc_d; BEGIN x := ROW(1,2,3); RAISE NOTICE '%', x.a; x.b := 'q'; RAISE NOTICE '%', x; END $$;
DO $$ DECLARE x dc_d := ROW(1,2,3); BEGIN x.a := 7; RAISE NOTICE '%', x; x.nope := 1; END $$;
DO $$ DECLARE x dc_d; BEGIN x := NULL; RAISE NOTICE '% %', x, x.a; x.a := 3; RAISE NOTICE '%', x; END $$;
DO $$ DECLARE x dc_d; BEGIN SELECT 4, 'z', 5 INTO x; RAISE NOTICE '%', x; SELECT -4, 'z', 5 INTO x; END $$;
CREATE DOMAIN dc_n AS dc_t NOT NULL;
DO $$ DECLARE x dc_n := ROW(1,2,3); BEGIN x := NULL; END $$;
DO $$ DECLARE x record; BEGIN x := NULL; RAISE NOTICE '%', x; END $$;
CREATE FUNCTION mk() RETURNS dc_d LANGUAGE plpgsql AS $$ DECLARE r dc_d; BEGIN r := ROW(1,'a',2); r.c := 9; RETURN r; END $$;
SELECT mk(), (mk()).c, * FROM mk();
CREATE FUNCTION dc_1() RETURNS dc_d LANGUAGE plpgsql AS $$ DECLARE r dc_d; BEGIN r := ROW(1,'a', 3); RETURN r; END $$;
CREATE FUNCTION dc_2() RETURNS dc_d LANGUAGE sql AS $$ SELECT ROW(1,'a', 3)::dc_d $$;
CREATE FUNCTION dc_3() RETURNS SETOF dc_d LANGUAGE sql AS $$ SELECT ROW(1,'a', 3)::dc_d $$;
CREATE FUNCTION dc_4() RETURNS SETOF dc_d LANGUAGE plpgsql AS $$ BEGIN RETURN NEXT ROW(1,'a', 3)::dc_d; RETURN QUERY SELECT 2, 'b', 3; END $$;
SELECT dc_1();
SELECT (dc_1()).a;
SELECT * FROM dc_1();
SELECT * FROM dc_2();
SELECT * FROM dc_3();
SELECT * FROM dc_4();
SELECT m FROM dc_4() m;
SELECT (dc_3()).*;
-- the first row that a new constraint does not hold for, and its first such column; columns that cannot be checked
create domain few as int;
create table many (c few, d few);
create table fewer (x few);
insert into many values (10, 3), (2, 10);
insert into fewer values (1);
alter domain few add constraint five check (value > 5);
alter table many add column a few default 2;
alter domain few add constraint four check (value > 4);
insert into many values (null, 7, null), (7, 7, 7);
alter domain few set not null;
create domain fewest as few;
create table listed (v fewest, w fewest[]);
alter domain few add constraint bar check (value > 0);
alter domain fewest add constraint bar check (value > 0);
drop table listed;
create type holding as (a fewest);
create table held (h holding);
alter domain few add constraint bar check (value > 0);
drop table many, fewer, held;
drop type holding;
drop domain few cascade;
