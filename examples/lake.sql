-- A Parquet file, as another tool might have left it.
COPY (SELECT g AS id, (ARRAY['AT', 'DE', 'FR'])[1 + g % 3] AS country, (g * 1.25)::numeric(10,2) AS total
      FROM generate_series(1, 5000) g) TO :'file' (FORMAT parquet);
-- It becomes a table: with a key, with types, and checked.
CREATE TABLE orders (id bigint PRIMARY KEY, country text NOT NULL, total numeric(10,2) CHECK (total > 0));
COPY orders FROM :'file' (FORMAT parquet);
SELECT country, count(*), sum(total) FROM orders GROUP BY country ORDER BY country;
UPDATE orders SET country = 'IT' WHERE id = 7;
INSERT INTO orders VALUES (7, 'ES', 1);
DELETE FROM orders WHERE id > 4000;
