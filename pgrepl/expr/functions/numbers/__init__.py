"""Numbers: arithmetic, numeric with PostgreSQL's result scales, double precision, and their text by templates."""
