-- On the publisher: which tables, which columns, which rows.
CREATE TABLE orders (id bigint PRIMARY KEY, country text NOT NULL, total numeric(10,2), note text);
INSERT INTO orders VALUES (900, 'DE', 10.00, 'too old'), (1001, 'AT', 25.50, 'gift'), (1002, 'FR', 99.00, NULL);
CREATE PUBLICATION big_orders FOR TABLE orders (id, country, total) WHERE (id > 1000);
\dRp+ big_orders
-- On the subscriber: the same table, and a subscription. The rows are there.
\c reports
CREATE TABLE orders (id bigint PRIMARY KEY, country text NOT NULL, total numeric(10,2), source text DEFAULT 'shop');
CREATE SUBSCRIPTION from_shop CONNECTION 'host=localhost dbname=shop' PUBLICATION big_orders;
SELECT * FROM orders ORDER BY id;
-- Every later transaction follows, filtered the same way.
\c shop
BEGIN;
UPDATE orders SET total = total * 2 WHERE country = 'FR';
INSERT INTO orders VALUES (17, 'DE', 1, 'old'), (1003, 'IT', 7.25, 'new');
DELETE FROM orders WHERE id = 1001;
COMMIT;
\c reports
SELECT * FROM orders ORDER BY id;
SELECT srrelid::regclass AS "table", srsubstate AS state FROM pg_subscription_rel;
-- The publisher keeps a slot for it.
\c shop
SELECT slot_name, plugin, database, active FROM pg_replication_slots;
-- What is written now waits for the subscriber.
INSERT INTO orders VALUES (1004, 'ES', 3, 'later');
