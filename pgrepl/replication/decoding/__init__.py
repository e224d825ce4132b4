"""Logical decoding for people and programs: pg_logical_slot_peek_changes and pg_logical_slot_get_changes.

A slot made with the plugin test_decoding returns every change of its database as readable text, whatever
publications there are; one made with pgoutput returns the messages of the replication protocol, to the functions
that return bytea.

`pgrepl changes` writes what a publication sends to files, in formats of other programs (change_writer.py).

Rule of the room: the texts and bytes are those of PostgreSQL's plugins; publisher/lake reads the changes.
"""
