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
echo '-- Half of the rows change, a fiftieth goes, and a quarter more come.'
timed $((rows / 2 + rows / 50 + more)) pgrepl -X -e -d shop -v rows="$rows" -v first=$((rows + 1)) -v last=$((rows + more)) -f large_changes.sql
echo "-- pgrepl apply: what has changed. More than a million changes are a job of Spark, as that many rows to copy are."
timed $(((rows - old) / 2 + (rows - old) / 50 + more)) pgrepl apply --log-file workers.log
echo '-- The same again without a JVM: pgrepl.engine = local.'
pgrepl -X -q -d shop -c 'UPDATE orders SET total = total + 1 WHERE id % 2 = 0'
timed $((rows / 2)) env PGOPTIONS='-c pgrepl.engine=local' pgrepl apply --log-file workers.log
pgrepl -X -d reports -c "SELECT work, engine, calls FROM pgrepl_stat_engine WHERE work IN ('apply', 'initial copy') ORDER BY work DESC, engine"
echo '-- In DuckDB:'
timed $((rows - old + more)) python "$here/in_duckdb.py" catalog.db \
  'SELECT country, count(*), sum(total) FROM reports.orders GROUP BY country ORDER BY country'
