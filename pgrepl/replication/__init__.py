"""Logical replication: how one database hears of another's changes.

Read in this order:

    libpq/        connection strings, by libpq's rules
    wire/         what crosses: messages one by one and as columns, pgoutput's bytes
    publisher/    who sends: the protocol, slots, senders, what of a change is published; lake/ and postgres/
    subscriber/   who receives: worker, connection, state, the initial copy, apply/
    decoding/     changes for people and programs, through the SQL functions of logical decoding
    standby/      a second folder that follows a first one

Rule of the room: publisher and subscriber meet on the wire only. A subscription knows its publisher by the protocols
of publisher/protocol.py; whether a lake or a server stands behind it is decided once, in subscriber/connection.py.
"""
