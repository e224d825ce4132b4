"""Spark looks for data sources in packages whose names begin with `pyspark_`."""

from pgrepl.api.datasource.source import PgreplDataSource as DefaultSource

__all__ = ["DefaultSource"]
