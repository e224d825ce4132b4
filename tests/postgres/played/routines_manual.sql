CREATE TABLE emp (name text, salary numeric, age integer, cubicle text);
INSERT INTO emp VALUES ('Bill', 4200, 45, '(2,1)'), ('Ann', 900, 30, '(1,1)');
CREATE FUNCTION clean_emp() RETURNS void AS '
    DELETE FROM emp
        WHERE salary < 0;
' LANGUAGE SQL;
SELECT clean_emp();
CREATE PROCEDURE clean_empp() AS '
    DELETE FROM emp
        WHERE salary < 0;
' LANGUAGE SQL;
CALL clean_empp();
CREATE FUNCTION one() RETURNS integer AS $$
    SELECT 1 AS result;
$$ LANGUAGE SQL;
SELECT one();
CREATE FUNCTION add_em(integer, integer) RETURNS integer AS $$
    SELECT $1 + $2;
$$ LANGUAGE SQL;
SELECT add_em(1, 2) AS answer;
CREATE TABLE bank (accountno integer, balance numeric);
INSERT INTO bank VALUES (17, 500);
CREATE FUNCTION tf1 (accountno integer, debit numeric) RETURNS numeric AS $$
    UPDATE bank
        SET balance = balance - debit
        WHERE accountno = tf1.accountno;
    SELECT balance FROM bank WHERE accountno = tf1.accountno;
$$ LANGUAGE SQL;
SELECT tf1(17, 100.0);
CREATE OR REPLACE FUNCTION tf1 (accountno integer, debit numeric) RETURNS numeric AS $$
    UPDATE bank
        SET balance = balance - debit
        WHERE accountno = tf1.accountno
    RETURNING balance;
$$ LANGUAGE SQL;
SELECT tf1(17, 50);
CREATE FUNCTION add_em2(x integer, y integer) RETURNS float8 AS $$
    SELECT x + y;
$$ LANGUAGE SQL;
SELECT add_em2(1,2);
CREATE FUNCTION double_salary(emp) RETURNS numeric AS $$
    SELECT $1.salary * 2 AS salary;
$$ LANGUAGE SQL;
SELECT name, double_salary(emp.*) AS dream FROM emp WHERE emp.cubicle = '(2,1)';
SELECT name, double_salary(emp) AS dream FROM emp;
SELECT name, double_salary(ROW(name, salary*1.1, age, cubicle)) AS dream FROM emp;
CREATE FUNCTION new_emp() RETURNS emp AS $$
    SELECT text 'None' AS name,
        1000.0 AS salary,
        25 AS age,
        '(2,2)' AS cubicle;
$$ LANGUAGE SQL;
SELECT new_emp();
SELECT * FROM new_emp();
SELECT (new_emp()).name;
SELECT new_emp().name;
SELECT name(new_emp());
CREATE OR REPLACE FUNCTION new_emp() RETURNS emp AS $$
    SELECT ROW('None', 1000.0, 25, '(2,2)')::emp;
$$ LANGUAGE SQL;
SELECT new_emp();
CREATE FUNCTION getname(emp) RETURNS text AS $$
    SELECT $1.name;
$$ LANGUAGE SQL;
SELECT getname(new_emp());
CREATE FUNCTION add_em3 (IN x int, IN y int, OUT sum int) AS 'SELECT x + y' LANGUAGE SQL;
SELECT add_em3(3,7);
CREATE FUNCTION sum_n_product (x int, y int, OUT sum int, OUT product int) AS 'SELECT x + y, x * y' LANGUAGE SQL;
SELECT * FROM sum_n_product(11,42);
DROP FUNCTION sum_n_product (x int, y int, OUT sum int, OUT product int);
CREATE FUNCTION sum_n_product (x int, y int, OUT sum int, OUT product int) AS 'SELECT x + y, x * y' LANGUAGE SQL;
DROP FUNCTION sum_n_product (int, int);
CREATE PROCEDURE tp1 (accountno integer, debit numeric, OUT new_balance numeric) AS $$
    UPDATE bank
        SET balance = balance - debit
        WHERE accountno = tp1.accountno
    RETURNING balance;
$$ LANGUAGE SQL;
CALL tp1(17, 100.0, NULL);
DROP PROCEDURE tp1(IN integer, IN numeric, OUT numeric);
CREATE FUNCTION mleast(VARIADIC arr numeric[]) RETURNS numeric AS $$
    SELECT min($1[i]) FROM generate_subscripts($1, 1) g(i);
$$ LANGUAGE SQL;
SELECT mleast(10, -1, 5, 4.4);
SELECT mleast(ARRAY[10, -1, 5, 4.4]);
SELECT mleast(VARIADIC ARRAY[10, -1, 5, 4.4]);
SELECT mleast(VARIADIC ARRAY[]::numeric[]);
SELECT mleast(VARIADIC arr => ARRAY[10, -1, 5, 4.4]);
SELECT mleast(arr => 10);
SELECT mleast(arr => ARRAY[10, -1, 5, 4.4]);
CREATE FUNCTION foo(a int, b int DEFAULT 2, c int DEFAULT 3) RETURNS int LANGUAGE SQL AS $$
    SELECT $1 + $2 + $3;
$$;
SELECT foo(10, 20, 30); SELECT foo(10, 20); SELECT foo(10); SELECT foo();
CREATE TABLE foo (fooid int, foosubid int, fooname text);
INSERT INTO foo VALUES (1, 1, 'Joe'); INSERT INTO foo VALUES (1, 2, 'Ed'); INSERT INTO foo VALUES (2, 1, 'Mary');
CREATE FUNCTION getfoo(int) RETURNS foo AS $$
    SELECT * FROM foo WHERE fooid = $1;
$$ LANGUAGE SQL;
SELECT *, upper(fooname) FROM getfoo(1) AS t1;
CREATE FUNCTION getfoos(int) RETURNS SETOF foo AS $$
    SELECT * FROM foo WHERE fooid = $1;
$$ LANGUAGE SQL;
SELECT * FROM getfoos(1) AS t1;
CREATE TABLE tab (y int, z int);
INSERT INTO tab VALUES (1, 2), (3, 4), (5, 6), (7, 8);
CREATE FUNCTION sum_n_product_with_tab (x int, OUT sum int, OUT product int) RETURNS SETOF record AS $$
    SELECT $1 + tab.y, $1 * tab.y FROM tab;
$$ LANGUAGE SQL;
SELECT * FROM sum_n_product_with_tab(10);
CREATE TABLE nodes (name text, parent text);
INSERT INTO nodes VALUES ('Top', NULL), ('Child1', 'Top'), ('Child2', 'Top'), ('Child3', 'Top'), ('SubChild1', 'Child1'), ('SubChild2', 'Child1');
CREATE FUNCTION listchildren(text) RETURNS SETOF text AS $$
    SELECT name FROM nodes WHERE parent = $1
$$ LANGUAGE SQL STABLE;
SELECT listchildren('Top');
SELECT name, listchildren(name) FROM nodes;
SELECT x, CASE WHEN x > 0 THEN generate_series(1, 5) ELSE 0 END FROM tab t(x);
CREATE FUNCTION case_generate_series(cond bool, start int, fin int, els int) RETURNS SETOF int AS $$
BEGIN IF cond THEN RETURN QUERY SELECT generate_series(start, fin); ELSE RETURN QUERY SELECT els; END IF; END $$ LANGUAGE plpgsql;
SELECT y, case_generate_series(y > 3, 1, 2, 0) FROM tab;
CREATE FUNCTION sum_n_product_with_tab2 (x int) RETURNS TABLE(sum int, product int) AS $$
    SELECT $1 + tab.y, $1 * tab.y FROM tab;
$$ LANGUAGE SQL;
SELECT * FROM sum_n_product_with_tab2(2);
CREATE FUNCTION make_array(anyelement, anyelement) RETURNS anyarray AS $$
    SELECT ARRAY[$1, $2];
$$ LANGUAGE SQL;
SELECT make_array(1, 2) AS intarray, make_array('a'::text, 'b') AS textarray;
SELECT make_array('a', 'b');
CREATE FUNCTION make_array2(anycompatible, anycompatible) RETURNS anycompatiblearray AS $$
    SELECT ARRAY[$1, $2];
$$ LANGUAGE SQL;
SELECT make_array2(1, 2.5) AS numericarray;
SELECT make_array2('a', 'b') AS textarray;
CREATE FUNCTION is_greater(anyelement, anyelement) RETURNS bool AS $$
    SELECT $1 > $2;
$$ LANGUAGE SQL;
SELECT is_greater(1, 2);
CREATE FUNCTION invalid_func() RETURNS anyelement AS $$
    SELECT 1;
$$ LANGUAGE SQL;
CREATE FUNCTION dup (f1 anyelement, OUT f2 anyelement, OUT f3 anyarray) AS 'select $1, array[$1,$1]' LANGUAGE SQL;
SELECT * FROM dup(22);
CREATE FUNCTION anyleast (VARIADIC anyarray) RETURNS anyelement AS $$
    SELECT min($1[i]) FROM generate_subscripts($1, 1) g(i);
$$ LANGUAGE SQL;
SELECT anyleast(10, -1, 5, 4);
SELECT anyleast('abc'::text, 'def');
CREATE FUNCTION concat_values(text, VARIADIC anyarray) RETURNS text AS $$
    SELECT array_to_string($2, $1);
$$ LANGUAGE SQL;
SELECT concat_values('|', 1, 4, 2);
CREATE FUNCTION test(int, real) RETURNS text LANGUAGE sql AS $$ SELECT 'a' $$;
CREATE FUNCTION test(smallint, double precision) RETURNS text LANGUAGE sql AS $$ SELECT 'b' $$;
SELECT test(1, 1.5);
CREATE FUNCTION concat_lower_or_upper(a text, b text, uppercase boolean DEFAULT false) RETURNS text AS $$
 SELECT CASE WHEN $3 THEN UPPER($1 || ' ' || $2) ELSE LOWER($1 || ' ' || $2) END;
$$ LANGUAGE SQL IMMUTABLE STRICT;
SELECT concat_lower_or_upper('Hello', 'World', true); SELECT concat_lower_or_upper('Hello', 'World');
SELECT concat_lower_or_upper(a => 'Hello', b => 'World'); SELECT concat_lower_or_upper(a => 'Hello', uppercase => true, b => 'World');
SELECT concat_lower_or_upper('Hello', 'World', uppercase => true); SELECT concat_lower_or_upper(a := 'Hello', uppercase := true, b := 'World');
SELECT anyleast('abc'::text, 'ABC' COLLATE "C");
CREATE FUNCTION check_password(uname TEXT, pass TEXT) RETURNS BOOLEAN AS $$
DECLARE passed BOOLEAN;
BEGIN SELECT (uname = 'a') INTO passed; RETURN passed; END;
$$ LANGUAGE plpgsql SECURITY DEFINER SET search_path = admin, pg_temp;
SELECT check_password('a', 'b');
\df check_password
ALTER FUNCTION check_password(text, text) RESET search_path;
ALTER FUNCTION make_array(anyelement, anyelement) RENAME TO mk;
SELECT mk(1, 2);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE FUNCTION better(m mood) RETURNS mood LANGUAGE sql AS $$ SELECT CASE m WHEN 'sad' THEN 'ok'::mood ELSE 'happy' END $$;
SELECT better('sad'), better('ok'), 'better(mood)'::regprocedure;
DROP TYPE mood;
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE FUNCTION dm(posint) RETURNS posint LANGUAGE sql AS $$ SELECT $1 - 1 $$;
SELECT dm(5); SELECT dm(1); SELECT dm(0);
DROP DOMAIN posint;
