"""Names: folding of unquoted ones to lower case, and truncation."""

from __future__ import annotations

from pgrepl.errors import Report
from pgrepl.sql.literals import NAMEDATALEN, OnNotice

_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def fold(word: str) -> str:
    """A name in lower case, ASCII letters only (downcase_identifier)."""
    return word.lower() if word.isascii() else word.translate(_ASCII_LOWER)


def truncate(name: str, on_notice: OnNotice | None = None) -> str:
    """A name truncated to 63 bytes at a character's edge, with PostgreSQL's notice (truncate_identifier)."""
    if len(name) < NAMEDATALEN // 4:
        return name
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) < NAMEDATALEN:
        return name
    cut = raw[: NAMEDATALEN - 1].decode("utf-8", "ignore")
    if on_notice is not None:
        on_notice(Report("NOTICE", "42622", f'identifier "{name}" will be truncated to "{cut}"'))
    return cut


__all__ = ["OnNotice", "fold", "truncate"]
