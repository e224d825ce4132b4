"""Statements: one module or package a family (table, type, routine, replication, roles, index …).

`run.py` runs a query string; sql/statements.py has the table from nodes to functions of this room, which `utility.py`
looks up.

Rule of the room: `execute` (utility.py) is the only entry, and no family calls it back. A statement checks what
PostgreSQL checks, in its order, and then changes rows of the catalog. Statements about rows belong to `query` and
`writing`.
"""
