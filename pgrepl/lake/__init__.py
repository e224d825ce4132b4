"""Tables in the lake: what DuckLake and its readers know of them, their files, what is written and what has changed.

Nothing in this room imports pyspark, pyarrow or numpy until data is touched: a definition is only rows of the catalog.
"""
