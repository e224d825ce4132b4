"""COPY: rows from files and to files.

`copy_from` and `copy_to` carry out the statement, and choose its engine. From bytes to rows go `lines`, `fields` and
`reader`, as PostgreSQL reads text and CSV; `text_columns` by whole columns; `parquet_files` and `parquet_source`
Parquet; `load_spark` by kernels and Spark; `copy_options` reads the options.
"""
