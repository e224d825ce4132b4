"""Statements that change rows: INSERT, UPDATE, DELETE (begin with `run`), TRUNCATE, COPY (`copy/`), ALTER TABLE
(`rewrite/`).

Rule of the room: `rows` has the rules that rows must satisfy, `query` reads rows; the modules here decide what is
written. `modify` carries out a statement in this process, row by row; `modify_columns` and `insert_columns` by whole
columns, in this process or as tasks of Spark's; `modify_spark` by Spark's SQL, with `on_conflict_spark` and
`nextval_spark`. COPY FROM has the same three ways: `copy/load_rows`, `copy/load_columns` and `copy/load_spark`.
"""
