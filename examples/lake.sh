#!/usr/bin/env bash
# Loads a Parquet file into a table, changes it, and opens the same table in DuckDB.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pgrepl -X -a -v file="$work/orders.parquet" < "$here/lake.sql" 2>&1 | sed "s|$work|.|"
echo "-- In DuckDB:"
python "$here/in_duckdb.py" catalog.db "SELECT country, count(*), sum(total) FROM postgres.orders GROUP BY country ORDER BY country"
