"""CREATE TABLE, ALTER TABLE and DROP: columns, constraints, inheritance, partitions, triggers.

A statement is first transformed (`clauses`, as parse_utilcmd.c does) into plain lists of the objects to create
before, with and after the table (`constraints`); then rows of the system tables are written (`heap`). Existing rows
are checked by `pgrepl.writing`.
"""
