CREATE FUNCTION add(a int, b int DEFAULT 5, c text DEFAULT 'it''s') RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT a + $2';
CREATE FUNCTION tab(n int) RETURNS TABLE(x int, y text) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET work_mem = '1MB' COST 5 ROWS 7 AS $$ SELECT 1,'b' $$;
CREATE PROCEDURE p(IN a int, INOUT b text, VARIADIC c numeric[]) LANGUAGE sql AS $x$ SELECT '$$ $function$' $x$;
CREATE FUNCTION "Odd Name"("A" anyelement, OUT q anyarray) LANGUAGE sql PARALLEL SAFE LEAKPROOF AS $$SELECT array[$1]$$;
CREATE FUNCTION noargs() RETURNS SETOF timestamptz LANGUAGE sql AS $$
  SELECT now();
  SELECT now() $$;
\df
\df+
\dfp
\dfn add
\df add int
\df add int int text
\df add int int text -
\df nope
\df upper
\dfa max int
\sf add
\sf+ noargs
\sf tab(int)
\sf p
\sf "Odd Name"
\sf nope
\sf
\sf nope(int)
\sf upper(text)
SELECT pg_get_function_arguments('tab'::regproc), pg_get_function_identity_arguments('add'::regproc), pg_get_function_result('tab'::regproc), pg_get_function_arg_default('add'::regproc,2), pg_get_function_arg_default('add'::regproc,1), pg_get_function_sqlbody('add'::regproc);
SELECT 'add'::regproc, 'add(int,int,text)'::regprocedure, 'tab'::regproc::oid > 16383;
SELECT 'add(int)'::regprocedure;
COMMENT ON FUNCTION add(int,int,text) IS 'adds';
COMMENT ON PROCEDURE p IS 'proc';
COMMENT ON FUNCTION p IS 'x';
SELECT obj_description('add'::regproc, 'pg_proc');
CREATE ROLE r1; CREATE ROLE r2;
GRANT EXECUTE ON FUNCTION add(int,int,text) TO r1;
REVOKE EXECUTE ON FUNCTION add FROM public;
\df+ add
SELECT proacl FROM pg_proc WHERE proname='add';
SET ROLE r2; SELECT add(1); RESET ROLE;
SET ROLE r1; SELECT add(1); RESET ROLE;
SELECT has_function_privilege('r1','add(int,int,text)','EXECUTE'), has_function_privilege('r2','add(int,int,text)','execute'), has_function_privilege('add(int,int,text)','execute with grant option');
GRANT SELECT ON FUNCTION add TO r1;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO r2;
REVOKE ALL ON ALL PROCEDURES IN SCHEMA public FROM public;
SET ROLE r2; SELECT add(1); CALL p(1,'x',1); ALTER FUNCTION add COST 3; DROP FUNCTION add; COMMENT ON FUNCTION add IS 'x'; CREATE OR REPLACE FUNCTION add(a int, b int DEFAULT 5, c text DEFAULT 'its') RETURNS int LANGUAGE sql AS 'select 1'; CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'; RESET ROLE;
DROP ROLE r2;
