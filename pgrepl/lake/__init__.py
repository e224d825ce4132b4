"""Tables in the lake: DuckLake's files and catalog rows, and the one SparkSession that reads and writes them in bulk.

Rule of the room: files first, then one commit. Only `stage` and `write` make files, only `commit` tells the catalog of
them; nothing here is imported before a table's rows are touched, and pyspark and pyarrow only by what uses them.
"""
