CREATE TABLE t (a int, b text, c numeric, d jsonb, e point, f int[], g tsvector, h date);
CREATE INDEX ON t (a);
CREATE INDEX ON t (a);
CREATE INDEX ON t (a, b DESC, lower(b), (a + 1) NULLS FIRST);
CREATE INDEX ON t (lower(b), upper(b), (a + 1), (b || b), (CASE WHEN a > 0 THEN a END));
CREATE UNIQUE INDEX named ON t (b COLLATE "C" text_pattern_ops ASC NULLS LAST) INCLUDE (c, h) NULLS NOT DISTINCT WITH (fillfactor = 80) TABLESPACE pg_default WHERE a > 0 AND b IS NOT NULL;
CREATE INDEX hash_i ON t USING hash (b);
CREATE INDEX gin_i ON t USING gin (d jsonb_path_ops, f, g);
CREATE INDEX gist_i ON t USING gist (e) WITH (buffering = off);
CREATE INDEX brin_i ON t USING brin (a, h) WITH (pages_per_range = 16, autosummarize);
CREATE INDEX spgist_i ON t USING spgist (e);
\d t
\d t_a_b_lower_expr_idx
\d named
\d+ gin_i
CREATE INDEX named ON t (a);
CREATE INDEX IF NOT EXISTS named ON t (a);
CREATE INDEX IF NOT EXISTS ON t (a);
CREATE INDEX t ON t (a);
CREATE INDEX ON nosuch (a);
CREATE INDEX ON t (nosuch);
CREATE INDEX ON t (lower(nosuch));
CREATE INDEX ON t (a) WHERE nosuch;
CREATE INDEX ON t (a) WHERE a;
CREATE INDEX ON t (a) WHERE max(a) > 1;
CREATE INDEX ON t (a) WHERE h < now();
CREATE INDEX ON t (a) WHERE (SELECT true);
CREATE INDEX ON t ((SELECT 1));
CREATE INDEX ON t ((sum(a)));
CREATE INDEX ON t ((random()));
CREATE INDEX ON t (generate_series(1, a));
CREATE INDEX ON t (ctid);
CREATE INDEX ON t ((ctid::text));
CREATE INDEX ON t (a) WHERE tableoid > 5::oid;
CREATE INDEX ON t (e);
CREATE INDEX ON t USING nosuch (a);
CREATE INDEX ON t USING gin (a);
CREATE INDEX ON t USING hash (a, b);
CREATE UNIQUE INDEX ON t USING hash (a);
CREATE INDEX ON t USING hash (a) INCLUDE (b);
CREATE INDEX ON t USING hash (a DESC);
CREATE INDEX ON t USING gin (f NULLS FIRST);
CREATE INDEX ON t (a text_ops);
CREATE INDEX ON t (a nosuch_ops);
CREATE INDEX ON t (a nosuch.int4_ops);
CREATE INDEX ON t (a pg_catalog.int4_ops);
CREATE INDEX ON t (a int4_ops (siglen = 3));
CREATE INDEX ON t (a COLLATE "C");
CREATE INDEX ON t (b COLLATE nosuch);
CREATE INDEX ON t (a) INCLUDE (lower(b));
CREATE INDEX ON t (a) INCLUDE (b COLLATE "C");
CREATE INDEX ON t (a) INCLUDE (b DESC);
CREATE INDEX ON t (a) INCLUDE (b text_ops);
CREATE INDEX ON t (a) INCLUDE (a, a);
CREATE INDEX ON t (a) WITH (nosuch = 1);
CREATE INDEX ON t (a) WITH (fillfactor = 1);
CREATE INDEX ON t (a) TABLESPACE nosuch;
CREATE INDEX ON pg_class (relname);
CREATE INDEX ON t (a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a);
CREATE VIEW v AS SELECT a FROM t;
CREATE INDEX ON v (a);
CREATE SEQUENCE s;
CREATE INDEX ON s (last_value);
CREATE INDEX ON named (b);
CREATE INDEX CONCURRENTLY conc ON t (a);
CREATE INDEX CONCURRENTLY ON t (a);
CREATE INDEX CONCURRENTLY IF NOT EXISTS conc ON t (a);
BEGIN;
CREATE INDEX CONCURRENTLY ON t (a);
ROLLBACK;
DROP INDEX CONCURRENTLY conc;
BEGIN;
DROP INDEX CONCURRENTLY named;
ROLLBACK;
DROP INDEX CONCURRENTLY named, hash_i;
DROP INDEX CONCURRENTLY named CASCADE;
-- partitioned tables
CREATE TABLE p (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (b text, a int);
CREATE INDEX p2_own ON p2 (b);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
CREATE INDEX ON p (b);
CREATE UNIQUE INDEX ON p (b);
CREATE UNIQUE INDEX p_ab ON p (a, b);
CREATE INDEX CONCURRENTLY ON p (a);
CREATE INDEX only_i ON ONLY p (a);
\d p
\d p1
\d p2
CREATE INDEX p1_only ON p1 (a);
CREATE INDEX p1_other ON p1 (a, b);
ALTER INDEX only_i ATTACH PARTITION p1_other;
ALTER INDEX only_i ATTACH PARTITION p1_only;
ALTER INDEX only_i ATTACH PARTITION p1_only;
ALTER INDEX only_i ATTACH PARTITION p2_own;
ALTER INDEX only_i ATTACH PARTITION nosuch;
ALTER INDEX only_i ATTACH PARTITION t_a_idx;
ALTER INDEX only_i ATTACH PARTITION p1;
ALTER INDEX p1_only ATTACH PARTITION p2_own;
ALTER INDEX nosuch ATTACH PARTITION p1_only;
\d p
CREATE INDEX p2_only ON p2 (a);
ALTER INDEX only_i ATTACH PARTITION p2_only;
CREATE INDEX p2_more ON p2 (a);
ALTER INDEX only_i ATTACH PARTITION p2_more;
\d+ only_i
\d p2_only
ALTER INDEX p_b_idx ATTACH PARTITION p1_only;
DROP INDEX p1_only;
DROP INDEX only_i;
DROP INDEX CONCURRENTLY p_b_idx;
DROP INDEX p_b_idx;
\d p2
ALTER INDEX p_ab SET (fillfactor = 50);
ALTER INDEX p_ab RENAME TO p_ab2;
ALTER TABLE p_ab2 RENAME TO p_ab3;
-- ALTER INDEX
ALTER INDEX named SET (fillfactor = 60);
ALTER INDEX named RESET (fillfactor);
ALTER INDEX named SET (nosuch = 1);
ALTER INDEX named RENAME TO renamed;
ALTER INDEX IF EXISTS nosuch RENAME TO renamed;
ALTER INDEX nosuch RENAME TO renamed;
ALTER INDEX t RENAME TO renamed_table;
ALTER INDEX v RENAME TO renamed_view;
ALTER INDEX renamed RENAME TO hash_i;
ALTER INDEX t_a_b_lower_expr_idx ALTER COLUMN 3 SET STATISTICS 100;
ALTER INDEX t_a_b_lower_expr_idx ALTER COLUMN 1 SET STATISTICS 100;
ALTER INDEX t_a_b_lower_expr_idx ALTER COLUMN 7 SET STATISTICS 100;
ALTER INDEX t_a_b_lower_expr_idx ALTER COLUMN 0 SET STATISTICS 100;
\d+ t_a_b_lower_expr_idx
ALTER INDEX renamed OWNER TO postgres;
ALTER TABLE renamed OWNER TO postgres;
ALTER TABLE renamed ADD COLUMN x int;
ALTER TABLE renamed RENAME COLUMN b TO x;
ALTER INDEX renamed SET SCHEMA public;
DROP INDEX t;
DROP INDEX v;
DROP INDEX nosuch;
DROP INDEX IF EXISTS nosuch, nosuchschema.nosuch;
DROP TABLE renamed;
DROP VIEW renamed;
DROP INDEX renamed, hash_i;
ALTER TABLE renamed_table DROP COLUMN a;
\d renamed_table
CREATE TABLE keys (a int);
CREATE INDEX keys_i ON keys ((a + 1), a) INCLUDE (a);
SELECT n, pg_get_indexdef('keys_i'::regclass, n, true) FROM generate_series(-2, 4) n;
DROP TABLE keys;
