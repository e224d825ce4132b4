-- 1. The slot exists already, and has kept what happened since it was made.
SELECT slot_name FROM pg_create_logical_replication_slot('early', 'pgoutput');
INSERT INTO t VALUES (1, 'before the subscription');
\c test_sub
CREATE SUBSCRIPTION sub CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pub
  WITH (create_slot = false, slot_name = 'early', copy_data = false);
SELECT * FROM t;
-- 2. The subscription goes, the slot stays: the subscriber's database is about to move.
ALTER SUBSCRIPTION sub DISABLE;
ALTER SUBSCRIPTION sub SET (slot_name = NONE);
DROP SUBSCRIPTION sub;
\c test_pub
SELECT slot_name, plugin, active FROM pg_replication_slots;
INSERT INTO t VALUES (2, 'meanwhile');
\c test_sub
CREATE SUBSCRIPTION sub CONNECTION 'host=localhost dbname=test_pub' PUBLICATION pub
  WITH (create_slot = false, slot_name = 'early', copy_data = false);
SELECT * FROM t;
-- 3. The publisher is not reachable yet. Nothing is asked of it; the rest is done by hand later.
CREATE SUBSCRIPTION later CONNECTION 'host=/no/such/folder dbname=test_pub' PUBLICATION pub WITH (connect = false);
SELECT subname, subenabled, subslotname FROM pg_subscription WHERE subname = 'later';
ALTER SUBSCRIPTION later ENABLE;
ALTER SUBSCRIPTION later REFRESH PUBLICATION;
-- 4. The publisher is gone for good. The subscription cannot drop its slot there, so it lets go of it first.
DROP SUBSCRIPTION later;
ALTER SUBSCRIPTION later DISABLE;
ALTER SUBSCRIPTION later SET (slot_name = NONE);
DROP SUBSCRIPTION later;
-- What would have stayed behind on the publisher is dropped there.
ALTER SUBSCRIPTION sub DISABLE;
ALTER SUBSCRIPTION sub SET (slot_name = NONE);
DROP SUBSCRIPTION sub;
\c test_pub
SELECT pg_drop_replication_slot('early');
SELECT count(*) FROM pg_replication_slots;
-- A slot of one's own shows what happens in a database, in readable text.
SELECT slot_name FROM pg_create_logical_replication_slot('look', 'test_decoding');
BEGIN;
UPDATE t SET b = 'changed' WHERE a = 1;
DELETE FROM t WHERE a = 2;
COMMIT;
SELECT data FROM pg_logical_slot_peek_changes('look', NULL, NULL, 'include-xids', '0');
SELECT count(*) FROM pg_logical_slot_get_changes('look', NULL, NULL);
SELECT count(*) FROM pg_logical_slot_get_changes('look', NULL, NULL);
SELECT pg_drop_replication_slot('look');
