-- What test_decoding.txt and pgoutput.bin have, as pg_recvlogical 17 wrote it: the first with -o include-timestamp=on, the second
-- with -o proto_version=4 -o publication_names=p -o messages=true; the slots were made before
CREATE TABLE t (id bigint PRIMARY KEY, name text, n numeric, f float8, b bool, by bytea, d date, ts timestamp, tz timestamptz, arr int[], tarr text[], j jsonb, i interval, bits bit(3), vb varbit, u uuid, r int4range, ch char(5), big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE "We ird""s" ("a b" int, "c]:d" text, "e'f" text);
ALTER TABLE "We ird""s" REPLICA IDENTITY FULL;
CREATE TABLE nok (x int);
CREATE PUBLICATION p FOR ALL TABLES;
INSERT INTO t VALUES (1, E'it''s\na "line" \\ x''', 1234567890123456789.00012300, '-0', true, '\x00ff0a', '0044-03-15 BC', 'infinity', '2024-02-29 12:00:00.123456+05', '{1,NULL,3}', ARRAY['a b','x"y',E'n\nl',NULL,'null'], '{"a": 1.10}', '1 mon -2 days 03:00:00.5', B'101', B'0011010', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '[1,5)', 'ab', repeat('x', 5000));
INSERT INTO t (id) VALUES (2);
BEGIN; UPDATE t SET name = 'changed' WHERE id = 1; UPDATE t SET id = 3 WHERE id = 2; DELETE FROM t WHERE id = 3; COMMIT;
INSERT INTO "We ird""s" VALUES (1, 'x', E'table public.t: INSERT: id[bigint]:1\nCOMMIT 7\n');
UPDATE "We ird""s" SET "a b" = 2;
INSERT INTO nok VALUES (1);
SELECT pg_logical_emit_message(true, 'pre', E'con\nten''t');
SELECT pg_logical_emit_message(false, 'pre', 'x');
TRUNCATE t, nok RESTART IDENTITY CASCADE;
SELECT pg_logical_emit_message(false, 'pre', 'last');
