"""Apply of a large batch by whole columns: keys are compared, rows are found and written many at a time.

    stage.py              a batch: fold, find places, stage, one commit
    large.py              messages larger than memory, in parts: threads of this process or tasks of Spark
    parts.py              the messages dealt by key into parts
    apply_part.py         the kernels of parts, which ask no session
    table.py              the messages for one table; partitions.py divides those for a partitioned one among its leaves
    described.py          a table as plain data: its key's values in messages, and how new rows are made
    describe.py           makes it
    decide.py             the net effect of messages on a table, and where the old rows stand
    fold.py               the net effect of messages, key by key, and whether they are clean
    key_columns.py        the key that a table's rows are found by
    keys.py               keys as numbers
    other_keys.py         unique indexes besides the one that rows are found by
    rows_to_write.py      new rows as files
    unsent.py             columns that are not sent at all: an INSERT's defaults
    unchanged.py          values that an UPDATE did not send

Rule of the room: changes that cannot be applied exactly as PostgreSQL applies them are declined with the reason;
play.py then applies them row by row (below: "the exact way"), and finds the first row that is wrong.
"""
