"""Iceberg's REST catalog over the server's tables, read-only: `pgrepl serve --iceberg PORT`.

What is answered is made from one read transaction of the catalog, when it is asked for; nothing is kept. Read
access.py (who asks, what they are told of the object store), routes.py (what a path means), process.py (a process of
its own, which disturbs no session).
"""
