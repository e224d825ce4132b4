"""The SQL parser and deparser: the scanner, the parse tables, the nodes of raw parse trees, and their text.

Rule of the room: it knows the language and nothing of any catalog. A statement is parsed whole or fails at PostgreSQL's
token.
"""
