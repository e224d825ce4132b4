#!/usr/bin/env bash
# Four times when a subscription and its replication slot are handled apart.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pgrepl -X -q -c 'CREATE DATABASE test_pub' -c 'CREATE DATABASE test_sub'
pgrepl -X -q -d test_pub -c 'CREATE TABLE t (a int PRIMARY KEY, b text)' -c 'CREATE PUBLICATION pub FOR TABLE t'
pgrepl -X -q -d test_sub -c 'CREATE TABLE t (a int PRIMARY KEY, b text)'
pgrepl -X -a -d test_pub < "$here/slots.sql" 2>&1
