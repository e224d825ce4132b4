CREATE TYPE complex AS (
    r       double precision,
    i       double precision
);
CREATE TYPE inventory_item AS (
    name            text,
    supplier_id     integer,
    price           numeric
);
CREATE TABLE on_hand (
    item      inventory_item,
    count     integer
);
INSERT INTO on_hand VALUES (ROW('fuzzy dice', 42, 1.99), 1000);
INSERT INTO on_hand VALUES ('("big, dice",7,)', 10), (NULL, 1);
SELECT * FROM on_hand;
SELECT (item).name FROM on_hand WHERE (item).price > 0.99;
SELECT (on_hand.item).name FROM on_hand WHERE (on_hand.item).price > 9.99;
SELECT (item).* FROM on_hand;
SELECT item.name FROM on_hand;
UPDATE on_hand SET item.price = 5 WHERE count = 10;
UPDATE on_hand SET item = ROW('x', 1, 2) WHERE count = 1;
INSERT INTO on_hand (item.name, item.price) VALUES ('part', 1.1);
SELECT * FROM on_hand ORDER BY item;
SELECT count(*), item FROM on_hand GROUP BY item ORDER BY 2 DESC;
SELECT ROW(1,2)::complex, (ROW(1,2)::complex).i, '(1.5,2)'::complex = ROW(1.5,2)::complex, ROW(1,2)::complex < ROW(1,3)::complex;
SELECT '(1)'::complex;
SELECT '(1,2,3)'::complex;
SELECT '(a,2)'::complex;
SELECT ROW(1,2,3)::complex;
SELECT array[ROW(1,2)::complex, '(3,4)'], ('{"(1,2)"}'::complex[])[1].r;
CREATE TABLE ca (a int PRIMARY KEY, c complex DEFAULT ROW(0,0), cs complex[]);
INSERT INTO ca VALUES (1, ROW(1,2), array[ROW(3,4)::complex]), (2, DEFAULT, '{"(5,6)",NULL}');
SELECT *, cs[1], (cs[1]).i FROM ca ORDER BY a;
UPDATE ca SET cs[1] = ROW(9,9), c.r = 7 WHERE a = 1;
UPDATE ca SET cs[1].r = 8 WHERE a = 2;
SELECT * FROM ca ORDER BY a;
\d ca
\d complex
\d+ complex
\dT
SELECT relname, relkind, relnatts FROM pg_class WHERE relname = 'complex';
SELECT typname, typtype, typcategory, typlen, typrelid::regclass, typarray::regtype FROM pg_type WHERE typname = 'complex';
SELECT attname, atttypid::regtype, attnum FROM pg_attribute WHERE attrelid = 'complex'::regclass ORDER BY attnum;
SELECT * FROM complex;
INSERT INTO complex VALUES (1,2);
CREATE TYPE complex AS (a int);
CREATE TYPE ca AS (a int);
CREATE TYPE dd AS (a int, a text);
CREATE TYPE dd AS (a nope);
CREATE TYPE dd AS (a anyelement);
CREATE TYPE nothing AS ();
SELECT ROW()::nothing;
ALTER TYPE complex ADD ATTRIBUTE n text;
SELECT * FROM ca ORDER BY a;
INSERT INTO ca VALUES (3, ROW(1,2,'three'), NULL);
ALTER TYPE complex DROP ATTRIBUTE i;
SELECT * FROM ca ORDER BY a;
ALTER TYPE complex DROP ATTRIBUTE i;
ALTER TYPE complex DROP ATTRIBUTE IF EXISTS i;
ALTER TYPE complex ALTER ATTRIBUTE n TYPE int;
ALTER TYPE complex RENAME ATTRIBUTE n TO label;
ALTER TYPE complex RENAME ATTRIBUTE nope TO x;
SELECT (c).label FROM ca ORDER BY a;
ALTER TYPE complex ADD ATTRIBUTE r int;
CREATE TYPE free AS (a int);
ALTER TYPE free ALTER ATTRIBUTE a TYPE text, ADD ATTRIBUTE b numeric(5,2);
SELECT '(x,1.234)'::free;
ALTER TABLE free ADD COLUMN x int;
ALTER TYPE ca ADD ATTRIBUTE x int;
ALTER TYPE nope ADD ATTRIBUTE x int;
DROP TABLE free;
DROP TYPE free;
CREATE TYPE outerc AS (c complex, m text[]);
SELECT ROW(ROW(1,'q'), '{a,b}')::outerc, ((ROW(ROW(1,'q'), '{a,b}')::outerc).c).label;
CREATE TABLE o (o outerc);
INSERT INTO o VALUES (ROW(ROW(1,'q'), '{a,b}')), ('("(2,""x y"")","{1,2}")');
SELECT *, (o).c, (o).c.label, (o).m[2] FROM o;
SELECT to_json(o), row_to_json(o) FROM o;
COPY o TO STDOUT;
COPY o FROM STDIN;
("(5,zz)",{q})
\.
SELECT * FROM o;
ALTER TYPE outerc RENAME TO außen;
ALTER TYPE außen SET SCHEMA public;
CREATE SCHEMA sch;
ALTER TYPE außen SET SCHEMA sch;
\d o
CREATE ROLE joe;
ALTER TYPE sch.außen OWNER TO joe;
DROP ROLE joe;
DROP TYPE complex;
DROP TYPE complex CASCADE;
\d o
\d ca
CREATE DOMAIN cd AS inventory_item CHECK ((VALUE).price > 0);
SELECT ROW('a',1,2)::cd, (ROW('a',1,2)::cd).price;
SELECT ROW('a',1,-2)::cd;
CREATE TYPE mood AS ENUM ('sad','happy');
CREATE TYPE person AS (name text, m mood, ms mood[]);
CREATE TABLE ps (p person);
INSERT INTO ps VALUES (ROW('a','happy','{sad}')), (ROW('b','sad','{happy,sad}'));
SELECT * FROM ps ORDER BY (p).m;
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
SELECT * FROM ps ORDER BY (p).m;
INSERT INTO ps VALUES ('(x,blue,{blue})');
INSERT INTO ps VALUES ('(x,sad,{blue})');
SELECT * FROM ps ORDER BY (p).m DESC, (p).name;
CREATE FUNCTION make(text) RETURNS person LANGUAGE sql AS $$ SELECT ROW($1, 'happy', NULL)::person $$;
SELECT make('f'), (make('g')).m;
SELECT * FROM make('h');
