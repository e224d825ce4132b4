"""psql's output formats, one module each. Rule of the room: a table and its options in, text out."""
