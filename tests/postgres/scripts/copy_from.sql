-- Rows that COPY FROM reads, and what it says of those it cannot.
CREATE TABLE t (a int, b text DEFAULT 'bee', c numeric(6,2) DEFAULT 1.5);
COPY t FROM STDIN;
1	one	1.25
2	\N	\N
3	tab\there	007
4	back\\slash\nnewline	-1
5	\x41\101\b\f\v\r\q	99
\.
SELECT a, b, c, length(b) FROM t;
COPY t (c, a) FROM STDIN (DELIMITER '|');
3.333|6
|7
\.
COPY t (c, a) FROM STDIN (DELIMITER '|', NULL '');
3.333|6
|7
\.
COPY t FROM STDIN (FORMAT csv);
8,"quoted ""text"", with comma",1
9,"two
lines",2
10,,3
11,"",4
12,unquoted "middle" quotes,
\.
COPY t FROM STDIN (FORMAT csv, HEADER, DELIMITER ';', QUOTE '''', ESCAPE '\', NULL 'null');
x;y;z
13;'it\'s';null
14;'null';5
15;null;6
\.
COPY t FROM STDIN (DEFAULT '\D');
16	\D	\D
17	x	\D
\.
COPY t FROM STDIN (FORMAT csv, DEFAULT 'dflt');
18,dflt,dflt
19,"dflt",7
\.
COPY t FROM STDIN (FORMAT csv, FORCE_NULL (b), FORCE_NOT_NULL (a), NULL 'x');
20,"x",8
21,x,9
\.
SELECT a, b, c FROM t WHERE a > 5;
TRUNCATE t;
-- header lines
COPY t FROM STDIN (HEADER match);
a	b	c
1	x	1
\.
COPY t FROM STDIN (HEADER match);
a	b
1	x	1
\.
COPY t FROM STDIN (HEADER match);
a	b	d
1	x	1
\.
COPY t (c, a) FROM STDIN (FORMAT csv, HEADER match);
c,"a"
1,2
\.
COPY t FROM STDIN (HEADER match);
a	\N	c
\.
COPY t FROM STDIN (HEADER);
\.
-- faults of lines
COPY t FROM STDIN;
1	x	1
2	x	1	more
\.
COPY t FROM STDIN;
1	x
\.
COPY t FROM STDIN;

\.
COPY t FROM STDIN;
1	x	1
xyz	x	1
\.
COPY t FROM STDIN;
1	x	1
2	x	12345.678
\.
COPY t FROM STDIN;
99999999999	x	1
\.
COPY t FROM STDIN;
1	aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
\.
COPY t FROM STDIN;
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaéééééééééééééééééééééééé	x	1
\.
COPY t FROM STDIN (FORMAT csv);
1,"open
2,x,1
\.
COPY t FROM STDIN (FORMAT csv);
1,"a
b",xyz
\.
COPY t FROM STDIN;
1	\xff	1
\.
COPY t FROM STDIN;
1	x	1
\.oops
2	x	1
\.
COPY t FROM STDIN (DEFAULT 'D');
D	x	1
\.
COPY t FROM STDIN (FORMAT csv, FORCE_NULL *, NULL 'N');
"N","N","N"
\.
SELECT * FROM t;
-- errors that are passed over
TRUNCATE t;
COPY t FROM STDIN (ON_ERROR ignore);
1	x	1
xyz	x	1
2	x	abc
3	x	1
\.
COPY t FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose);
4	x	1
xyz	x	1
5	x	1234567
6	x	1
\.
COPY t FROM STDIN (ON_ERROR ignore, FORMAT csv, LOG_VERBOSITY default);
x7,x,1
\.
COPY t FROM STDIN (ON_ERROR ignore);
7	x
\.
SELECT * FROM t;
-- constraints
CREATE TABLE k (id int PRIMARY KEY, n int NOT NULL, v text CHECK (v <> 'bad'));
COPY k FROM STDIN;
1	1	x
2	\N	x
\.
COPY k FROM STDIN;
1	1	x
2	2	bad
\.
COPY k FROM STDIN;
1	1	x
2	2	y
1	3	z
\.
COPY k FROM STDIN;
1	1	x
1	3	z
oops	4	z
\.
COPY k FROM STDIN;
1	1	x
2	1	y
\.
COPY k FROM STDIN;
3	1	x
2	1	y
\.
COPY k (id, n) FROM STDIN;
3	1
\N	1
\.
SELECT * FROM k;
CREATE TABLE f (id int REFERENCES k);
COPY f FROM STDIN;
1
2
7
\.
COPY f FROM STDIN;
1
\N
\.
-- defaults, identity and generated columns
CREATE TABLE d (id int GENERATED ALWAYS AS IDENTITY, s serial, g int GENERATED ALWAYS AS (n * 2) STORED, n int);
COPY d FROM STDIN;
10	20	7
\.
COPY d (n) FROM STDIN;
8
9
\.
COPY d (id, n) FROM STDIN (DEFAULT 'd');
d	1
100	2
\.
SELECT * FROM d;
COPY d (id, n) FROM STDIN (DEFAULT 'd');
d	1
d	d
\.
CREATE TABLE r (id int PRIMARY KEY, at float DEFAULT random());
COPY r (id) FROM STDIN;
1
1
x
\.
-- the condition
COPY k FROM STDIN WHERE id % 2 = 0 AND v IS NOT NULL;
10	1	x
11	1	x
12	1	\N
14	1	y
\.
COPY k FROM STDIN WHERE 1 / n > 0;
20	1	x
21	0	x
\.
COPY k FROM STDIN WHERE id IS NOT NULL;
\N	1	x
\.
SELECT * FROM k;
-- partitions
CREATE TABLE p (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (10);
CREATE TABLE p2 (b text, a int);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
COPY p FROM STDIN;
1	x
11	y
5	z
\.
SELECT tableoid::regclass, * FROM p;
COPY p FROM STDIN;
1	x
21	y
\.
COPY p1 FROM STDIN;
1	x
11	y
\.
COPY p2 FROM STDIN;
x	11
\.
COPY p FROM STDIN (FREEZE);
1	x
\.
-- FREEZE
COPY t FROM STDIN (FREEZE);
1	x	1
\.
BEGIN;
CREATE TABLE fresh (a int);
COPY fresh FROM STDIN (FREEZE);
1
2
\.
SELECT * FROM fresh;
COMMIT;
BEGIN;
TRUNCATE fresh;
COPY fresh FROM STDIN (FREEZE);
3
\.
COMMIT;
SELECT * FROM fresh;
-- transactions
BEGIN;
COPY t FROM STDIN;
100	in	1
\.
SELECT count(*) FROM t WHERE a = 100;
COPY t FROM STDIN;
bad	in	1
\.
SELECT 1;
ROLLBACK;
SELECT count(*) FROM t WHERE a = 100;
-- tables of few columns
CREATE TABLE none ();
COPY none FROM STDIN;


\.
SELECT count(*) FROM none;
COPY none FROM STDIN;
x
\.
CREATE TABLE one (a text);
COPY one FROM STDIN;

\N
\.
COPY one FROM STDIN (FORMAT csv);

""
x
\.
SELECT a, a IS NULL AS isnull FROM one;
-- values of many types
CREATE TABLE types (b bool, i8 bigint, f8 float8, d date, ts timestamp, tz timestamptz, tm time, iv interval,
    u uuid, by bytea, ar int[], js jsonb, ch char(4), vc varchar(4));
COPY types FROM STDIN;
t	9223372036854775807	NaN	2024-02-29	2024-01-01 12:00:00.5	2024-01-01 12:00:00+02	23:59:59	1 day 2 hours	a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11	\\x00ff	{1,NULL,3}	{"b": 1, "a": [1, 2]}	ab	abcd
off	-1	-Infinity	infinity	-infinity	infinity	00:00	-1 mon	A0EEBC999C0B4EF8BB6D6BB9BD380A11	abc	{}	null	\N	\N
\.
COPY types FROM STDIN (FORMAT csv);
maybe,,,,,,,,,,,,,
\.
COPY types (vc) FROM STDIN;
abcde
\.
COPY types (d) FROM STDIN;
2024-02-30
\.
COPY types (ar) FROM STDIN;
{1,x}
\.
COPY types (js) FROM STDIN;
{"a": }
\.
SELECT * FROM types;
COPY types TO STDOUT;
COPY types TO STDOUT (FORMAT csv, HEADER);
