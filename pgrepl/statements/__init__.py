"""What a statement does: one module or package a family (publication, table, role, index …).

Rule of the room: `execute` (utility.py) is the one door, and what it opens does not come back to it. A statement checks
what PostgreSQL checks in its order, and then changes rows of the catalog. Statements about rows are for `query`
and `writing`.
"""
