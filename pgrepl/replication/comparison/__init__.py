"""`pgrepl compare` and `pgrepl repair`: are a subscription's tables as they ought to be at one LSN, and what differs?

    meeting       subscriber/lease.py      both sides at one LSN, while both are written
    two sides     publisher/tables.py   the published rows at that LSN: hashed by a server, or read
                  sides.py                 that side, and the rows of the subscriber's lake, by columns
    digests       columns.py, pieces.py    count and sum of the rows' hashes, of each piece of a table
    differences   table.py                 rows of the pieces that differ, paired by key; found.py: what is found
    repair        repair.py                the differences as one transaction, which the apply worker's player applies

Rule of the room: what is compared is what replication would have brought; what it does not bring is no difference.
"""
