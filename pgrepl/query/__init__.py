"""SELECT: an analysed query is carried out, in this process or by Spark.

`run` begins; `engine` chooses. Here a query is played on `expr.evaluate` as it stands: scans and joins (`scans`,
`joins`), grouping, windows, sorting and set operations (`execute`, `select`). `spark/` makes one Spark SQL statement
of it. `system/` has the rows of the system catalogs and views, and the functions that such queries call.

Rule of the room: it reads, and knows nothing of those who write.
"""

from pgrepl.query import run

__all__ = ["run"]
