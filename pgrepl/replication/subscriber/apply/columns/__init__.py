"""Apply of a large batch by whole columns: keys are compared, rows are found and written many at a time.

    stage.py              a batch: fold, find places, stage, one commit
    large.py              messages larger than memory, in parts: threads of this process or tasks of Spark
    parts.py              the messages dealt by key into parts; apply_part.py their kernels, which ask no session
    table.py              the messages for one table; partitions.py divides those for a partitioned one among its leaves
    described.py          a table as plain data: its key's values in messages, and how new rows are made; values that
                          were not sent
    decide.py, fold.py    the net effect of messages, key by key, where the old rows stand, and new rows as files
    keys.py               keys as numbers
    recorded.py           conflicts, and logs of the messages

Rule of the room: changes that cannot be applied exactly as PostgreSQL applies them are declined with the reason;
play.py then applies them row by row ("the exact way"), and finds the first row that is wrong.
"""
