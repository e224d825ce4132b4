CREATE TABLE orders (id bigint PRIMARY KEY, country text NOT NULL, total numeric(10,2), placed timestamp, note text);
INSERT INTO orders SELECT g, (ARRAY['DE', 'AT', 'CH', 'FR'])[g % 4 + 1], g % 1000 + 0.5,
  timestamp '2026-01-01' + g * interval '10 seconds', 'note ' || g FROM generate_series(1, :rows) g;
CREATE PUBLICATION recent FOR TABLE orders (id, country, total, placed) WHERE (id > :old);
\c reports
CREATE TABLE orders (id bigint PRIMARY KEY, country text NOT NULL, total numeric(10,2), placed timestamp);
\set AUTOAPPLY off
CREATE SUBSCRIPTION from_shop CONNECTION 'host=localhost dbname=shop' PUBLICATION recent;
