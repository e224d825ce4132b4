"""Raw parse trees as text: one canonical, fully parenthesised spelling.

The text parses to the same tree again, for PostgreSQL too. Types have the names that PostgreSQL prints (`integer`,
`timestamp with time zone`), casts are CAST(… AS …), every operator stands in its own parentheses.
"""

from tests.sql.deparse import expression, query
from tests.sql.deparse.expression import deparse

__all__ = ["deparse", "expression", "json", "query"]
