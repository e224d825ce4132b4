"""The Spark data source `pgrepl`, for Spark 4's Python data source API.

    spark.read.format("pgrepl").option("catalog", "catalog.db").option("dbname", "shop").option("table", "orders")
    spark.readStream.format("pgrepl").option("publication", "p").option("slot", "s") …
    frame.write.format("pgrepl").mode("append").option("table", "orders") …

Spark asks it in processes of its own, so each answer opens the catalog and closes it. Plans are made with a session;
tasks get parts that are complete in themselves (lake/read/part.py), and give and take Arrow batches. Read options.py,
table_rows.py, changes.py, append.py; only source.py knows pyspark, which finds it by the package pyspark_pgrepl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IS_THERE = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: SparkSession) -> None:
    """Register the data source in a session. Spark finds an installed pgrepl by itself: this is for one that is only on
    Python's path. Spark 4.0 registers nothing that it has found."""
    from pyspark.errors import AnalysisException

    from pgrepl.api.datasource.source import PgreplDataSource

    spark.createDataFrame([], "a INT")  # makes the session the active one, where Spark looks for what it writes to
    try:
        spark.dataSource.register(PgreplDataSource)
    except AnalysisException as problem:
        if problem.getCondition() != _IS_THERE:
            raise
