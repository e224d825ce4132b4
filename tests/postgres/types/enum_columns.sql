CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE l (a int, m mood) PARTITION BY LIST (m);
CREATE TABLE l1 PARTITION OF l FOR VALUES IN ('sad', 'ok');
CREATE TABLE l2 PARTITION OF l DEFAULT;
INSERT INTO l VALUES (1, 'sad'), (2, 'happy'), (3, 'ok');
SELECT tableoid::regclass, * FROM l ORDER BY a;
\d+ l1
CREATE TABLE r (a int, m mood) PARTITION BY RANGE (m);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (MINVALUE) TO ('ok');
CREATE TABLE r2 PARTITION OF r FOR VALUES FROM ('ok') TO ('happy');
CREATE TABLE r3 PARTITION OF r FOR VALUES FROM ('ok') TO (MAXVALUE);
INSERT INTO r VALUES (1, 'sad'), (3, 'ok');
INSERT INTO r VALUES (2, 'happy');
SELECT tableoid::regclass, * FROM r ORDER BY a;
UPDATE r SET m = 'ok' WHERE m = 'sad';
SELECT tableoid::regclass, * FROM r ORDER BY a;
CREATE TABLE h (a int, m mood) PARTITION BY HASH (m);
CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO h VALUES (1, 'sad'), (2, 'happy'), (3, 'ok');
SELECT * FROM h WHERE m = 'happy';
COPY l FROM STDIN;
5	sad
6	nope
\.
COPY l FROM STDIN;
5	sad
6	\N
7	happy
\.
COPY l TO STDOUT;
COPY (SELECT m FROM l ORDER BY m) TO STDOUT CSV;
ALTER TABLE l1 ADD COLUMN x mood;
ALTER TABLE l ADD COLUMN x mood DEFAULT 'happy';
SELECT * FROM l ORDER BY a;
ALTER TABLE l ALTER x TYPE text;
ALTER TABLE l ALTER x TYPE mood;
ALTER TABLE l ALTER x DROP DEFAULT, ALTER x TYPE mood USING x::mood;
SELECT * FROM l ORDER BY x, a;
\d l
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
ALTER TYPE mood RENAME VALUE 'happy' TO 'sad';
SELECT * FROM l ORDER BY x, a;
\d+ l
INSERT INTO l VALUES (9, 'blue', 'sad');
SELECT tableoid::regclass, * FROM l WHERE m <= 'blue' ORDER BY x, a;
ALTER TYPE mood ADD VALUE 'happy';
INSERT INTO l VALUES (10, 'happy', 'happy');
SELECT tableoid::regclass, * FROM l ORDER BY m, a;
CREATE VIEW v AS SELECT * FROM l WHERE m = 'blue' OR m IN ('sad', 'ok');
\d+ v
ALTER TYPE mood RENAME VALUE 'blue' TO 'cobalt';
\d+ v
ALTER TYPE mood RENAME TO feeling;
ALTER TYPE feeling RENAME TO feeling;
CREATE SCHEMA s;
ALTER TYPE feeling SET SCHEMA s;
\d l
SELECT 'ok'::s.feeling, 'ok'::feeling;
ALTER TYPE s.feeling SET SCHEMA s;
CREATE ROLE r1;
ALTER TYPE s.feeling OWNER TO r1;
ALTER TYPE s.feeling OWNER TO nobody_there;
COMMENT ON TYPE s.feeling IS 'how it feels';
SELECT obj_description('s.feeling'::regtype, 'pg_type');
DROP ROLE r1;
SET search_path = s, public;
\d l
DROP SCHEMA s;
DROP SCHEMA s CASCADE;
\d l
DROP ROLE r1;
