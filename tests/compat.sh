#!/usr/bin/env bash
# What pgrepl relies on in its libraries, and its work on Spark, with the oldest and with the newest releases that
# pyproject.toml allows: `make compat`, or tests/compat.sh oldest|newest. Each in an environment of its own, in a folder
# that goes away; COMPAT_KEEP=FOLDER keeps them.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}

OLDEST="pyspark==4.0.0 sqlalchemy==2.0.30 pyarrow==18.0.0 numpy==1.26.0 click==8.1.0 rich==13.0.0 prompt_toolkit==3.0.43"
NEWEST="pyspark sqlalchemy pyarrow numpy click rich prompt_toolkit"
TOOLS="lark==1.3.1 hatchling pytest hypothesis pexpect psycopg[binary]
  duckdb==1.5.5 duckdb-extension-ducklake==1.5.5 duckdb-extension-sqlite-scanner==1.5.5"
TESTS="
  tests/house/test_internals.py
  tests/sql/test_make_tables.py
  tests/catalog/test_store.py
  tests/catalog/test_opening.py
  tests/lake/test_spark_options.py
  tests/lake/test_spark_processes.py
  tests/lake/test_spark_errors.py
  tests/lake/test_stage.py
  tests/lake/test_scan.py
  tests/api/test_datasource.py
  tests/rows
  tests/writing/test_engines.py
  tests/expr/spark"
if [ -n "${COMPAT_KEEP:-}" ]; then
  base=$COMPAT_KEEP
  mkdir -p "$base"
else
  base=$(mktemp -d)
  trap 'rm -rf "$base"' EXIT
fi

play() { # name, packages
  local environment=$base/$1
  if [ ! -x "$environment/bin/pytest" ]; then
    $PYTHON -m venv "$environment"
    # shellcheck disable=SC2086
    "$environment/bin/pip" install --quiet --disable-pip-version-check $2 $TOOLS
  fi
  echo "== $1: $("$environment/bin/pip" freeze 2>/dev/null | grep -iE '^(pyspark|sqlalchemy|pyarrow|numpy|lark)==' | tr '\n' ' ')"
  # shellcheck disable=SC2086
  PYTHONPATH=$PWD "$environment/bin/python" -m pytest -q -p no:cacheprovider $TESTS
}

[ "${1:-oldest}" != oldest ] || play oldest "$OLDEST"
[ "${1:-newest}" != newest ] || play newest "$NEWEST"
