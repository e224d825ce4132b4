"""Foreign keys: `key` says what a key is, `lookup` finds rows of the other table, `actions` carries out ON DELETE and
ON UPDATE. The triggers that do both after a statement are fired in rows/after_triggers.py.

Rule of the room: for DataFrames Spark only joins keys (`x_spark.py`).
"""
