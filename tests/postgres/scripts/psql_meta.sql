-- what psql itself does: output formats, variables, conditionals
CREATE TABLE t (a int PRIMARY KEY, b text);
SELECT 1 AS a, 'x' AS b \gx
SELECT 1 AS a, 'x' AS b \g
\x
SELECT 1 AS a, E'two\nlines' AS b, NULL AS c;
\x off
\pset null '(null)'
SELECT NULL AS n, E'two\nlines' AS t, 1.5 AS num;
\pset border 2
SELECT 1 AS a, 'b' AS b;
\pset border 0
SELECT 1 AS a, 'b' AS b;
\pset border 1
\a
SELECT 1 AS a, 'b' AS b;
\f ','
SELECT 1 AS a, 'b' AS b;
\t
SELECT 1 AS a, 'b' AS b;
\t
\a
\pset format csv
SELECT 1 AS a, 'b,"c"' AS b, NULL AS n;
\pset format aligned
\pset linestyle unicode
SELECT 1 AS a, 'b' AS b;
\pset linestyle ascii
\pset title 'A title'
SELECT 1 AS a, 'b' AS b;
\pset title
\pset footer off
SELECT 1 AS a;
\pset footer on
\pset null ''
\set name 'world'
\echo hello :name :'name' :"name" :nosuch
SELECT :'name' AS greeting, :{?name} AS is_set, :{?other} AS not_set;
SELECT 5 AS five, 'six' AS six \gset pre_
\echo :pre_five :pre_six
\unset name
\echo :name
\if true
\echo yes
\else
\echo no
\endif
\if :{?pre_five}
SELECT 'in if';
\elif true
SELECT 'not here';
\else
SELECT 'nor here';
\endif
\if nonsense
\endif
\else
\endif
\qecho to the output
\unset pre_five
\nosuch
\echo 'single ''quoted''' "double" `echo shell`
\set VERBOSITY terse
SELECT nosuch;
\set VERBOSITY sqlstate
SELECT nosuch;
\set VERBOSITY default
SELECT nosuch;
SELECT 1; SELECT 2; SELECT
3;
SELECT 1 AS "multi
line", 'wide ümlaut' AS "ünïcode", '日本語' AS jp;
SELECT 'a;b', $$dollar;quoted$$, /* comment; here */ 1 -- and ; here
;
SELECT (1
;
);
\p
\r
\timing off
\pset expanded auto
SELECT 1 AS x;
\pset expanded off
SELECT 'abc' AS x \gdesc
SELECT format('SELECT %s AS gexec', n) FROM generate_series(1, 2) n \gexec
\d nosuch
\dt nosuch
\dn
\l nosuch
\conninfo extra
\set ON_ERROR_STOP 0
\set AUTOCOMMIT maybe
\pset nosuch
\pset format nosuch
\pset border x
\dt
\dn public
SELECT 1 \; SELECT 2 \; SELECT 3;
\set SHOW_ALL_RESULTS off
SELECT 1 \; SELECT 2;
\set SHOW_ALL_RESULTS on
\set ECHO none
SELECT 'echo none';
\set ECHO all
\h nosuch
\c test_sub
SELECT current_database();
\q
SELECT 'never';
