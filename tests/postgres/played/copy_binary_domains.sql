CREATE DOMAIN filled AS int NOT NULL;
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE DOMAIN given AS int CHECK (VALUE IS NOT NULL);
CREATE TYPE held AS (f filled);
CREATE TABLE bare (a int);
INSERT INTO bare VALUES (1), (NULL);
CREATE TABLE bare_arrays (a int[]);
INSERT INTO bare_arrays VALUES ('{1}'), ('{2,NULL}');
CREATE TABLE large (a int);
INSERT INTO large VALUES (20);
\copy bare TO 'bare.bin' (FORMAT binary)
\copy large TO 'large.bin' (FORMAT binary)
CREATE TABLE t (a filled);
\copy t FROM 'bare.bin' (FORMAT binary)
CREATE TABLE g (a given);
\copy g FROM 'bare.bin' (FORMAT binary)
CREATE TABLE s (a small);
\copy s FROM 'bare.bin' (FORMAT binary)
\copy s FROM 'large.bin' (FORMAT binary)
SELECT a IS NULL FROM s ORDER BY a;
CREATE TABLE p (j jsonpath, k jsonpath[]);
INSERT INTO p VALUES ('$.a ? (@ > 1)', '{$.a,NULL}');
\copy p TO 'p.bin' (FORMAT binary)
\copy p FROM 'p.bin' (FORMAT binary)
SELECT * FROM p;
