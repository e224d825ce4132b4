"""Text → nodes → text. The scanner, the grammar's tables, the nodes and the way back to text.

Rule of the room: it knows the language and nothing of any catalog. A statement is parsed whole or fails at PostgreSQL's
token.
"""
