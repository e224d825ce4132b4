#!/usr/bin/env bash
# make demo, its second part: two million rows, a filtered copy and a batch of changes; DuckDB reads what came of it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rows=${PGREPL_DEMO_ROWS:-2000000} old=$((rows / 4)) more=$((rows / 4))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/large*.sql "$work"
cd "$work"

now() { python -c 'import time; print(time.time())'; }

timed() { # rows, command: how long it takes, and how many rows a second that are
  local rows=$1 began
  shift
  began=$(now)
  "$@"
  python - "$began" "$(now)" "$rows" <<'PYTHON'
import sys
began, ended, rows = map(float, sys.argv[1:])
print(f"-- {ended - began:.1f} s, {rows / (ended - began):,.0f} rows a second")
PYTHON
}

echo "-- $rows rows; the reports get three quarters of them, and not all columns."
pgrepl -X -q -c 'CREATE DATABASE shop' -c 'CREATE DATABASE reports'
timed "$rows" pgrepl -X -e -d shop -v rows="$rows" -v old="$old" -f large.sql
echo '-- pgrepl sync: the copy.'
timed $((rows - old)) pgrepl sync --log-file workers.log
echo '-- A quarter of the rows changes, a fiftieth goes, as many as a quarter come.'
timed $((rows / 2 + rows / 50)) pgrepl -X -e -d shop -v rows="$rows" -v first=$((rows + 1)) -v last=$((rows + more)) -f large_changes.sql
echo '-- pgrepl apply: what has changed.'
timed $(((rows - old) / 4 + (rows - old) / 50 + more)) pgrepl apply --log-file workers.log
echo '-- In DuckDB:'
timed $((rows - old + more)) python "$here/in_duckdb.py" catalog.db \
  'SELECT country, count(*), sum(total) FROM reports.orders GROUP BY country ORDER BY country'
