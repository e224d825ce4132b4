"""Where a row version stands: what UPDATE and DELETE carry from the rows they found to the rows they end.

A place is good as long as the snapshot it was read at is the one that the statement changes.
"""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """`file` is None for a row inlined in the catalog, whose row id alone finds it; `pos` is the row's number in its
    file, counted from 0."""

    file: int | None
    pos: int | None
    row: int
