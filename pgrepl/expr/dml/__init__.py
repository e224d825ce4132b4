"""The analysis and rewriting of INSERT, UPDATE, DELETE and MERGE.

analyze_*       names, types and PostgreSQL's errors: a `Modify` as it was written (analyze.c)
rewrite         defaults, identity and generated columns put in, views seen through (rewriteHandler.c)
rows_query      the one Query whose rows are what is written: the same for either engine
returning       the Query over written rows that RETURNING is
"""
