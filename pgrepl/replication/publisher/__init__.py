"""Who sends: what a subscription may ask of its publisher, and what is put on the wire.

protocol.py           what every publisher can do, in a few small protocols, and what one that cannot does instead
slots.py              replication slots; senders.py: who reads from one; standby_slots.py: how far standbys are
plan.py               for one table of one snapshot: which operations, filters and columns are published, as what
decision.py           what of a change is sent under such a plan, for rows and for columns; identity.py: what is
                      known of old rows; filters.py: row filters
lake/                 a database of an instance as a publisher
postgres/             a PostgreSQL server as a publisher

A new kind of publisher is a folder with a class that inherits from protocol.Publisher: it answers for
publications, a slot's position, the rows of a table and transactions as messages; if it is to be fast, as columns, too
(wire/batch.py). subscriber/connection.py finds it by its connection string.
"""
