\set SHOW_CONTEXT always
-- an interrupt that was caught does not come again
SET statement_timeout = 100;
DO $$ BEGIN PERFORM pg_sleep(5); EXCEPTION WHEN query_canceled THEN RAISE NOTICE 'caught %', sqlerrm; PERFORM pg_sleep(1.2); END $$;
RESET statement_timeout;

-- a message may be empty
DO $$ BEGIN RAISE NOTICE ''; END $$;
DO $$ BEGIN RAISE EXCEPTION ''; END $$;
DO $$ BEGIN RAISE EXCEPTION USING MESSAGE = ''; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '[%] [%]', sqlerrm, sqlstate; END $$;

-- COPY tells the line while its triggers run
CREATE TABLE r (i int);
CREATE FUNCTION n() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  said text;
BEGIN
  RAISE WARNING 'w %', TG_NAME;
  BEGIN
    PERFORM 1 / (new.i - 2);
  EXCEPTION WHEN division_by_zero THEN
    GET STACKED DIAGNOSTICS said = pg_exception_context;
    RAISE NOTICE '%', said;
  END;
  RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION n();
CREATE TRIGGER after AFTER INSERT ON r FOR EACH ROW EXECUTE FUNCTION n();
COPY r FROM stdin;
1
2
\.
COPY r FROM stdin;
3
x
\.
SELECT * FROM r;

-- a column that a standard body uses
CREATE TABLE t (id int, a int, b text);
CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql RETURN x + (SELECT max(a) FROM t);
CREATE PROCEDURE p() LANGUAGE sql BEGIN ATOMIC INSERT INTO t (b) VALUES ('x'); END;
ALTER TABLE t ALTER a TYPE bigint;
ALTER TABLE t ALTER b TYPE varchar;
ALTER TABLE t ALTER id TYPE bigint;

-- standard bodies as they are printed
CREATE FUNCTION g(x int) RETURNS text LANGUAGE sql
  RETURN CASE WHEN x > 1 THEN 'a'::text ELSE (SELECT 'b' FROM t WHERE id = x) END;
CREATE FUNCTION h(x int) RETURNS bool LANGUAGE sql RETURN EXISTS (SELECT FROM t WHERE id = x) OR x IN (SELECT a FROM t);
CREATE FUNCTION k(x int) RETURNS int[] LANGUAGE sql BEGIN ATOMIC RETURN ARRAY(SELECT a FROM t WHERE id = x); END;
\sf g
\sf h
\sf k
SELECT pg_get_function_sqlbody('g'::regproc), pg_get_function_sqlbody('k'::regproc);

-- a loop keeps its cursor
DO $$ DECLARE c CURSOR FOR SELECT 1; BEGIN c := 'kept'; FOR r IN c LOOP CLOSE c; END LOOP; END $$;
DO $$ DECLARE c CURSOR FOR SELECT 1; BEGIN c := 'kept'; FOR r IN c LOOP RAISE NOTICE '%', r; END LOOP; OPEN c; CLOSE c; END $$;
