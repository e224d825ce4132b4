"""ALTER TABLE, in PostgreSQL's three phases (`run` begins).

1. Every subcommand is looked at in its place (`prepare_…`): may this be done to this relation, and to which children?
   It leaves steps in the passes of each table that it touches (`work`).
2. The passes run, one after the other over all tables: what is dropped goes before what is added, types change before
   indexes are made anew. A step may leave further steps in later passes.
3. What the rows must satisfy is looked at and new values are written (`pgrepl.writing.rewrite.phase3`).
"""
