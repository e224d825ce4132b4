"""What CREATE TABLE, ALTER TABLE and DROP do: columns, constraints, inheritance, partitions.

A statement is first read (transform.py: what parse_utilcmd.c does), then done. Reading makes plain lists of what is to
happen before, in and after the table; doing writes rows of the system tables. Nothing here touches a table's own rows:
what they must satisfy goes through rows.py.
"""
