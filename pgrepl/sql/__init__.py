"""The SQL parser: the scanner, the parse tables, and the nodes of raw parse trees.

Rule of the room: it knows the language and nothing of any catalog. A statement is parsed whole or fails at PostgreSQL's
token.
"""
