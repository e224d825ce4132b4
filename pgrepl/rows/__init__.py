"""The rules for rows of tables: NOT NULL, CHECK, partitions, unique keys, foreign keys; and row locks.

Statements, COPY, ALTER TABLE and the apply worker all check rows here, in PostgreSQL's order and with PostgreSQL's
errors. Begin with `checks` (a statement's rows, one by one) and `checks_table` (one table's rules, and its
partitions); then `unique`, `foreign/` and `triggers` with `after_triggers` and `trigger_events`. `requirements` and
`validate` check existing rows when a definition changes; `locking` and `in_use` are about other sessions.

Rule of the room: each rule stands here once, for single rows in `x.py`, for Arrow's columns in `checks_columns`; rows
of DataFrames are checked as columns (`arrivals`), and Spark itself only joins keys (`x_spark.py`).
"""
