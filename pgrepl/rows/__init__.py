"""The rules for rows of tables: NOT NULL, CHECK, partitions, unique keys, foreign keys; and row locks.

Statements, COPY, ALTER TABLE and the apply worker all check rows here, in PostgreSQL's order and with PostgreSQL's
errors. Rule of the room: each rule stands here once, for single rows in `x.py` and for DataFrames in `x_spark.py`; the
caller runs the queries that a rule needs (`validate`).

Begin with `checks` (a statement's rows, one by one) and `checks_table` (one table's rules); then `routing`
(partitions), `unique`, and `foreign` with its triggers (`foreign_events`, `foreign_actions`). `triggers` are those of
CREATE TRIGGER: BEFORE triggers fire in `checks`, AFTER triggers in the queue of `foreign`, INSTEAD OF in `instead`;
`materialize` reads a statement's source before its triggers change it. `requirements` and `validate` check existing
rows when a definition changes; `locking`, `key_locks` and `in_use` are about other sessions.
"""
