"""What a statement does: one module or package a family (publication, table, role, index …).

Rule of the room: `execute` (base.py) is the one door. A family registers a function for its nodes there, checks what
PostgreSQL checks in PostgreSQL's order, and then changes rows of the catalog. Statements about rows are handed to
`query` and `writing` (rows.py).
"""
