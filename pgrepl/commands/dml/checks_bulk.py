"""Statements that Spark carries out: their rows are checked while they are written, their keys before they count.

    bulk = Bulk(session, relation, Kind.UPDATE, modified, snapshot)
    bulk.insert(frame)            # INSERT: columns c{attnum} of the relation the statement names
    bulk.update(table, frame)     # UPDATE, table by table: c{attnum} of the whole new row, and `place`
    bulk.delete(table, frame)     # DELETE, table by table: `place`
    bulk.check()                  # unique keys, foreign keys, CASCADE and its like
    …                             # take the write lock
    bulk.apply()                  # commit.Stale if a table that was read or written has changed since `snapshot`

Files are staged by insert, update and delete; nothing refers to them before `apply`. If anything fails, or the
statement is to begin anew, `bulk.discard()` removes them. `bulk.count` is the number of rows for the command tag,
`bulk.written(table, attnums)` gives the new rows as they have been staged, for RETURNING.
"""
