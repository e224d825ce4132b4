CREATE TABLE p (a int);
SELECT $1::int AS a \bind x \g
SELECT 1 + $1 AS a, $2::date \bind 1 foo \g
SELECT $1 + 1 WHERE $2 > date '2024-01-01' \bind 5 2024-13-01 \g
SELECT $1::int[] \bind '{1' \g
SELECT $1::numeric(3,1) \bind 1234 \g
SELECT $1::bool \bind maybe \g
INSERT INTO p VALUES ($1) \bind abc \g
UPDATE p SET a = $1 WHERE a = $2 \bind 3000000000 1 \g
DELETE FROM p WHERE a = $1 \bind 3x \g
SELECT $1::json, 1 \bind '{"a":' \g
SELECT $1::jsonb || $2 \bind '{}' '{"a":}' \g
SELECT $1 = 'x', $2 \bind a b \gdesc
SELECT coalesce($1, 5), CASE WHEN $2 THEN 1 END \bind a b \g
SELECT array[$1, 2], ($2, 3) = (1, 2) \bind a b \g
SELECT $1 UNION SELECT 2 \bind a \g
VALUES ($1), (2) \bind zz \g
SELECT * FROM generate_series(1, $1) \bind zz \g
SELECT 1 LIMIT $1 \bind zz \g
SELECT $1 IN (1, 2) \bind zz \g
SELECT interval '1 day' * $1 \bind zz \g
