#!/usr/bin/env bash
# make demo: a publisher, a filter and a subscription in two databases of a fresh catalog, and how the subscription stands.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$(dirname "$0")/demo.sql" "$work"
cd "$work"
pgrepl -X -q -c 'CREATE DATABASE shop' -c 'CREATE DATABASE reports'
pgrepl -X -a -d shop < demo.sql 2>&1
echo '-- A worker brings it there; and this is how everything stands.'
pgrepl apply
pgrepl status
