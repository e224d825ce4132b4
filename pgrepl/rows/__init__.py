"""What the rows of tables must satisfy, whoever writes them: NOT NULL, CHECK, partitions, unique keys, foreign keys;
and the locks of rows.

Statements, COPY, ALTER TABLE and the apply worker ask the same questions here, in PostgreSQL's order, and get
PostgreSQL's errors. Rule of the room: a rule stands here once, for single rows in `x.py` and for frames of Spark in
`x_spark.py`; queries that it needs answered are run by who asks (`validate`).

Begin with `checks` (a statement's rows, one by one) and `checks_table` (one table's rules); then `routing`
(partitions), `unique`, and `foreign` with its triggers (`foreign_events`, `foreign_actions`). `requirements` and
`validate` are for rows that are there when a definition changes; `locking`, `key_locks` and `in_use` for who else is
at work.
"""
