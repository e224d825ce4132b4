"""The SQL parser: the scanner, the parse tables, and the nodes of raw parse trees.

A text goes through scanner.py and parser.py, with the tables that make_tables.py makes of grammar/, and the builders of
building/, to nodes/. statements.py has a line for each statement: its tag, and the function that carries it out.

Rule of the room: it knows the language and nothing of any catalog. A statement is parsed whole or fails at PostgreSQL's
token.
"""
