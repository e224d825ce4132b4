#!/usr/bin/env bash
# A conflict stops a subscription; what stopped it is in the log; it is solved in three ways.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pgrepl -X -q -c 'CREATE DATABASE test_pub' -c 'CREATE DATABASE test_sub'

echo '# The subscriber has a row that the publisher is going to send.'
pgrepl -X -a -d test_pub < "$here/conflicts.sql" 2>&1
echo
echo '# What the log says:'
grep -A2 ERROR catalog.db.log | sed 's/^[-0-9]* [0-9:.]* UTC \[[0-9]*\] //' | head -3

echo
echo '# First way: change the data on the subscriber. Everything that waited comes.'
pgrepl -X -a -d test_sub -c "DELETE FROM test WHERE c = 1" -c "SELECT * FROM test ORDER BY c"

echo
echo '# Second way: skip the transaction, by the LSN that the log names.'
pgrepl -X -q -d test_sub -c "INSERT INTO test VALUES (3, 'local')"
pgrepl -X -q -d test_pub -c "INSERT INTO test VALUES (3, 'three'), (4, 'four')" -c "INSERT INTO test VALUES (5, 'five')"
pgrepl -X -q -d test_sub -c "SELECT 1" > /dev/null
lsn=$(sed -n 's/.*finished at \(0\/[0-9A-F]*\)$/\1/p' catalog.db.log | tail -1)
pgrepl -X -a -d test_sub -c "ALTER SUBSCRIPTION sub SKIP (lsn = '$lsn')" -c "SELECT * FROM test ORDER BY c"

echo
echo '# Third way: a subscription that is disabled by its errors, and the position of its origin.'
pgrepl -X -q -d test_sub -c "ALTER SUBSCRIPTION sub SET (disable_on_error = true)" -c "INSERT INTO test VALUES (6, 'local')"
pgrepl -X -q -d test_pub -c "INSERT INTO test VALUES (6, 'six')" -c "INSERT INTO test VALUES (7, 'seven')"
pgrepl -X -a -d test_sub -c "SELECT subname, subenabled FROM pg_subscription"
lsn=$(sed -n 's/.*finished at 0\/\([0-9A-F]*\)$/\1/p' catalog.db.log | tail -1)
next=$(printf '0/%X' $((16#$lsn + 1)))
pgrepl -X -a -d test_sub <<SQL 2>&1
SELECT pg_replication_origin_advance('pg_' || oid, '$next') FROM pg_subscription;
ALTER SUBSCRIPTION sub ENABLE;
SELECT * FROM test ORDER BY c;
SELECT subname, apply_error_count, sync_error_count FROM pg_stat_subscription_stats;
SQL
