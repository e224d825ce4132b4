"""A large batch by whole columns: keys are judged, rows are found and written many at a time.

    stage.py              a batch: fold, find places, stage, one commit
    large.py              what is larger than memory, in parts: threads of this process or tasks of Spark's
    parts.py              the messages dealt by key into parts
    apply_part.py         the kernels of parts, which ask no session
    table.py              the messages for one table; partitions.py for a partitioned one, by its leaves
    described.py          a table as plain data
    decide.py             what messages come to, and where the old rows stand
    fold.py               what the messages come to, key by key, and whether they are clean
    key_columns.py        the key of a table, and its values in messages
    keys.py               keys as numbers
    other_keys.py         unique indexes besides the one that rows are found by
    convert.py            sent columns as the target's columns, in Spark
    sent.py               new rows that are kept as they were sent
    unchanged.py          values that an UPDATE did not send

Rule of the room: what it cannot do exactly as PostgreSQL does it, it declines with the reason; play.py then does it
row by row, and finds the first row that is wrong.
"""
