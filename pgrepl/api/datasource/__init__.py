"""The Spark data source `pgrepl`, for Spark 4's Python data source API.

    spark.read.format("pgrepl").option("catalog", "catalog.db").option("dbname", "shop").option("table", "orders")
    spark.readStream.format("pgrepl").option("publication", "p").option("slot", "s") …
    frame.write.format("pgrepl").mode("append").option("table", "orders") …

Spark asks it in processes of its own, so each answer opens the catalog and closes it. Plans are made with a session;
tasks get parts that are complete in themselves (lake/kernels/part.py), ask no session, and give and take Arrow batches.

options.py reads the options; shown.py says how columns look in Spark; table_rows.py plans the rows of a table,
filters.py what a condition leaves out; changes.py plans the changes of a publication; append.py writes and commits.
Only source.py, readers.py, stream_reader.py and writers.py know pyspark, which finds source.py by the package
pyspark_pgrepl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register the data source in a session, and let Spark push filters down to it. Spark finds an installed pgrepl by
    itself; then only the filters are gained."""
    from pgrepl.api.datasource.source import PgreplDataSource

    spark.createDataFrame([], "a INT")  # makes the session the active one, where Spark looks for what it writes to
    spark.dataSource.register(PgreplDataSource)
    spark.conf.set(_PUSHDOWN, "true")
