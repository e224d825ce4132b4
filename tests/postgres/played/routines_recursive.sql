CREATE FUNCTION down(a int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF a > 0 THEN
    RETURN down(a - 1) * 2;
  END IF;
  RETURN 1 / a;
END $$;
SELECT down(0);
SELECT down(1);
SELECT down(3);
SELECT down(3);
CREATE FUNCTION even(a int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN a = 0 OR odd(a - 1); END $$;
CREATE FUNCTION odd(a int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE there text;
BEGIN
  IF a = 0 THEN RAISE EXCEPTION 'none'; END IF;
  IF a > 5 THEN GET DIAGNOSTICS there = PG_CONTEXT; RAISE NOTICE '%', there; END IF;
  RETURN even(a - 1);
END $$;
SELECT even(7);
SELECT even(8);
CREATE FUNCTION fact(n numeric) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE f numeric;
BEGIN
  IF n < 0 THEN RAISE EXCEPTION 'negative %', n USING HINT = 'positive'; END IF;
  IF n > 3 THEN f := n * fact(n - 2.5); END IF;
  f := n * fact(n - 1);
  RETURN f;
END $$;
SELECT fact(3);
SELECT fact(6);
CREATE PROCEDURE pr(n int) LANGUAGE plpgsql AS $$ BEGIN IF n > 0 THEN CALL pr(n - 1); ELSE PERFORM 1 / n; END IF; END $$;
CALL pr(2);
CREATE FUNCTION two(a int, OUT b int, OUT c text) LANGUAGE plpgsql AS $$ BEGIN b := a; c := 'x'; END $$;
CALL two(1);
CALL two(1, 2, 'x');
CALL two(1, 2);
CALL two('x', NULL, NULL);
CREATE FUNCTION tab(a int) RETURNS TABLE (b int) LANGUAGE sql AS 'SELECT 1';
CALL tab(1);
CALL tab(1, 2);
CALL json_each('{}');
CALL json_each('{}', 'a', '{}');
CALL now();
CALL count(1);
CALL row_number();
