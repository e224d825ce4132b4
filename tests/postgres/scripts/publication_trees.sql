-- partitioned tables and inheritance in publications
CREATE TABLE root(a int PRIMARY KEY, b int) PARTITION BY RANGE (a);
CREATE TABLE leaf1 PARTITION OF root FOR VALUES FROM (0) TO (10);
CREATE TABLE mid PARTITION OF root FOR VALUES FROM (10) TO (20) PARTITION BY LIST (a);
CREATE TABLE leaf2 PARTITION OF mid DEFAULT;
CREATE SCHEMA s;
CREATE TABLE s.leaf3 PARTITION OF root FOR VALUES FROM (20) TO (30);
CREATE TABLE plain(a int);
CREATE PUBLICATION p1 FOR TABLE root;
CREATE PUBLICATION p2 FOR TABLE root WITH (publish_via_partition_root = true);
CREATE PUBLICATION p3 FOR TABLE root, leaf1, leaf2;
CREATE PUBLICATION p4 FOR TABLE root, leaf1 WITH (publish_via_partition_root = true);
CREATE PUBLICATION p5 FOR TABLE mid WITH (publish_via_partition_root = true);
CREATE PUBLICATION p6 FOR TABLE mid, leaf1;
CREATE PUBLICATION p7 FOR ALL TABLES;
CREATE PUBLICATION p8 FOR ALL TABLES WITH (publish_via_partition_root = true);
CREATE PUBLICATION p9 FOR TABLES IN SCHEMA s;
CREATE PUBLICATION p10 FOR TABLES IN SCHEMA public;
CREATE PUBLICATION p11 FOR TABLES IN SCHEMA public WITH (publish_via_partition_root = true);
CREATE PUBLICATION p12 FOR TABLES IN SCHEMA s, TABLE root WITH (publish_via_partition_root = true);
CREATE PUBLICATION p13 FOR TABLES IN SCHEMA s WITH (publish_via_partition_root = true);
SELECT pubname, schemaname, tablename, attnames, rowfilter FROM pg_publication_tables ORDER BY length(pubname), 1, 2, 3;
SELECT p.pubname, g.relid::regclass FROM pg_get_publication_tables('p1', 'p2') g JOIN pg_publication p ON p.oid = g.pubid ORDER BY 1, g.relid::regclass::text;
SELECT p.pubname, g.relid::regclass FROM pg_get_publication_tables('p5', 'p6') g JOIN pg_publication p ON p.oid = g.pubid ORDER BY 1, g.relid::regclass::text;
SELECT p.pubname, g.relid::regclass FROM pg_get_publication_tables('p13', 'p2') g JOIN pg_publication p ON p.oid = g.pubid ORDER BY 1, g.relid::regclass::text;
SELECT * FROM pg_get_publication_tables('nosuch');
SELECT p.pubname, g.relid::regclass FROM pg_get_publication_tables('p1', 'p1') g JOIN pg_publication p ON p.oid = g.pubid ORDER BY 1, g.relid::regclass::text;
DROP PUBLICATION p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13;
-- filters and column lists on a partitioned table need publish_via_partition_root
CREATE PUBLICATION p FOR TABLE root WHERE (a > 5);
CREATE PUBLICATION p FOR TABLE root (a);
CREATE PUBLICATION p FOR TABLE root (a) WHERE (a > 5);
CREATE PUBLICATION p FOR TABLE root (nosuch);
CREATE PUBLICATION p FOR TABLE root WHERE (nosuch);
CREATE PUBLICATION p FOR TABLE root WHERE (a > 5) WITH (publish_via_partition_root = false);
CREATE PUBLICATION p FOR TABLE root WHERE (a > 5), leaf1 WHERE (a < 3) WITH (publish_via_partition_root);
ALTER PUBLICATION p SET (publish_via_partition_root = false);
ALTER PUBLICATION p SET (publish_via_partition_root = true);
ALTER PUBLICATION p SET TABLE leaf1 WHERE (a < 3);
ALTER PUBLICATION p SET (publish_via_partition_root = false);
ALTER PUBLICATION p ADD TABLE root WHERE (a > 5);
ALTER PUBLICATION p ADD TABLE root (a);
ALTER PUBLICATION p SET TABLE root (a);
ALTER PUBLICATION p ADD TABLE root;
ALTER PUBLICATION p SET (publish_via_partition_root = true);
ALTER PUBLICATION p SET TABLE root (a), mid (a, b) WHERE (b = 1);
ALTER PUBLICATION p SET (publish_via_partition_root = false, publish = 'insert');
ALTER PUBLICATION p SET (publish_via_partition_root = false, publish = 'foo');
ALTER PUBLICATION p SET TABLE mid WHERE (b = 1), leaf1;
ALTER PUBLICATION p SET (publish_via_partition_root = false);
\dRp+ p
-- attached and detached
ALTER PUBLICATION p SET TABLE root;
ALTER TABLE root DETACH PARTITION s.leaf3;
SELECT pubname, schemaname, tablename FROM pg_publication_tables ORDER BY 1, 2, 3;
ALTER TABLE root ATTACH PARTITION s.leaf3 FOR VALUES FROM (20) TO (30);
SELECT pubname, schemaname, tablename FROM pg_publication_tables ORDER BY 1, 2, 3;
DROP TABLE root;
SELECT pubname, schemaname, tablename FROM pg_publication_tables ORDER BY 1, 2, 3;
\dRp+ p
DROP PUBLICATION p;
-- inheritance
CREATE TABLE parent(a int, b int);
CREATE TABLE child1(c int) INHERITS (parent);
CREATE TABLE child2() INHERITS (child1);
CREATE TABLE other(o int) INHERITS (parent);
CREATE PUBLICATION p FOR TABLE parent;
\dRp+ p
ALTER PUBLICATION p DROP TABLE parent;
\dRp+ p
ALTER PUBLICATION p ADD TABLE ONLY parent;
ALTER PUBLICATION p ADD TABLE child1;
\dRp+ p
ALTER PUBLICATION p DROP TABLE parent;
ALTER PUBLICATION p DROP TABLE ONLY parent;
ALTER PUBLICATION p SET TABLE parent *;
ALTER PUBLICATION p SET TABLE ONLY child1, other;
\dRp+ p
ALTER PUBLICATION p SET TABLE parent (a) WHERE (b > 1);
\dRp+ p
ALTER PUBLICATION p SET TABLE parent WHERE (a > 1), child1 WHERE (a > 2);
ALTER PUBLICATION p SET TABLE child1 WHERE (a > 2), parent;
ALTER PUBLICATION p SET TABLE child1, parent WHERE (a > 2);
ALTER PUBLICATION p SET TABLE parent WHERE (a > 2), child1;
ALTER PUBLICATION p SET TABLE parent (a), child1;
ALTER PUBLICATION p SET TABLE child1, parent (a);
ALTER PUBLICATION p SET TABLE child1 (a), parent;
ALTER PUBLICATION p SET TABLE ONLY parent WHERE (a > 1), ONLY child1 WHERE (a > 2);
ALTER PUBLICATION p SET TABLE child2, child1, parent;
ALTER PUBLICATION p SET TABLE other (o), ONLY parent;
\dRp+ p
