r"""`\gdesc` of a query with parameters `$1`, `$2`, …: the query that returns the same columns without them."""

from __future__ import annotations

from itertools import takewhile

from pgrepl.errors import PgError
from pgrepl.sql.scanner import scan


def without_values(text: str) -> str:
    """The query with NULL for its parameters."""
    try:
        tokens = list(takewhile(lambda token: token[0] != "$END", scan(text)))
    except PgError:
        return text  # the parser reports the error
    out, at = "", 0
    for kind, _, begin, end in tokens:
        if kind == "PARAM":
            out += text[at:begin] + "NULL"
            at = end
    return out + text[at:]
