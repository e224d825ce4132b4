"""What the rows of tables must satisfy, whoever writes them: NOT NULL, CHECK, partitions, unique keys.

A statement (`commands.dml`), COPY and the apply worker ask the same questions here, row by row in PostgreSQL's order,
and get PostgreSQL's errors.
"""
