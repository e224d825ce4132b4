-- On the publisher: which tables, which columns, which rows.
CREATE TABLE orders (id bigint PRIMARY KEY, country text NOT NULL, total numeric(10,2), note text);
CREATE PUBLICATION big_orders FOR TABLE orders (id, country, total) WHERE (id > 1000);
\dRp+ big_orders
-- On the subscriber: the same table, and a subscription.
\c reports
CREATE TABLE orders (id bigint PRIMARY KEY, country text NOT NULL, total numeric(10,2), source text DEFAULT 'shop');
CREATE SUBSCRIPTION from_shop CONNECTION 'host=localhost dbname=shop' PUBLICATION big_orders;
\dRs from_shop
SELECT srrelid::regclass AS "table", srsubstate AS state FROM pg_subscription_rel;
-- The publisher keeps a slot for it.
\c shop
SELECT slot_name, plugin, database, active FROM pg_replication_slots;
