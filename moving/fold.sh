# folders that have moved, in prose
F=$(git ls-files '*.md' '*.py' '*.toml' Makefile '*.lark' | grep -v CHANGELOG)
sed -i -E 's#`?lake/kernels/?`#`engine/`#g; s#sql/build/#sql/building/#g; s#expr/spark/#expr/exchange/#g; s#expr/dml/#expr/analyse/queries/#g; s#statements/(publication|subscription)/#statements/replication/#g; s#writing/rewrite/#writing/#g; s#replication/backup/#replication/backup.py#g; s#replication/libpq/#replication/#g; s#server/monitoring/#server/#g; s#shell/check/#shell/commands/#g; s#statements/rehearsal/#statements/#g' $F
sed -i -E 's#`engine\.py`#`engine/choice.py`#g' docs/*.md CONTRIBUTING.md
sed -i -E 's#`publisher/lake/range_part\.py`#`publisher/lake/table_changes.py`#g; s#`apply/columns/unsent\.py`#`apply/columns/unchanged.py`#g; s#`apply/columns/other_keys\.py`#`apply/columns/fold.py`#g; s#; `dump/`, `rehearsal/`, `comparison/`#; `dump/`, `comparison/`, and what `pgrepl check` does with them (`rehearse.py`)#' docs/architecture.md
sed -i -E 's#pgrepl/catalog/data/settings\.json#pgrepl/catalog/session/data/settings.json#; s#`pgrepl/shell/data/`#`pgrepl/shell/backslash/data/`#' CONTRIBUTING.md
sed -i -E 's#`replication/` is cut by role into `libpq/`,#`replication/` is cut by role into#' CHANGELOG.md
