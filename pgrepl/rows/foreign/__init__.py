"""Foreign keys: `key` says what a key is, `lookup` finds rows of the other table, `periods` finds them for a PERIOD,
`actions` carries out ON DELETE and ON UPDATE, and `statements` is the SQL of PostgreSQL's triggers for a CONTEXT. The
triggers that do all this after a statement are fired in rows/after_triggers.py.

Rule of the room: for DataFrames Spark only joins keys (`x_spark.py`).
"""
