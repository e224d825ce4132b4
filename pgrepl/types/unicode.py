"""The characters that Unicode has not assigned in a version: PostgreSQL 17 knows 15.1, PostgreSQL 18 knows 16.0.

`data/unassigned.tsv` lists them (`tests/types/make_unassigned.py` has asked servers): each Python has tables of another
version.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache

from pgrepl.types.builtin import read_data


def version(release: int) -> str:
    """The version of Unicode that a release of PostgreSQL knows."""
    return "15.1" if release < 18 else "16.0"


def is_assigned(text: str, release: int) -> bool:
    """Has Unicode assigned all characters of a text?"""
    if text.isascii():
        return True
    edges = _edges(release < 18)
    return not any(char > "\x7f" and bisect_right(edges, ord(char)) & 1 for char in set(text))


@cache
def unassigned() -> tuple[str, str]:
    """Regular expressions for a character that no version has assigned, and for one that only 16.0 has."""
    never, later = [
        "".join(f"{chr(first)}-{chr(last)}" for first, last, only_16 in _ranges() if only_16 is wanted)
        for wanted in (False, True)
    ]
    return f"[{never}]", f"[{later}]"


@cache
def _edges(before_16: bool) -> list[int]:
    """Where the unassigned ranges begin, and where those that are assigned begin again."""
    wanted = [(first, last) for first, last, only_16 in _ranges() if before_16 or not only_16]
    return [edge for first, last in wanted for edge in (first, last + 1)]


@cache
def _ranges() -> list[tuple[int, int, bool]]:
    """The characters that 15.1 has not assigned, and whether 16.0 has."""
    rows = [line.split("\t") for line in read_data("unassigned.tsv").splitlines()[1:]]
    return [(int(first, 16), int(last, 16), since == "18") for first, last, since in rows]
