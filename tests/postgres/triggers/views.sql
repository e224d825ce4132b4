CREATE TABLE t (a int, b text); CREATE VIEW v AS SELECT a, upper(b) AS b FROM t; CREATE TABLE u (a int); INSERT INTO u VALUES (1),(2);
INSERT INTO t VALUES (1,'x'),(2,'y');
CREATE FUNCTION io() RETURNS trigger LANGUAGE plpgsql AS $$
begin
  raise notice '% % % old % new %', tg_name, tg_when, tg_op, old, new;
  if tg_op = 'INSERT' then insert into t values (new.a, new.b); if new.a = 9 then return null; end if; new.b = 'ret'; return new;
  elsif tg_op = 'UPDATE' then update t set a = new.a, b = new.b where a = old.a; return new;
  else delete from t where a = old.a; return old; end if; end $$;
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ begin raise notice '% % %', tg_name, tg_when, tg_op; return null; end $$;
CREATE TRIGGER vi INSTEAD OF INSERT OR UPDATE OR DELETE ON v FOR EACH ROW EXECUTE FUNCTION io();
CREATE TRIGGER vb BEFORE INSERT OR UPDATE OR DELETE ON v EXECUTE FUNCTION say();
CREATE TRIGGER va AFTER INSERT OR UPDATE OR DELETE ON v EXECUTE FUNCTION say();
\d+ v
INSERT INTO v VALUES (3,'z'),(9,'n') RETURNING *;
INSERT INTO v (a) SELECT a + 50 FROM v ORDER BY a LIMIT 2;
UPDATE v SET a = v.a + 100 FROM u WHERE u.a = v.a RETURNING v.*, u.a;
DELETE FROM v WHERE a < 60 RETURNING *;
SELECT * FROM t ORDER BY a;
COPY v FROM stdin;
70	copied
\.
SELECT * FROM t ORDER BY a;
SELECT is_insertable_into, is_trigger_updatable, is_trigger_deletable, is_trigger_insertable_into FROM information_schema.views WHERE table_name = 'v';
ALTER VIEW v RENAME TO v2;
DROP TRIGGER vi ON v2;
INSERT INTO v2 VALUES (1,'x');
-- functions and privileges
CREATE ROLE bob_of_triggers;
GRANT CREATE ON SCHEMA public TO bob_of_triggers;
SET ROLE bob_of_triggers;
CREATE TRIGGER x BEFORE INSERT ON t EXECUTE FUNCTION say();
RESET ROLE; GRANT TRIGGER ON t TO bob_of_triggers; REVOKE EXECUTE ON FUNCTION say() FROM public; SET ROLE bob_of_triggers;
CREATE TRIGGER x BEFORE INSERT ON t EXECUTE FUNCTION say();
DROP TRIGGER x ON t; ALTER TRIGGER x ON t RENAME TO y; ALTER TABLE t DISABLE TRIGGER x;
RESET ROLE;
-- system triggers
CREATE TABLE pk (a int PRIMARY KEY); CREATE TABLE fk (a int REFERENCES pk);
INSERT INTO fk VALUES (1);
ALTER TABLE fk DISABLE TRIGGER ALL; INSERT INTO fk VALUES (1);
ALTER TABLE fk ENABLE TRIGGER ALL; INSERT INTO fk VALUES (2);
ALTER TABLE pk DISABLE TRIGGER ALL; INSERT INTO pk VALUES (1); DELETE FROM pk; SELECT * FROM fk;
SELECT regexp_replace(tgname, '\d+', 'N'), tgenabled, tgfoid::regproc, tgtype, tgconstrrelid::regclass, tgdeferrable FROM pg_trigger WHERE tgrelid IN ('pk'::regclass, 'fk'::regclass) ORDER BY 1, 3;
SELECT relname, relhastriggers FROM pg_class WHERE relname IN ('pk','fk','u') ORDER BY 1;
-- suppress
CREATE TABLE s (a int, b numeric, g int GENERATED ALWAYS AS (a * 2) STORED); INSERT INTO s VALUES (1,1.0),(2,2);
CREATE TRIGGER z BEFORE UPDATE ON s FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
UPDATE s SET b = b; UPDATE s SET b = 1.00 WHERE a = 1; UPDATE s SET b = 2;
CREATE TRIGGER y AFTER UPDATE ON s FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
UPDATE s SET b = 5;
SELECT suppress_redundant_updates_trigger();
-- generated in before
CREATE FUNCTION gen() RETURNS trigger LANGUAGE plpgsql AS $$ begin raise notice '% %', old, new; new.a = new.a + 1; return new; end $$;
DROP TRIGGER y ON s; CREATE TRIGGER y BEFORE INSERT OR UPDATE ON s FOR EACH ROW EXECUTE FUNCTION gen();
INSERT INTO s VALUES (10, 1); UPDATE s SET b = 9 WHERE a = 11; SELECT * FROM s ORDER BY a;
-- inheritance
CREATE TABLE par (a int); CREATE TABLE chi (b int) INHERITS (par);
CREATE TRIGGER pr BEFORE INSERT OR UPDATE ON par FOR EACH ROW EXECUTE FUNCTION gen(); CREATE TRIGGER ps AFTER UPDATE ON par EXECUTE FUNCTION say();
CREATE TRIGGER cr BEFORE UPDATE ON chi FOR EACH ROW EXECUTE FUNCTION gen(); CREATE TRIGGER cs AFTER UPDATE ON chi EXECUTE FUNCTION say();
INSERT INTO par VALUES (1); INSERT INTO chi VALUES (1,1); UPDATE par SET a = a * 10; SELECT tableoid::regclass, * FROM par ORDER BY 1;
CREATE TABLE lk (LIKE s INCLUDING ALL); SELECT count(*) FROM pg_trigger WHERE tgrelid = 'lk'::regclass;
-- ddl in trigger, wrong results
CREATE FUNCTION ddl() RETURNS trigger LANGUAGE plpgsql AS $$ begin execute 'alter table dd add column x int'; return new; end $$;
CREATE TABLE dd (a int); CREATE TRIGGER d BEFORE INSERT ON dd FOR EACH ROW EXECUTE FUNCTION ddl();
INSERT INTO dd VALUES (1);
CREATE FUNCTION trunc() RETURNS trigger LANGUAGE plpgsql AS $$ begin truncate dd; return new; end $$;
DROP TRIGGER d ON dd; CREATE TRIGGER d BEFORE INSERT ON dd FOR EACH ROW EXECUTE FUNCTION trunc();
INSERT INTO dd VALUES (1);
CREATE FUNCTION wrong() RETURNS trigger LANGUAGE plpgsql AS $$ begin return row(1,2,3); end $$;
DROP TRIGGER d ON dd; CREATE TRIGGER d BEFORE INSERT ON dd FOR EACH ROW EXECUTE FUNCTION wrong();
INSERT INTO dd VALUES (1);
CREATE FUNCTION noret() RETURNS trigger LANGUAGE plpgsql AS $$ begin end $$;
DROP TRIGGER d ON dd; CREATE TRIGGER d BEFORE INSERT ON dd FOR EACH ROW EXECUTE FUNCTION noret();
INSERT INTO dd VALUES (1);
CREATE FUNCTION sqlt() RETURNS trigger LANGUAGE sql AS 'select 1';
CREATE FUNCTION inf() RETURNS trigger LANGUAGE plpgsql AS $$ begin insert into inf values (1); return new; end $$;
CREATE TABLE inf (a int); CREATE TRIGGER i AFTER INSERT ON inf FOR EACH ROW EXECUTE FUNCTION inf();
\set VERBOSITY terse
INSERT INTO inf VALUES (1);
INSERT INTO t VALUES (500, 'alive') RETURNING a;
CREATE SCHEMA sc CREATE TABLE x (a int) CREATE TRIGGER tg AFTER INSERT ON x EXECUTE FUNCTION public.say();
\d sc.x
DROP TABLE sc.x; DROP TABLE s; DROP SCHEMA sc CASCADE;
REVOKE ALL ON SCHEMA public FROM bob_of_triggers; DROP OWNED BY bob_of_triggers; DROP ROLE bob_of_triggers;

-- a row that a trigger instead of a statement has changed may change again
CREATE TABLE staff (empname text, salary int);
CREATE TABLE staff_aud (o text, e text);
CREATE VIEW staff_v AS SELECT * FROM staff;
CREATE FUNCTION staff_f() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
 IF TG_OP = 'INSERT' THEN INSERT INTO staff VALUES (NEW.empname, NEW.salary); RETURN NEW; END IF;
 IF TG_OP = 'UPDATE' THEN UPDATE staff SET salary = NEW.salary WHERE empname = OLD.empname; RETURN NEW; END IF;
 DELETE FROM staff WHERE empname = OLD.empname; RETURN OLD; END $$;
CREATE TRIGGER t INSTEAD OF INSERT OR UPDATE OR DELETE ON staff_v FOR EACH ROW EXECUTE FUNCTION staff_f();
CREATE FUNCTION staff_b() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER b BEFORE UPDATE ON staff FOR EACH ROW EXECUTE FUNCTION staff_b();
INSERT INTO staff_v VALUES ('a', 1), ('b', 2);
UPDATE staff_v SET salary = 7 WHERE empname = 'a';
DELETE FROM staff_v WHERE empname = 'a';
DROP TRIGGER b ON staff;
CREATE FUNCTION staff_a() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO staff_aud SELECT 'D', o.empname FROM o; RETURN NULL; END $$;
CREATE TRIGGER a AFTER DELETE ON staff REFERENCING OLD TABLE AS o EXECUTE FUNCTION staff_a();
DELETE FROM staff_v WHERE empname = 'b';
INSERT INTO staff VALUES ('c', 1), ('d', 2);
CREATE OR REPLACE FUNCTION staff_f() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
 UPDATE staff SET salary = NEW.salary WHERE empname = OLD.empname;
 UPDATE staff SET salary = salary + 1 WHERE empname = OLD.empname;
 DELETE FROM staff WHERE empname = 'd';
 RETURN NEW; END $$;
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON staff FOR EACH ROW EXECUTE FUNCTION staff_b();
CREATE TRIGGER b2 BEFORE UPDATE OR DELETE ON staff FOR EACH ROW EXECUTE FUNCTION staff_b();
UPDATE staff_v SET salary = 9;
SELECT * FROM staff;
-- a trigger that changes the row itself
CREATE FUNCTION staff_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF pg_trigger_depth() < 2 THEN UPDATE staff SET salary = 0 WHERE empname = OLD.empname; END IF; RETURN NEW; END $$;
CREATE TRIGGER s BEFORE UPDATE ON staff FOR EACH ROW EXECUTE FUNCTION staff_self();
UPDATE staff SET salary = 5 WHERE empname = 'c';
CREATE FUNCTION staff_twice() RETURNS int LANGUAGE plpgsql AS $$
BEGIN UPDATE staff SET empname = 'x' WHERE empname = 'c'; DELETE FROM staff WHERE empname = 'x'; RETURN 1; END $$;
DROP TRIGGER s ON staff;
SELECT staff_twice();
SELECT * FROM staff;
