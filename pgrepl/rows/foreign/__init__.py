"""Foreign keys: `key` says what a key is, `lookup` finds rows of the other table, `actions` carries out ON DELETE and
ON UPDATE, and `statements` is the SQL of PostgreSQL's triggers for a CONTEXT. The triggers that do all this after a
statement are fired in rows/after_triggers.py. For DataFrames Spark only joins keys (rows/keys_spark.py).
"""
