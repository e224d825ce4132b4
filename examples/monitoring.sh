#!/usr/bin/env bash
# Where to look: the statistics views on both sides, the state of each table, and pgrepl status.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pgrepl -X -q -c 'CREATE DATABASE test_pub' -c 'CREATE DATABASE test_sub'
pgrepl -X -a -d test_pub < "$here/monitoring.sql" 2>&1
echo "# The same at one glance; what waits is counted:"
pgrepl status --json | python -c '
import json, sys
for found in json.load(sys.stdin):
    states = {table["name"]: table["state"] for table in found["tables"]}
    lag = {name: found["lag"][name] for name in ("transactions", "rows")}
    print(json.dumps({"subscription": found["subscription"], "tables": states, "lag": lag}))'
