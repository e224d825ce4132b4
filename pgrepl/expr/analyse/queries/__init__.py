"""The analysis of INSERT, UPDATE and DELETE, and the queries that they run.

insert, update      analysis: a `Modify` (plan) as it was written, or PostgreSQL's error (analyze.c)
defaults            defaults, identity and generated columns put in (rewriteHandler.c)
queries             the Query whose rows are written, for both engines; the Query of RETURNING over the written rows

Statements on views are rewritten to statements on tables in `writing.views`.
"""
