-- \ef and \ev: the definition goes through the editor into the query buffer
CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS $$
SELECT a + 41
$$;
CREATE VIEW v AS SELECT 41 AS x;
\setenv PSQL_EDITOR 'sed -n p'
\ef f
\ev v
\ef
\ev
\ef nope
\ev nope
\ev f
\setenv PSQL_EDITOR 'sed -i s/41/42/'
\ef f
;
SELECT f(1);
\ev v
\p
\g
TABLE v;
\sf+ f
\sv+ v
\setenv PSQL_EDITOR 'sed -n'
\setenv PSQL_EDITOR_LINENUMBER_ARG ''
\ef f(int) 1
\ev v 1
