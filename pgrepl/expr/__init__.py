"""The meaning of expressions and queries, as typed trees (`tree.py`).

Read tree.py, then analyse/ (raw trees become typed ones), evaluate/ and functions/ (rows), arrow/ (whole columns),
exchange/ (what Spark computes), rewrite/, print/. The row-filter rules are in rowfilter.py.

Rule of the room: names are resolved, types known and PostgreSQL's implicit casts inserted here and nowhere else;
visitors of the tree know nothing of each other.
"""
