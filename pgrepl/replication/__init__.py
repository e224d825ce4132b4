"""Logical replication between databases.

Read in this order:

    conninfo.py   connection strings and their hosts, by libpq's rules
    wire/         messages of the protocol, one by one and as columns; pgoutput's bytes
    publisher/    slots, walsenders, what of a change is published; lake/, postgres/ and files/
    subscriber/   worker, connection, state, the initial copy, apply/
    formats/      files of changes, read and written
    comparison/   both sides' rows compared and repaired
    decoding.py   changes for people and programs, through the SQL functions of logical decoding; decoding_text.py
                  in the words of test_decoding; change_writer.py writes them to files
    standby.py    a second folder that follows a first one, standby_files.py its files; backup.py a copy of a moment

Rule of the room: publisher and subscriber meet on the wire only. A subscription knows its publisher by the protocols
of publisher/protocol.py; subscriber/connection.py decides whether a lake, a server or files stand behind it. Who does
not connect asks the connection string whether it names files (CONTRIBUTING.md, "Add a publisher", says where).
"""
