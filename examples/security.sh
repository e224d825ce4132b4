#!/usr/bin/env bash
# Who may publish, connect, copy and apply.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pgrepl -X -q -c 'CREATE DATABASE test_pub' -c 'CREATE DATABASE test_sub'
pgrepl -X -a -d test_pub < "$here/security.sql" 2>&1
echo
echo "# What the log says of the copy that was not allowed, and of the row that was not:"
grep -h ERROR catalog.db.log | sed 's/^.*ERROR:/ERROR:/' | uniq
