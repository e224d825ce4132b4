"""The meaning of expressions and queries, as typed trees (`tree.py`).

Read tree.py, then analyse/ (raw trees become typed ones), evaluate/ (rows), arrow/ (whole columns), exchange/ (what
Spark computes), rewrite/, print/. functions/ registers PostgreSQL's functions with their forms for all three; its door
says how one is added.
row_filter_checks.py says what the WHERE of a publication may contain.

Rule of the room: names are resolved, types known and PostgreSQL's implicit casts inserted here and nowhere else;
visitors of the tree know nothing of each other.
"""
