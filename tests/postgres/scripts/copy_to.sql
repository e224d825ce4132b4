-- Rows that COPY TO writes, who may, and files and programs of the server.
CREATE TABLE t (a int, b text, c numeric);
INSERT INTO t VALUES (1, 'one', 1.50), (2, NULL, NULL), (3, E'tab\there', 7), (4, E'back\\slash\nnew line', -1),
    (5, 'quote " and '' and ,', 0), (6, '', 6), (7, '\.', 7), (8, '\N', 8), (9, E'\b\f\v\x01 é €', 9);
COPY t TO STDOUT;
COPY t TO STDOUT (HEADER);
COPY t (c, b) TO STDOUT (DELIMITER '|', NULL 'null');
COPY t TO STDOUT (DELIMITER ' ');
COPY t TO STDOUT (FORMAT csv);
COPY t TO STDOUT (FORMAT csv, HEADER true, FORCE_QUOTE *);
COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (b), NULL 'NULL');
COPY t TO STDOUT (FORMAT csv, QUOTE '''', ESCAPE '\', DELIMITER ';');
COPY t (b) TO STDOUT (FORMAT csv);
COPY t TO STDOUT (ENCODING 'sql_ascii');
COPY (SELECT a, upper(b) AS "Upper B", c * 2 FROM t WHERE a < 3 ORDER BY a DESC) TO STDOUT (HEADER);
COPY (SELECT a, upper(b) AS "Upper,B" FROM t WHERE a < 3 ORDER BY a DESC) TO STDOUT (FORMAT csv, HEADER);
COPY (VALUES (1, NULL), (2, 'x')) TO STDOUT;
COPY (TABLE t ORDER BY a LIMIT 1) TO STDOUT;
COPY (SELECT) TO STDOUT;
COPY (SELECT FROM t) TO STDOUT (FORMAT csv);
COPY (WITH w AS (SELECT 1 AS x) SELECT * FROM w) TO STDOUT;
COPY (SELECT 1 WHERE false) TO STDOUT (HEADER);
COPY (SELECT 1/0) TO STDOUT;
COPY (INSERT INTO t VALUES (10, 'ten', 10), (11, NULL, 11) RETURNING a, b) TO STDOUT;
COPY (UPDATE t SET c = c + 1 WHERE a >= 10 RETURNING *) TO STDOUT (FORMAT csv, HEADER);
COPY (DELETE FROM t WHERE a >= 10 RETURNING a) TO STDOUT;
COPY (SELECT '{1,2}'::int[], '2024-01-01'::date, true, '\x00ff'::bytea, 1.5::float8, '1 day'::interval) TO STDOUT;
SET datestyle = 'german';
SET bytea_output = escape;
COPY (SELECT '2024-01-31'::date, '\x00ff'::bytea) TO STDOUT;
RESET ALL;
CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED);
INSERT INTO g VALUES (1);
COPY g TO STDOUT (HEADER);
CREATE TABLE parent (a int);
CREATE TABLE child (b int) INHERITS (parent);
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (2, 3);
COPY parent TO STDOUT;
COPY (SELECT * FROM parent ORDER BY 1) TO STDOUT;
CREATE VIEW v AS SELECT a FROM t WHERE a < 3;
COPY v TO STDOUT;
COPY (SELECT * FROM v) TO STDOUT;
COPY (SELECT relname FROM pg_class WHERE relname = 'pg_class') TO STDOUT;
-- files of the server
\set file `mktemp -u`
\setenv FILE :file
COPY t TO :'file' (FORMAT csv, HEADER);
\! cat $FILE
CREATE TABLE back (LIKE t);
COPY back FROM :'file' (FORMAT csv, HEADER match);
SELECT count(*) FROM (TABLE t INTERSECT TABLE back) x;
COPY back FROM :'file' (FORMAT csv);
\! printf '20\tx\t1\n\\.\n21\tnot read' > $FILE
COPY back FROM :'file';
\! printf '22\tx\t1\\.\n23\tread\t2\n' > $FILE
COPY back FROM :'file';
\! printf '24\tx\t1\r\n25\ty\t2\r\n' > $FILE
COPY back FROM :'file';
\! printf '26\tx\t1\r27\ty\t2\r' > $FILE
COPY back FROM :'file';
\! printf '28\tx\t1\r\n29\ty\t2\n' > $FILE
COPY back FROM :'file';
\! printf '30\tx\t1\n31\ty\r\t2\n' > $FILE
COPY back FROM :'file';
\! printf '32,x,1\n33,"y\r\nz",2\n' > $FILE
COPY back FROM :'file' (FORMAT csv);
\! printf '34,x,1\r\n35,y\n,2\r\n' > $FILE
COPY back FROM :'file' (FORMAT csv);
\! printf '36\t\303\251\t1\n37\t\303(\t1\n' > $FILE
COPY back FROM :'file';
COPY back FROM :'file' (ENCODING 'latin1');
\! printf '38\t\201\t1\n' > $FILE
COPY back FROM :'file' (ENCODING 'win1252');
\! printf '39\t\0\t1\n' > $FILE
COPY back FROM :'file';
\! printf '40\tx\t1\n\\.' > $FILE
COPY back FROM :'file';
\! printf '41\tx\t1\r\n\\.\n' > $FILE
COPY back FROM :'file';
\! printf '42,x,1\n\\.\n43,y,1\n' > $FILE
COPY back FROM :'file' (FORMAT csv);
\! : > $FILE
COPY back FROM :'file';
COPY back FROM :'file' (HEADER);
COPY (SELECT 'é €') TO :'file' (ENCODING 'latin1');
COPY (SELECT 'é') TO :'file' (ENCODING 'latin1');
\! od -An -tx1 $FILE
\! rm -f $FILE
COPY back FROM PROGRAM 'printf "50\tx\t1\n51\ty\t2\n"';
COPY back FROM PROGRAM 'printf "52\tx\t1\n"; exit 3';
COPY t TO PROGRAM 'cat > /dev/null';
COPY t TO PROGRAM 'cat > /dev/null; exit 3';
SELECT * FROM back WHERE a >= 20;
-- privileges
CREATE ROLE copier;
SET ROLE copier;
COPY t TO STDOUT;
COPY t FROM STDIN;
1	x	1
\.
COPY (SELECT 1) TO '/tmp/x';
COPY t TO '/tmp/x';
COPY t FROM '/tmp/x';
COPY t TO PROGRAM 'cat';
COPY t FROM PROGRAM 'cat';
RESET ROLE;
GRANT SELECT (a), INSERT (a, b) ON t TO copier;
SET ROLE copier;
COPY t TO STDOUT;
COPY t (a) TO STDOUT;
COPY (SELECT a FROM t WHERE a = 1) TO STDOUT;
COPY (SELECT b FROM t) TO STDOUT;
COPY t (a, b) FROM STDIN;
60	x
\.
COPY t (a) FROM STDIN WHERE a > 60;
60
61
\.
COPY t (a, b) FROM STDIN WHERE b = 'x';
60	x
\.
COPY t (c) FROM STDIN;
60
\.
RESET ROLE;
GRANT pg_read_server_files TO copier;
SET ROLE copier;
COPY t (a) FROM '/nonexistent/x';
COPY t (a) TO '/nonexistent/x';
RESET ROLE;
GRANT pg_write_server_files, pg_execute_server_program TO copier;
SET ROLE copier;
COPY t (a) TO '/nonexistent/x';
COPY t (a) TO PROGRAM 'cat > /dev/null';
RESET ROLE;
REVOKE ALL ON t FROM copier;
DROP ROLE copier;
SELECT a, b FROM t WHERE a >= 60;
\copy (select e'a\rb', e'c\nd') to program 'od -An -tx1' csv
\copy (select e'a\rb', e'c\nd') to program 'od -An -tx1'
