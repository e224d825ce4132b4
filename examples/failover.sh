#!/usr/bin/env bash
# A publisher is lost; its standby takes its place, and the subscription goes on without loss or repetition.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir primary reports
primary="pgrepl -X -a --catalog primary/catalog.db -d shop"
reports="pgrepl -X -a --catalog reports/catalog.db -d reports"
pgrepl -X -q --catalog primary/catalog.db -c 'CREATE DATABASE shop'
pgrepl -X -q --catalog reports/catalog.db -c 'CREATE DATABASE reports'
here() { sed "s|$work|.|g"; }

echo '# The publisher, and a subscription that is to survive it.'
$primary -c 'CREATE TABLE orders (id int PRIMARY KEY, total numeric)' -c "INSERT INTO orders VALUES (1, 10), (2, 20)" \
  -c 'CREATE PUBLICATION pub FOR TABLE orders'
$reports -c 'CREATE TABLE orders (id int PRIMARY KEY, total numeric)' \
  -c "CREATE SUBSCRIPTION sub1 CONNECTION 'host=$work/primary dbname=shop' PUBLICATION pub WITH (failover = true)" \
  -c 'SELECT * FROM orders ORDER BY id' 2>&1 | here

echo '# A standby. Subscribers are to get only what it has: that is what its slot and the setting are for.'
pgrepl standby create --catalog primary/catalog.db standby --slot standby | sed 's/0\/[0-9A-F]*/LSN/'
$primary -c "ALTER SYSTEM SET synchronized_standby_slots = 'standby'" -c 'INSERT INTO orders VALUES (3, 30)'
$reports -c 'SELECT * FROM orders ORDER BY id'
pgrepl standby sync standby | sed 's/0\/[0-9A-F]*/LSN/'
$reports -c 'SELECT * FROM orders ORDER BY id'

echo '# Is the standby ready? First ask the subscriber which slots there must be …'
$reports <<'SQL'
SELECT array_agg(quote_literal(s.subslotname)) AS slots
  FROM pg_subscription s
 WHERE s.subfailover AND s.subslotname IS NOT NULL;
SELECT array_agg(quote_literal(slot_name)) AS slots
  FROM (SELECT CONCAT('pg_', srsubid, '_sync_', srrelid, '_', ctl.system_identifier) AS slot_name
          FROM pg_control_system() ctl, pg_subscription_rel r, pg_subscription s
         WHERE r.srsubstate = 'f' AND s.oid = r.srsubid AND s.subfailover);
SQL
echo '# … then the standby whether they are.'
pgrepl -X -a --catalog standby/catalog.db -d shop <<'SQL' 2>&1
SELECT slot_name, (synced AND NOT temporary AND NOT conflicting) AS failover_ready
  FROM pg_replication_slots
 WHERE slot_name IN ('sub1');
SELECT pg_is_in_recovery(), count(*) FROM orders;
INSERT INTO orders VALUES (4, 40);
SQL

echo '# The primary is lost.'
rm -r primary
pgrepl standby promote standby | sed 's/0\/[0-9A-F]*/LSN/'
pgrepl -X -a --catalog standby/catalog.db -d shop -c 'INSERT INTO orders VALUES (4, 40)' -c 'DELETE FROM orders WHERE id = 1'
$reports -c "ALTER SUBSCRIPTION sub1 CONNECTION 'host=$work/standby dbname=shop'" -c 'SELECT * FROM orders ORDER BY id' | here
