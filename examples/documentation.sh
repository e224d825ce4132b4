#!/usr/bin/env bash
# The examples of PostgreSQL's documentation on logical replication, chapter by chapter, each in a fresh catalog.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for chapter in subscriptions row_filters column_lists; do
  echo "# $chapter"
  rm -rf catalog.db*
  pgrepl -X -q -c 'CREATE DATABASE test_pub' -c 'CREATE DATABASE test_sub'
  pgrepl -X -a -d test_pub < "$here/documentation/$chapter.sql" 2>&1
done
