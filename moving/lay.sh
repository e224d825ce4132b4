#!/bin/bash
# lay.sh: applies the maps in this checkout (a clean one of the old layout), then formats
H=moving; M="$H/map0.txt $H/map1.txt $H/map2.txt"
git reset -q --hard; git clean -fdq pgrepl tests; find pgrepl -name __pycache__ -prune -exec rm -rf {} +
python3 $H/house.py --names $M > /tmp/apply.log 2>&1 || { tail -5 /tmp/apply.log; exit 1; }
python3 $H/post.py $M || exit 1
.venv/bin/ruff check . --fix -q > /tmp/ruff.log
[ "$1" = nohoist ] || python3 $H/hoist.py $H/sets.json $M
.venv/bin/ruff check . --fix -q > /tmp/ruff.log; .venv/bin/ruff format -q .; .venv/bin/ruff check . --fix -q > /tmp/ruff.log
python3 $H/wraplong.py; .venv/bin/ruff format -q .; .venv/bin/ruff check . > /tmp/ruff.log
git add -A; grep -c . /tmp/ruff.log; git diff --cached --shortstat HEAD
.venv/bin/python -m pgrepl.sql.make_tables; .venv/bin/python -m pgrepl.catalog.store.ddl
