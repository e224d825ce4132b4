"""Row numbers as PostgreSQL's tid: block number and index in the block."""

from __future__ import annotations

PAGE = 65535  # rows per page: the offset of a ctid has 16 bits


def ctid(row: int) -> tuple[int, int]:
    """The tid of a row's number, counted from (0,1)."""
    return row // PAGE, row % PAGE + 1
