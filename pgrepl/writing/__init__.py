"""Statements that change rows: INSERT, UPDATE, DELETE and MERGE (begin with `run`), TRUNCATE, COPY (`copy/`), rewrites
of ALTER TABLE.

`planning` chooses the way: `modify` in this process, row by row; `modify_columns` by kernels over whole columns;
`modify_spark` by Spark's SQL. COPY FROM has the same three: `copy/copy_from` row by row, `load_spark` the others.

Rule of the room: `rows` has the rules that rows must satisfy, `query` reads rows; the modules here decide what is
written.
"""
