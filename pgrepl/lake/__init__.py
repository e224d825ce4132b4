"""DuckLake tables: their definitions, scans, staged files, commits, changes between snapshots, upkeep, and Spark.

Rule of the room: files are staged first, and the catalog refers to them in one transaction. Nothing here imports
pyspark, pyarrow or numpy until data is read or written: a definition is only rows of the catalog.
"""
