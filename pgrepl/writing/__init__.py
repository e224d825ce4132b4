"""What changes rows: INSERT, UPDATE, DELETE, TRUNCATE (`run` begins), COPY (`copy/`), ALTER TABLE (`rewrite/`).

Rule of the room: what must hold of rows is asked in `rows`, what is read for it in `query`; here it is decided what is
written. `modify` does a statement in this process, row by row; `modify_columns` and
`insert_columns` by whole columns, in this process or as tasks of Spark's; `modify_spark` by Spark's SQL, with
`on_conflict_spark` and `nextval_spark`. COPY FROM likewise: `copy/load`, `copy/load_columns` and `copy/load_spark`.
"""
