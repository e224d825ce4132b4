"""From lines to results: the lexers of SQL and of backslash commands, the main loop, sending a query and printing
what comes back (psql's psqlscan.l, mainloop.c, common.c)."""
