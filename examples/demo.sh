#!/usr/bin/env bash
# make demo: a publisher, a filter and a subscription in two databases of a fresh catalog, how the subscription stands,
# and its rows in another engine, which reads them as an Iceberg table.
set -euo pipefail
examples=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
cp "$examples/demo.sql" "$work"
cd "$work"
end() {
    [ ! -e server.pid ] || kill -INT "$(cat server.pid)"
    while [ -e server.pid ]; do sleep 0.1; done
    rm -rf "$work"
}
trap end EXIT
pgrepl -X -q -c 'CREATE DATABASE shop' -c 'CREATE DATABASE reports'
pgrepl -X -a -d shop < demo.sql 2>&1
echo '-- A worker brings it there; and this is how everything stands.'
pgrepl apply
pgrepl status
echo '-- A server tells readers of Iceberg where the rows are. DuckDB reads them there; nothing was copied.'
echo 'host reports postgres 127.0.0.1/32 trust' > pg_hba.conf
port=$(python -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
pgrepl serve --iceberg "$port" --daemon --log-file server.log --pidfile server.pid
python "$examples/in_duckdb.py" "http://127.0.0.1:$port" 'FROM lake.reports.orders ORDER BY id'
