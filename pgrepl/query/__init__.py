"""SELECT: executes an analysed query, in this process or by Spark.

`run` begins; `engine_choice` estimates how much a query reads, and `rowset` returns its rows: from `local/`, which
executes it row by row, or from `spark/`, which makes one Spark SQL statement of it. Both use `shape`, `reads` and
`table_rows`. `system/` has the rows of the system catalogs and views, and the functions that such queries call.

Rule of the room: it reads, and imports nothing that writes.
"""
