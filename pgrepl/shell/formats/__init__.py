"""psql's output formats, one module each: a table and its options in, text out; where it goes is not their matter."""
