"""AUTOCOMMIT off: which queries run without a BEGIN before them (psql's command_no_begin)."""

from __future__ import annotations

import re

# each text before a word matches in one way only: a second one would be tried, and then a third, without end
_FIRST_WORDS = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*([A-Za-z]+)")
_BLOCK_COMMANDS = frozenset({"abort", "begin", "start", "commit", "end", "rollback", "vacuum"})


def runs_outside_block(query: str) -> bool:
    """Do the query's first words say that it must not get a BEGIN before it?"""
    words: list[str] = []
    at = 0
    while len(words) < 4 and (found := _FIRST_WORDS.match(query, at)):
        words.append(found[1].lower())
        at = found.end()
    first, rest = (words[0], words[1:]) if words else ("", [])
    second = rest[0] if rest else ""
    if first in _BLOCK_COMMANDS:
        return True
    if first == "prepare":
        return second == "transaction"
    if first == "cluster":
        return not rest
    if first == "create":
        index = rest[1:] if second == "unique" else rest
        return second in ("database", "tablespace") or index[:2] == ["index", "concurrently"]
    if first == "alter":
        return second == "system"
    if first in ("drop", "reindex"):
        concurrently = second in ("index", "table") and rest[1:2] == ["concurrently"]
        return second in ("database", "system", "tablespace") or concurrently
    return first == "discard" and second == "all"
