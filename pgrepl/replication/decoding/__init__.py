"""Logical decoding for people and programs: what pg_logical_slot_peek_changes and pg_logical_slot_get_changes return.

A slot made with the plugin test_decoding shows every change of its database in readable text, whatever publications
say; one made with pgoutput gives the messages of the replication protocol, to the functions that return bytea.

Rule: the words and the bytes are those of PostgreSQL's plugins; where changes come from is publisher/lake's.
"""
