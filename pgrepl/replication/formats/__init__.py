"""Changes of tables in files: the formats in which other programs write them, read and written.

event.py              one change as a record of a file tells it; errors of records; many changes as columns
registry.py           the reader and the writer of a format, by its name
opening.py            files, compressed or not

Rule of the room: a reader knows no catalog and no subscription. It turns bytes into events, in the order of the file,
and keeps at most one record or one block of them in memory. Values stay text, digit by digit.
"""
