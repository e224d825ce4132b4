"""The initial copy of a table: the whole of it or by ranges of its key, row by row, by whole columns or on Spark, and
the triggers that it fires."""
