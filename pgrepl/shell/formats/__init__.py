"""psql's output formats, one module each: a table and its options in, text out. Where the text goes is not their matter."""
