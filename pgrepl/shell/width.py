"""The width of text on a screen, and the lines of a cell: psql's pg_wcswidth, pg_wcssize and pg_wcsformat."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

# mbvalidate drops bytes that are no UTF-8, and the last two code points of planes 1 to 16 (not those of plane 0,
# though they are noncharacters, too)
_LAST_OF_PLANES = "".join(chr(plane << 16 | end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF))
_UNPRINTABLE = re.compile(f"[\ud800-\udfff{_LAST_OF_PLANES}]")


@lru_cache(maxsize=1)
def _tables() -> tuple[list[int], list[int], list[int], list[int]]:
    from pgrepl.shell.width_tables import NONSPACING, WIDE, ranges

    return *ranges(NONSPACING), *ranges(WIDE)


def char_width(char: str) -> int:
    """The columns of a character: 0, 1 or 2; -1 for a control character (ucs_wcwidth)."""
    code = ord(char)
    if code < 0x7F:
        return 1 if code >= 0x20 else -1 if code else 0
    if code < 0xA0:
        return -1
    firsts, lasts, wide_firsts, wide_lasts = _tables()
    at = bisect_right(firsts, code) - 1
    if at >= 0 and code <= lasts[at]:
        return 0
    at = bisect_right(wide_firsts, code) - 1
    return 2 if at >= 0 and code <= wide_lasts[at] else 1


def printable(text: str) -> str:
    """The text without characters that psql does not print."""
    return text if text.isascii() else _UNPRINTABLE.sub("", text)


def display_lines(text: str) -> list[tuple[str, int]]:
    r"""The lines of a cell with their widths: newlines split, tabs to every eighth column, `\r`, `\x01`, `\u0085`."""
    if text.isascii() and text.isprintable():
        return [(text, len(text))]
    lines: list[tuple[str, int]] = []
    shown: list[str] = []
    width = 0
    for char in text:
        if char == "\n":
            lines.append(("".join(shown), width))
            shown, width = [], 0
            continue
        if char == "\r":
            piece, columns = "\\r", 2
        elif char == "\t":
            columns = 8 - width % 8
            piece = " " * columns
        else:
            piece, columns = char, char_width(char)
            if columns < 0 and char < "\x80":
                piece, columns = f"\\x{ord(char):02X}", 4
            elif columns < 0:
                piece, columns = f"\\u{ord(char):04X}", 6
        shown.append(piece)
        width += columns
    lines.append(("".join(shown), width))
    return lines


def take_columns(text: str, columns: int) -> tuple[int, int]:
    """The number of characters, at least one, that fit into `columns`, and the columns that they fill."""
    if text.isascii() and text.isprintable():
        taken = min(len(text), max(columns, 1))
        return taken, taken
    width = 0
    for at, char in enumerate(text):
        wide = char_width(char)
        if columns < width + wide and width:
            return at, width
        width += wide
    return len(text), width
