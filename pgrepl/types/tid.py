"""Row numbers as PostgreSQL's tid: a page and a place on it."""

from __future__ import annotations

PAGE = 65535  # rows of a page, as far as ctid can tell: offsets have 16 bits


def ctid(row: int) -> tuple[int, int]:
    """A row's number as (page, place on it), counted from (0,1)."""
    return row // PAGE, row % PAGE + 1
