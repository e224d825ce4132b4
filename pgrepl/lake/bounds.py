"""What a condition says of one column: enough to skip files and row groups, never enough to judge a row by.

Rows that a scan gives for bounds are a superset of those within them: who asks still applies the condition itself.
A comparison with NULL is never true, so rows with NULL in a bounded column are left out.
"""

from __future__ import annotations

from typing import Any

from pgrepl.frozen import frozen


@frozen
class Bound:
    """`low` and `high` are Python values of the column's type, None: open; `values`: the column is one of them.

    Strings are compared by code points: give bounds for text only where the collation orders so (equality always).
    """

    attnum: int
    low: Any = None
    high: Any = None
    low_inclusive: bool = True
    high_inclusive: bool = True
    values: tuple[Any, ...] | None = None
