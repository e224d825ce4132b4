"""SELECT: an analysed query is carried out, in this process or by Spark.

`run` begins; `engine_choice` says how much a query looks at, and `rowset` gives its rows: from `local/`, where it is
played on `expr.evaluate` as it stands, or from `spark/`, which makes one Spark SQL statement of it. What both need to
know of a query stands beside them: `shape`, `bounds`, `columns`, `tables`. `system/` has the rows of the system
catalogs and views, and the functions that such queries call.

Rule of the room: it reads, and knows nothing of those who write.
"""
