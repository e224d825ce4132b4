-- primary keys and unique constraints
CREATE TABLE pk1 (a int PRIMARY KEY, b text UNIQUE, c int, UNIQUE (b, c), UNIQUE (c, b));
\d pk1
CREATE TABLE pk2 (a int, b int, c text, PRIMARY KEY (a, b) INCLUDE (c), CONSTRAINT uq UNIQUE NULLS NOT DISTINCT (c) DEFERRABLE INITIALLY DEFERRED, UNIQUE (a) WITH (fillfactor = 50));
\d pk2
CREATE TABLE pk3 (a int CONSTRAINT key PRIMARY KEY DEFERRABLE, b int CONSTRAINT uq UNIQUE NOT DEFERRABLE);
CREATE TABLE pk3 (a int CONSTRAINT pk3_key PRIMARY KEY DEFERRABLE, b int CONSTRAINT pk3_uq UNIQUE NOT DEFERRABLE);
\d pk3
SELECT conname, contype, condeferrable, condeferred, conkey FROM pg_constraint WHERE conrelid IN ('pk1'::regclass, 'pk2'::regclass, 'pk3'::regclass) ORDER BY conrelid, 1;
SELECT i.indexrelid::regclass, indkey, indnkeyatts, indisunique, indisprimary, indimmediate, indnullsnotdistinct FROM pg_index i WHERE indrelid = 'pk2'::regclass ORDER BY 1;
CREATE TABLE bad (a int PRIMARY KEY, b int PRIMARY KEY);
CREATE TABLE bad (a int PRIMARY KEY, PRIMARY KEY (a));
CREATE TABLE bad (a int, PRIMARY KEY (b));
CREATE TABLE bad (a int, PRIMARY KEY (a, a));
CREATE TABLE bad (a int, UNIQUE (a, a));
CREATE TABLE bad (a int, UNIQUE (ctid));
CREATE TABLE bad (a int, UNIQUE (a) INCLUDE (nosuch));
CREATE TABLE bad (a json PRIMARY KEY);
CREATE TABLE bad (a int, b point UNIQUE);
CREATE TABLE bad (a int PRIMARY KEY NULLS NOT DISTINCT);
CREATE TABLE bad (a int UNIQUE NOT VALID);
CREATE TABLE bad (a int CONSTRAINT pk1 UNIQUE);
CREATE TABLE bad (a int CONSTRAINT x UNIQUE, b int CONSTRAINT x UNIQUE);
CREATE TABLE bad (a int CONSTRAINT x UNIQUE, CONSTRAINT x CHECK (a > 0));
CREATE TABLE bad (a int DEFERRABLE);
CREATE TABLE bad (a int NOT NULL DEFERRABLE);
CREATE TABLE bad (a int UNIQUE NOT DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE bad (a int UNIQUE INITIALLY DEFERRED NOT DEFERRABLE);
CREATE TABLE bad (a int UNIQUE DEFERRABLE NOT DEFERRABLE);
CREATE TABLE bad (a int, UNIQUE (a) USING INDEX TABLESPACE nosuch);
CREATE TABLE same_twice (a int PRIMARY KEY, UNIQUE (a), UNIQUE (a));
\d same_twice
CREATE TABLE same_twice2 (a int, UNIQUE (a), CONSTRAINT n UNIQUE (a), CONSTRAINT m UNIQUE (a) DEFERRABLE);
\d same_twice2
-- foreign keys
CREATE TABLE target (a int PRIMARY KEY, b text UNIQUE, c int, d int, UNIQUE (c, d));
CREATE TABLE fk1 (a int REFERENCES target, b text REFERENCES target (b), c int, d int, FOREIGN KEY (c, d) REFERENCES target (c, d) MATCH FULL ON DELETE CASCADE ON UPDATE SET DEFAULT);
\d fk1
\d target
CREATE TABLE fk2 (x int CONSTRAINT named REFERENCES target ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED, y int REFERENCES target ON UPDATE RESTRICT ON DELETE NO ACTION, z int, w int, FOREIGN KEY (w, z) REFERENCES target (d, c) ON DELETE SET NULL (z));
\d fk2
SELECT conname, confupdtype, confdeltype, confmatchtype, conkey, confkey, confdelsetcols, conindid::regclass FROM pg_constraint WHERE conrelid = 'fk2'::regclass ORDER BY 1;
CREATE TABLE self (a int PRIMARY KEY, parent int REFERENCES self, other int, FOREIGN KEY (other) REFERENCES self (a));
\d self
CREATE TABLE bad (a int REFERENCES nosuch);
CREATE TABLE bad (a int REFERENCES target (nosuch));
CREATE TABLE bad (a int REFERENCES target (c));
CREATE TABLE bad (a int, FOREIGN KEY (nosuch) REFERENCES target);
CREATE TABLE bad (a int, b int, FOREIGN KEY (a, b) REFERENCES target);
CREATE TABLE bad (a int, b int, FOREIGN KEY (a, b) REFERENCES target (a));
CREATE TABLE bad (a int, FOREIGN KEY (a) REFERENCES target (c, d));
CREATE TABLE bad (a text REFERENCES target);
CREATE TABLE bad (a int, b date, FOREIGN KEY (a, b) REFERENCES target (c, d));
CREATE TABLE bad (a int REFERENCES same_twice2);
CREATE TABLE bad (a int REFERENCES same_twice2 (a));
CREATE TABLE bad (a int REFERENCES target MATCH PARTIAL);
CREATE TABLE bad (a int, FOREIGN KEY (a) REFERENCES target ON DELETE SET NULL (b));
CREATE TABLE bad (a int, b int, FOREIGN KEY (a) REFERENCES target ON DELETE SET NULL (b));
CREATE TABLE bad (a int, FOREIGN KEY (a) REFERENCES target ON UPDATE SET NULL (a));
CREATE TABLE bad (a int, FOREIGN KEY (a) REFERENCES target ON DELETE CASCADE (a));
CREATE TABLE bad (a int, FOREIGN KEY (a, a) REFERENCES target (c, d));
CREATE TABLE bad (a int GENERATED ALWAYS AS (1) STORED REFERENCES target ON UPDATE CASCADE);
CREATE TABLE bad (a int GENERATED ALWAYS AS (1) STORED REFERENCES target ON DELETE SET NULL);
CREATE TABLE bad (a int REFERENCES pg_class (oid));
CREATE VIEW a_view AS SELECT 1 AS a;
CREATE TABLE bad (a int REFERENCES a_view);
CREATE TABLE bad (a int CONSTRAINT x REFERENCES target, b int CONSTRAINT x REFERENCES target);
CREATE TABLE bad (a int REFERENCES pk3);
CREATE TABLE fk3 (a bigint REFERENCES target, b varchar(10) REFERENCES target (b), c smallint REFERENCES target);
\d fk3
CREATE TABLE fk4 (a numeric REFERENCES target);
CREATE UNLOGGED TABLE unlogged_target (a int PRIMARY KEY);
CREATE TABLE bad (a int REFERENCES unlogged_target);
CREATE UNLOGGED TABLE unlogged_fk (a int REFERENCES unlogged_target, b int REFERENCES target);
\d unlogged_fk
CREATE UNIQUE INDEX partial_index ON target (d) WHERE d > 0;
CREATE TABLE bad (a int REFERENCES target (d));
CREATE UNIQUE INDEX full_index ON target (d);
CREATE TABLE by_index (a int REFERENCES target (d));
DROP INDEX full_index;
DROP TABLE target;
ALTER TABLE target DROP CONSTRAINT target_pkey;
ALTER TABLE target DROP COLUMN b;
ALTER TABLE target DROP COLUMN b CASCADE;
\d target
DROP TABLE target CASCADE;
\d fk1
-- privileges
CREATE ROLE regress_keys;
CREATE TABLE guarded (a int PRIMARY KEY, b int UNIQUE);
GRANT CREATE ON SCHEMA public TO regress_keys;
SET ROLE regress_keys;
CREATE TABLE refers (a int REFERENCES guarded);
RESET ROLE;
GRANT REFERENCES (b) ON guarded TO regress_keys;
SET ROLE regress_keys;
CREATE TABLE refers (a int REFERENCES guarded);
CREATE TABLE refers (a int REFERENCES guarded (b));
CREATE INDEX ON guarded (b);
ALTER TABLE guarded ADD COLUMN c int;
DROP TABLE guarded;
CREATE TABLE kid () INHERITS (guarded);
RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM regress_keys;
SET ROLE regress_keys;
CREATE TABLE bad (a int);
CREATE SEQUENCE bad;
CREATE VIEW bad AS SELECT 1;
RESET ROLE;
DROP OWNED BY regress_keys;
DROP ROLE regress_keys;
