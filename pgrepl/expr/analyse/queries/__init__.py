"""The analysis of queries and of INSERT, UPDATE, DELETE and MERGE (analyze.c). Begin with `query`, `insert`, `update`.

The queries that statements run are made in expr/rewrite/dml_queries.py; statements on views become statements on
tables in writing/views.py.
"""
