"""Statements: one module or package a family (publication, table, role, index …).

Rule of the room: `execute` (utility.py) is the only entry, and no family calls it back. A statement checks what
PostgreSQL checks, in its order, and then changes rows of the catalog. Statements about rows belong to `query` and
`writing`.
"""
