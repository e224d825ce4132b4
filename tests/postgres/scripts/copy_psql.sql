-- How psql moves the data of COPY.
CREATE TABLE t (a int, b text);
\copy t from stdin
1	one
2	two
\.
\copy t from pstdin (delimiter ',')
3,three
\.
\copy t to stdout
\copy public . t (a) to stdout (header)
\copy "t"("a","b")to stdout csv
\copy (select a, 'it''s (b)' from t where a > 1) to stdout with csv
\copy (select ')' || b, E'\'' from t where a = 1) to stdout
\copy t to pstdout
\copy binary t to 'x' to y
\copy
\copy t
\copy t (a
\copy (select 1
\copy t into x
\copy t from
\copy t from program ls
\copy t from program
\copy t from '/nonexistent/it''s'
\copy t from /nonexistent/x delimiter ','
\copy t to '/nonexistent/x'
\copy t from '/tmp'
\copy t to '/tmp'
\copy nonsense from stdin
4	x
\.
\copy nonsense to stdout
\copy t from stdin (nonsense)
5	x
\.
\copy t from stdin nonsense
6	x
\.
\copy t from stdin where a <> 8
7	seven
8	eight
\.
\copy t to program 'sleep 0.3; cat; exit 3'
\echo :SHELL_ERROR :SHELL_EXIT_CODE
\copy t from program 'echo 9,nine; exit 4' csv
\echo :SHELL_ERROR :SHELL_EXIT_CODE
\copy t from program 'echo x,nine' csv
\echo :SHELL_ERROR :SHELL_EXIT_CODE
\copy t from program 'echo 10,ten' csv
\echo :SHELL_ERROR :SHELL_EXIT_CODE :ROW_COUNT
\copy t to program 'cat > /dev/null; nonsense-command 2> /dev/null'
\set file /tmp/pgrepl_copy_psql.tmp
\setenv FILE :file
COPY t TO STDOUT (FORMAT csv) \g :file
\! cat $FILE
\copy (select 1) to program 'sleep 0.3; cat > $FILE; cat $FILE'
COPY t TO STDOUT \g |cat > $FILE
\! cat $FILE
COPY t TO STDOUT \g /nonexistent/x
\echo :ERROR :SQLSTATE :ROW_COUNT
\o :file
COPY (SELECT 'in the file') TO STDOUT;
\copy (select 'in the file, too') to stdout
\copy (select 'on standard output') to pstdout
COPY (SELECT 'elsewhere') TO STDOUT \g |sleep 0.3; cat
\o
\! cat $FILE; rm -f $FILE
-- strings of several statements
SELECT 1 AS one\; COPY t FROM STDIN\; COPY (SELECT 2) TO STDOUT\; SELECT 3 AS three;
20	x
\.
COPY t FROM STDIN\; COPY t FROM STDIN\; SELECT count(*) FROM t;
21	x
\.
22	y
23	z
\.
COPY t FROM STDIN\; COPY t FROM STDIN\; SELECT count(*) FROM t;
oops	x
\.
24	y
\.
COPY t FROM STDIN\; COPY t FROM STDIN\; SELECT count(*) FROM t;
25	x
\.
26	y	z
\.
SELECT count(*) FROM t;
COPY t FROM STDIN \gset
27	x
\.
COPY t TO STDOUT \gset
COPY (SELECT a FROM t ORDER BY a LIMIT 1) TO STDOUT \gx
SELECT 'COPY (SELECT 1) TO STDOUT', 'COPY t FROM STDIN' \gexec
28	x
\.
-- variables
COPY t FROM STDIN;
29	x
30	y
\.
\echo :ERROR :SQLSTATE :ROW_COUNT
COPY t TO STDOUT;
\echo :ERROR :SQLSTATE :ROW_COUNT
COPY t FROM STDIN;
x
\.
\echo :ERROR :SQLSTATE :ROW_COUNT :LAST_ERROR_MESSAGE
\set QUIET on
COPY t FROM STDIN;
31	x
\.
\copy t from program 'echo 32,x' csv
\set QUIET off
\pset format html
COPY t FROM STDIN;
33	x
\.
\pset format aligned
-- branches that are not taken
\if false
\copy t from stdin
COPY t FROM STDIN;
\endif
SELECT count(*) FROM t;
-- data that look like commands
COPY t FROM STDIN;
40	\\echo hello
41	select 1;
42	'
\.
SELECT b FROM t WHERE a >= 40;
\set ON_ERROR_ROLLBACK on
BEGIN;
COPY t FROM STDIN;
50	x
\.
COPY t FROM STDIN;
bad
\.
SELECT count(*) FROM t WHERE a = 50;
COMMIT;
\set AUTOCOMMIT off
COPY t FROM STDIN;
51	x
\.
ROLLBACK;
\set AUTOCOMMIT on
SELECT count(*) FROM t WHERE a = 51;
\set VERBOSITY terse
COPY t FROM STDIN;
bad
\.
\set VERBOSITY default
\set SHOW_CONTEXT never
COPY t FROM STDIN;
bad
\.
\set SHOW_CONTEXT errors
\set ECHO errors
COPY t FROM STDIN;
bad
\.
\copy t from program 'echo bad'
\set ECHO all
\set ON_ERROR_STOP on
\copy t from program 'echo bad'
SELECT 'not reached';
