"""The characters that draw a table: psql's line styles ascii, old-ascii and unicode."""

from __future__ import annotations

from pgrepl.frozen import frozen
from pgrepl.shell.table import PrintOptions


@frozen
class HorizontalRule:
    """The characters of a horizontal line, and of its crossings with vertical ones."""

    horizontal: str
    left: str
    middle: str
    right: str


@frozen
class LineStyle:
    name: str
    top: HorizontalRule
    header: HorizontalRule
    bottom: HorizontalRule
    data: HorizontalRule
    vertical_newline: str
    vertical_wrap: str
    vertical_blank: str
    header_newline_left: str
    header_newline_right: str
    newline_left: str
    newline_right: str
    wrap_left: str
    wrap_right: str
    wrap_right_border: bool


_ASCII_RULE = HorizontalRule("-", "+", "+", "+")
_ASCII_DATA = HorizontalRule("", "|", "|", "|")

ASCII = LineStyle(
    "ascii", _ASCII_RULE, _ASCII_RULE, _ASCII_RULE, _ASCII_DATA, "|", "|", "|", " ", "+", " ", "+", ".", ".", True
)  # fmt: skip
OLD_ASCII = LineStyle(
    "old-ascii", _ASCII_RULE, _ASCII_RULE, _ASCII_RULE, _ASCII_DATA, ":", ";", " ", "+", " ", " ", " ", " ", " ", False
)  # fmt: skip

# Box drawing characters by style: border, column and header lines may each be single or double.
_HORIZONTAL = {"single": "─", "double": "═"}
_VERTICAL = {"single": "│", "double": "║"}
_CORNERS = {"single": ("┌", "┐", "└", "┘"), "double": ("╔", "╗", "╚", "╝")}
# (header line, border line) → where the header's line leaves and reaches the border
_SIDES = {
    ("single", "single"): ("├", "┤"),
    ("single", "double"): ("╟", "╢"),
    ("double", "single"): ("╞", "╡"),
    ("double", "double"): ("╠", "╣"),
}
# (column line, horizontal line) → column line going down from, up from and across a horizontal line
_CROSSINGS = {
    ("single", "single"): ("┬", "┴", "┼"),
    ("single", "double"): ("╤", "╧", "╪"),
    ("double", "single"): ("╥", "╨", "╫"),
    ("double", "double"): ("╦", "╩", "╬"),
}


def unicode_style(options: PrintOptions) -> LineStyle:
    border, column, header = (
        options.unicode_border_linestyle,
        options.unicode_column_linestyle,
        options.unicode_header_linestyle,
    )
    top_left, top_right, bottom_left, bottom_right = _CORNERS[border]
    side_left, side_right = _SIDES[header, border]
    down, up, _ = _CROSSINGS[column, border]
    vertical = _VERTICAL[column]
    edge = _VERTICAL[border]
    return LineStyle(
        name="unicode",
        top=HorizontalRule(_HORIZONTAL[border], top_left, down, top_right),
        header=HorizontalRule(_HORIZONTAL[header], side_left, _CROSSINGS[column, header][2], side_right),
        bottom=HorizontalRule(_HORIZONTAL[border], bottom_left, up, bottom_right),
        data=HorizontalRule("", edge, vertical, edge),
        vertical_newline=vertical,
        vertical_wrap=vertical,
        vertical_blank=vertical,
        header_newline_left=" ",
        header_newline_right="↵",
        newline_left=" ",
        newline_right="↵",
        wrap_left="…",
        wrap_right="…",
        wrap_right_border=True,
    )


def line_style(options: PrintOptions) -> LineStyle:
    if options.linestyle == "unicode":
        return unicode_style(options)
    return OLD_ASCII if options.linestyle == "old-ascii" else ASCII
