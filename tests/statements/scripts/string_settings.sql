-- standard_conforming_strings, escape_string_warning, backslash_quote
SHOW standard_conforming_strings;
SELECT 'a\nb', E'a\nb';
SELECT 'it\'s';
'
;
SET escape_string_warning = off;
SELECT 'a\nb';
SET standard_conforming_strings = off;
SHOW standard_conforming_strings;
SELECT 'a\nb' AS a, E'a\nb' AS b, 'c\\d' AS c, 'tab\x41\101\u0041' AS d;
SELECT 'it\'s' AS q;
SELECT U&'a';
SELECT 'a'
'\tb' AS joined;
SELECT $$a\nb$$ AS dollar, "?column?" FROM (SELECT 1) x;
SELECT B'10\1';
SELECT 'a\0b';
SELECT '\';
' AS over;
SET escape_string_warning = on;
SELECT 'a\nb' AS a;
SELECT 'a\\b' AS a;
SELECT 'a\'b' AS a;
SELECT E'a\nb' AS a;
CREATE TABLE t (a text DEFAULT 'x\ty');
\d t
INSERT INTO t VALUES (DEFAULT), ('p\\q');
SELECT * FROM t;
COMMENT ON TABLE t IS 'one\ntwo';
SELECT obj_description('t'::regclass);
SELECT quote_literal('a\\b'), quote_nullable(E'\\');
CREATE VIEW v AS SELECT 'a\\b'::text AS a;
\d+ v
SET escape_string_warning = off;
SET backslash_quote = off;
SELECT 'a\'b';
';
SELECT E'a\'b';
';
SET backslash_quote = safe_encoding;
SELECT 'a\'b' AS a;
SET backslash_quote = on;
SELECT 'a\'b' AS a;
BEGIN;
SET LOCAL standard_conforming_strings = on;
SELECT 'a\\b' AS a;
ROLLBACK;
SELECT 'a\\b' AS a;
\echo :'AUTOCOMMIT'
\set x 'a\\b'
SELECT :'x' AS a;
SELECT 'a\\b' AS a \; SELECT 'c\'; d' AS b;
RESET standard_conforming_strings;
SELECT 'a\\b' AS a;
SELECT 'a\'; SELECT 1;
SET standard_conforming_strings = off \; SELECT 'a\\b';
SELECT 'a\\b';
\unset x
SET standard_conforming_strings = nosuch;
