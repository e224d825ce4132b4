"""What the rows of tables must satisfy, whoever writes them: NOT NULL, CHECK, partitions, unique keys, foreign keys;
and the locks of rows.

Statements, COPY, ALTER TABLE and the apply worker ask the same questions here, row by row in PostgreSQL's order, and
get PostgreSQL's errors.
"""
