"""Analysed trees before they run: constants are folded, views become subqueries, functions in SQL become parts of the
statements that call them (clauses.c, rewriteHandler.c)."""
