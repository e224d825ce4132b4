"""Logical replication between databases.

Read in this order:

    libpq/        connection strings, by libpq's rules
    wire/         messages of the protocol, one by one and as columns; pgoutput's bytes
    publisher/    the publisher: its protocol, slots, walsenders, what of a change is published; lake/ and postgres/
    subscriber/   the subscriber: worker, connection, state, the initial copy, apply/
    decoding/     changes for people and programs, through the SQL functions of logical decoding
    standby/      a second folder that follows a first one

Rule of the room: publisher and subscriber meet on the wire only. A subscription knows its publisher by the protocols of
publisher/protocol.py; whether a lake or a server stands behind it is decided once, in subscriber/connection.py.
"""
