-- what a publication can hold, and how psql shows it
CREATE TABLE t1 (a int PRIMARY KEY, b text, c numeric(8,2) DEFAULT 0, d date);
CREATE TABLE t2 (a int, b text NOT NULL, c timestamptz, PRIMARY KEY (a, b));
CREATE TABLE "Odd Name" ("Key" int PRIMARY KEY, "select" text, plain text);
CREATE SCHEMA sales;
CREATE TABLE sales.orders (id bigint PRIMARY KEY, customer int, total numeric, placed timestamp);
CREATE TABLE sales.items (id bigint PRIMARY KEY, order_id bigint REFERENCES sales.orders, qty smallint);
CREATE PUBLICATION p_empty;
CREATE PUBLICATION p_all FOR ALL TABLES;
CREATE PUBLICATION p_one FOR TABLE t1;
CREATE PUBLICATION p_two FOR TABLE t1, t2;
CREATE PUBLICATION p_two_words FOR TABLE t1, TABLE t2;
CREATE PUBLICATION p_only FOR TABLE ONLY t1, ONLY (t2), t1 *;
CREATE PUBLICATION p_schema FOR TABLES IN SCHEMA sales;
CREATE PUBLICATION p_schemas FOR TABLES IN SCHEMA sales, public;
CREATE PUBLICATION p_current FOR TABLES IN SCHEMA CURRENT_SCHEMA;
CREATE PUBLICATION p_mixed FOR TABLE t1, TABLES IN SCHEMA sales, TABLE t2;
CREATE PUBLICATION p_mixed2 FOR TABLES IN SCHEMA sales, CURRENT_SCHEMA, TABLE t1, t2;
CREATE PUBLICATION p_columns FOR TABLE t1 (a, c), t2 (b, a);
CREATE PUBLICATION p_filter FOR TABLE t1 WHERE (a > 5 AND b = 'x'), t2 WHERE (b <> 'y');
CREATE PUBLICATION p_both FOR TABLE sales.orders (id, total, customer) WHERE (id < 1000 OR id IN (5000, 6000)), "Odd Name" ("Key", "select");
CREATE PUBLICATION p_insert FOR TABLE t1 WITH (publish = 'insert');
CREATE PUBLICATION p_none FOR TABLE t1 WITH (publish = '');
CREATE PUBLICATION p_spaces FOR TABLE t1 WITH (publish = ' INSERT , update', publish_via_partition_root);
CREATE PUBLICATION p_trunc FOR TABLE t1 WITH (publish = truncate, publish_via_partition_root = off);
CREATE PUBLICATION p_root FOR TABLE t1 WITH (publish_via_partition_root = 1);
CREATE PUBLICATION "P Odd" FOR TABLE "Odd Name" WHERE ("Key" > 0);
\dRp
\dRp p_t*
\dRp+
\dRp+ p_bo*
\dRp "P Odd"
\dRp+ nosuch
\dRp nosuch
\d t1
\d t2
\d sales.orders
\d "Odd Name"
-- changing one
ALTER PUBLICATION p_empty ADD TABLE t1;
ALTER PUBLICATION p_empty ADD TABLE t2 (a, b) WHERE (a > 1);
ALTER PUBLICATION p_empty ADD TABLE sales.orders, sales.items;
\dRp+ p_empty
ALTER PUBLICATION p_empty DROP TABLE t1, sales.items;
ALTER PUBLICATION p_empty SET TABLE t2 (a, b) WHERE (a > 1), t1 (a, b);
\dRp+ p_empty
ALTER PUBLICATION p_empty SET (publish = 'update, delete');
ALTER PUBLICATION p_empty SET (publish_via_partition_root = true, publish = 'insert');
\dRp p_empty
ALTER PUBLICATION p_empty SET TABLES IN SCHEMA sales;
\dRp+ p_empty
ALTER PUBLICATION p_empty ADD TABLES IN SCHEMA public, TABLE sales.orders;
ALTER PUBLICATION p_empty DROP TABLES IN SCHEMA sales;
\dRp+ p_empty
ALTER PUBLICATION p_empty SET TABLE t1;
ALTER PUBLICATION p_empty RENAME TO p_renamed;
COMMENT ON PUBLICATION p_renamed IS 'it was empty';
SELECT obj_description(oid, 'pg_publication') FROM pg_publication WHERE pubname = 'p_renamed';
COMMENT ON PUBLICATION p_renamed IS NULL;
SELECT obj_description(oid, 'pg_publication') FROM pg_publication WHERE pubname = 'p_renamed';
DROP PUBLICATION p_renamed;
DROP PUBLICATION IF EXISTS p_renamed;
DROP PUBLICATION p_renamed;
DROP PUBLICATION p_one, p_two CASCADE;
DROP PUBLICATION IF EXISTS p_one, p_only RESTRICT;
DROP PUBLICATION p_current, nosuch, p_mixed;
-- what the catalog says
SELECT pubname, puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication ORDER BY pubname;
SELECT pubname, schemaname, tablename, attnames, rowfilter FROM pg_publication_tables WHERE pubname IN ('p_both', 'p_columns', 'p_filter', 'p_schema') ORDER BY 1, 2, 3;
SELECT p.pubname, pr.prrelid::regclass, pr.prattrs, pg_get_expr(pr.prqual, pr.prrelid) FROM pg_publication_rel pr JOIN pg_publication p ON p.oid = pr.prpubid ORDER BY 1, pr.prrelid::regclass::text;
SELECT p.pubname, n.nspname FROM pg_publication_namespace pn JOIN pg_publication p ON p.oid = pn.pnpubid JOIN pg_namespace n ON n.oid = pn.pnnspid ORDER BY 1, 2;
-- a member goes when its table, schema or database goes
DROP TABLE sales.items;
\dRp+ p_schema
ALTER TABLE t1 RENAME TO t1_new;
ALTER TABLE t1_new RENAME COLUMN b TO label;
\dRp+ p_filter
ALTER TABLE t1_new RENAME COLUMN a TO "Key";
\dRp+ p_columns
\dRp+ p_filter
DROP TABLE t1_new;
\dRp+ p_filter
DROP SCHEMA sales;
DROP SCHEMA sales CASCADE;
\dRp+ p_schemas
\dRp+ p_both
