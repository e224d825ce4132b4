"""COPY: rows from files and to files.

`copy_from` and `copy_to` carry out the statement, and choose its engine. From bytes to rows go `lines`, `fields` and
`reader`, back `writer`, as PostgreSQL reads and writes text and CSV; `text_columns` by whole columns;
`parquet_source` Parquet; `copy_options` reads the options.
"""
