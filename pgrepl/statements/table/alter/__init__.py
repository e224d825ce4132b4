"""ALTER TABLE, in PostgreSQL's three phases (begin with `run`).

1. Each subcommand is prepared: it is checked whether it may change the relation and its children, and it leaves steps
   in the passes of each table that it changes (`work`): one, as the table in `run` says, or several (`prepare_…`).
2. The passes run, one after the other over all tables: objects are dropped before others are added, types change before
   indexes are rebuilt. A step may leave further steps in later passes.
3. The rows are checked, and new values are written (`pgrepl.writing.phase3`).
"""
