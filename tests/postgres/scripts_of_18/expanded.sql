-- psql 18's expanded tables
\x on
SELECT 1 AS a, 'xyz' AS bcd;
SELECT 1 AS a, 'xyz' AS bcd UNION ALL SELECT 2, E'a\nb';
SELECT 1 AS "a
b", 'xyz' AS c UNION ALL SELECT 2, '';
SELECT g AS a FROM generate_series(8, 12) g;
\pset border 2
SELECT 1 AS a, 'xyz' AS bcd UNION ALL SELECT 2, E'a\nb';
\pset linestyle unicode
SELECT 1 AS a, 'xyz' AS bcd UNION ALL SELECT 2, E'a\nb';
\pset linestyle old-ascii
\pset border 1
SELECT 1 AS a, 'xyz' AS bcd UNION ALL SELECT 2, E'a\nb';
\pset linestyle ascii
\pset border 0
SELECT 1 AS a, 'xyz' AS bcd UNION ALL SELECT 2, E'a\nb';
SELECT g AS a FROM generate_series(8, 12) g;
\pset border 1
\pset format wrapped
\pset columns 20
SELECT 1 AS a, 'xyz' AS bcd UNION ALL SELECT 2, E'a\nb';
SELECT 1 AS a, repeat('xyz ', 9) AS bcd UNION ALL SELECT 2, E'a\nb';
\pset format aligned
\x auto
SELECT 1 AS a, repeat('xyz ', 9) AS bcd UNION ALL SELECT 2, E'a\nb';
SELECT 1 AS a, 'xyz' AS bcd;
\pset xheader_width 12
SELECT 1 AS a, repeat('xyz ', 9) AS bcd UNION ALL SELECT 2, E'a\nb';
\pset tuples_only on
SELECT 1 AS a, repeat('xyz ', 9) AS bcd UNION ALL SELECT 2, E'a\nb';
\pset tuples_only off
\set FETCH_COUNT 2
\x on
SELECT g AS a, E'a\nb' AS b FROM generate_series(8, 12) g;
