"""The publisher: the operations that a subscription needs, and the changes that it sends.

    protocol.py           a publisher and its parts: catalog, slots, stream, copies
    slots.py              replication slots; senders.py: their walsenders; standby_slots.py: positions of standbys
    plan.py               for one table of one snapshot: the published operations, filters, columns, name, identity;
                          the message that a change becomes under such a plan, for rows and for columns: why an UPDATE
                          is sent as an INSERT or a DELETE, or not at all (_RULES)
    tables.py             a published table as statements, and its rows to copy or to compare
    lake/                 a database of an instance as a publisher
    postgres/             a PostgreSQL server as a publisher
    files/                files of changes, of tables that a database declares

A new kind of publisher is a folder with a class that inherits from protocol.Publisher, and one for each part that it
has: a catalog and a stream at least; to be fast its stream gives columns, too (`batch`, of wire/batch.py).
subscriber/connection.py opens it by its connection string, whose options replication/conninfo.py knows. Who asks for
files of changes without connecting has to know it, too: CONTRIBUTING.md, "Add a publisher", lists them.
"""
