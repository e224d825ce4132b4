"""Which way was taken, and how often: tests ask for it."""

from __future__ import annotations

from collections import Counter

WAYS: Counter[str] = Counter()  # "copy", "apply": by Spark; "copy row by row", "apply row by row": large, but not so


class NotInBulk(Exception):
    """Something that is left to the exact way; says what."""
