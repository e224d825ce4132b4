"""SELECT and EXPLAIN over user tables."""
