"""What CREATE TABLE, ALTER TABLE and DROP do: columns, constraints, inheritance, partitions.

A statement is first taken apart (`clauses`: as parse_utilcmd.c does), then done. Taking apart makes plain lists of what
is to happen before, in and after the table (`context`); doing writes rows of the system tables (`heap`). What existing
rows must satisfy is asked by `pgrepl.writing.rewrite`.
"""
