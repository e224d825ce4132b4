"""Rehearsals: statements are tried in a copy of the catalog that has no rows and is thrown away.

`copy` makes the copy, or an empty catalog, in a temporary folder. There definitions are really made and changed, so
that later statements see them; statements about rows are analysed and planned, and no more (`execute`). Files of
tables are neither read nor written, no publisher outside of the copy is contacted (subscriber/connection.py), and
nobody who works with the original notices anything.

Rule: nothing here knows where a statement comes from, and what becomes of its errors.
"""
