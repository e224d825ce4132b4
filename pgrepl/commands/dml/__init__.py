"""INSERT, UPDATE, DELETE, TRUNCATE: what changes rows, and what must hold of rows."""
