"""What an expression means. One typed tree (`tree.py`) serves everyone: the row-filter rules walk it, `deparse` prints
it, `evaluate` computes it.

Rule of the room: names are resolved, types known and PostgreSQL's implicit casts inserted here and nowhere else;
visitors of the tree know nothing of each other.
"""
