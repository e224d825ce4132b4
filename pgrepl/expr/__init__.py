"""The meaning of expressions and queries, as typed trees (`tree.py`). The row-filter rules walk the tree, `deparse`
prints it, `evaluate` computes it.

Rule of the room: names are resolved, types known and PostgreSQL's implicit casts inserted here and nowhere else;
visitors of the tree know nothing of each other.
"""
