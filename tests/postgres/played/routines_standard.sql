CREATE TABLE tbl(a int, b text);
CREATE FUNCTION add(a integer, b integer) RETURNS integer LANGUAGE SQL IMMUTABLE RETURNS NULL ON NULL INPUT RETURN a + b;
SELECT add(1,2), add(1,null);
\sf add
CREATE PROCEDURE insert_data(a integer, b integer) LANGUAGE SQL BEGIN ATOMIC
  INSERT INTO tbl VALUES (a);
  INSERT INTO tbl VALUES (b, 'x'), (b+1, 'y');
END;
CALL insert_data(1, 2);
SELECT * FROM tbl;
\sf insert_data
CREATE FUNCTION g(x int) RETURNS SETOF tbl LANGUAGE SQL BEGIN ATOMIC
  UPDATE tbl SET b = b || g.x, a = tbl.a + 1 WHERE a > x;
  DELETE FROM tbl t USING tbl u WHERE t.a = u.a AND t.a > 100;
  SELECT * FROM tbl WHERE a > x ORDER BY a;
END;
SELECT * FROM g(1);
\sf g
CREATE FUNCTION h(x int) RETURNS bool LANGUAGE SQL BEGIN ATOMIC SELECT CASE WHEN x % 2 = 0 THEN true ELSE false END; END;
\sf h
SELECT h(3), h(4);
CREATE FUNCTION r() RETURNS bool LANGUAGE SQL BEGIN ATOMIC SELECT 1; RETURN false; END;
\sf r
SELECT r();
DROP TABLE tbl;
ALTER TABLE tbl RENAME TO tbl2;
\sf+ g
CALL insert_data(10,20);
SELECT * FROM g(9);
CREATE FUNCTION bad(x int) RETURNS int LANGUAGE SQL RETURN x || 'a';
CREATE FUNCTION bad(x int) RETURNS int LANGUAGE SQL RETURN nope;
CREATE FUNCTION bad(x anyelement) RETURNS anyelement LANGUAGE SQL RETURN x;
CREATE FUNCTION bad(x int) RETURNS int LANGUAGE SQL BEGIN ATOMIC CREATE TABLE a(b int); END;
CREATE FUNCTION bad(x int) RETURNS int LANGUAGE plpgsql RETURN 1;
CREATE FUNCTION bad(x int) RETURNS int LANGUAGE SQL AS 'select 1' RETURN 1;
CREATE FUNCTION nolang(x int) RETURNS int RETURN x * 2;
SELECT nolang(4);
CREATE FUNCTION ins(x int) RETURNS int LANGUAGE SQL BEGIN ATOMIC INSERT INTO tbl2 AS q (a, b) SELECT x, 'z' WHERE x > 0 RETURNING q.a; END;
SELECT ins(5), ins(0);
\sf ins
SELECT pg_get_function_sqlbody('add'::regproc), pg_get_function_sqlbody('ins'::regproc);
CREATE VIEW vw AS SELECT add(a, 1) FROM tbl2;
DROP FUNCTION add;
DROP TABLE tbl2 CASCADE;
CREATE TABLE k(a int primary key, b int);
CREATE FUNCTION up(x int) RETURNS void LANGUAGE SQL BEGIN ATOMIC INSERT INTO k VALUES (x, 1) ON CONFLICT (a) DO UPDATE SET b = k.b + excluded.b WHERE k.b < 100; END;
SELECT up(1); SELECT up(1); TABLE k;
\sf up
