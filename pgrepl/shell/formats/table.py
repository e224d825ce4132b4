"""A table of texts to print and its options, the width of text by PostgreSQL's Unicode tables, and the text of an error
as libpq makes it.
"""

from __future__ import annotations

import locale
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from pgrepl.ground.errors import Report
from pgrepl.ground.frozen import frozen

NONSPACING = (
    "ad 0 253 6f 114 6 108 2c 2 0 2 1 2 1 2 0 39 5 b a 2 0 2f 14 11 0 66 7 2 5 3 1 2 3 22 0 2 0 1f 1a 5c a 3b 8 a 0 "
    "19 3 2 8 2 2 2 4 2c 2 35 f 2b 38 38 0 2 0 5 7 5 0 4 6 b 1 1e 0 3b 0 5 3 9 0 15 1 1b 4 3a 0 5 10 1f 1 4 0 c 1 3a "
    "0 5 7 5 0 15 1 17 7 3b 0 3 0 2 3 9 9 c 1 1f 0 3e 0 d 0 33 0 4 0 38 0 2 2 6 10 c 1 1e 0 3b 0 3 0 7 0 6 1 15 1 1d "
    "1 3a 1 5 3 9 0 15 1 1e 0 49 0 8 4 5b 0 3 6 d 7 63 0 3 8 c 6 4a 1 1c 0 2 0 2 0 38 d 2 4 2 1 6 2f a 0 67 3 2 5 2 1 "
    "3 1 1a 1 5 2 11 3 e 0 3 1 7 0 10 0 2c0 2 3b3 2 1e 1 1f 1 1f 1 41 1 2 6 9 0 3 a a 0 2e 4 76 1 23 0 77 2 5 1 a 0 7 "
    "2 dc 1 3 0 3b 0 2 8 2 0 3 7 7 c 31 53 31 0 2 4 2 0 6 0 29 8 d 1 21 3 3 1 2 2 39 0 2 1 4 0 2 2 3b 7 3 1 99 2 2 c "
    "2 6 5 0 7 0 4 1 c7 3f 20c 4 1b 4 32 f 61 20 bff 2 8e 0 61 1f 22b 3 6c 1 75d5 3 2 9 21 1 51 1 111 0 4 0 5 0 1a 1 "
    "6 0 98 1 1b 11 e 0 27 7 1a a 2f 2 31 0 3 3 3 1 28 0 44 5 3 1 3 1 d 0 9 0 30 0 34 0 2 2 3 1 6 1 2 0 2b 1 9 0 ef 0 "
    "3 0 5 0 4f31 0 2e2 f 11 f d0 0 fa 2 202 0 e3 0 96 4 687 e 29 7 a6 1 23e 3 184 1 51 2 47 a 32 3 7c 0 37 e 2a 0 3 "
    "1 b 2 32 3 3 1 3 0 5 b 33 2 25 4 2 7 3f 0 d 1 35 8 b 3 3 0 60 2 3 0 2 1 7 0 3 0 9e 0 4 7 16 1 3a 1 4 0 26 e c4 7 "
    "3 2 2 0 18 0 55 5 2 0 5 1 2 1 ef 3 7 1 2 1 1c 1 56 7 3 0 2 1 6b 0 2 0 3 5 2 0 66 2 3 3 2 4 104 8 2 1 101 1 2 0 5 "
    "0 91 7 5 0 21 9 29 5 3 3 9 0 a 5 3 2 2f c 2 1 197 d 2 0 53 15 3 6 2 1 2 1 7b 14 2 0 49 1 4 0 2 0 15c 1 c 1 35 4 "
    "6 0 2 0 14ee 10 7 e 369b 4 3c 6 419 0 40 3 52 0 4cb9 1 2 12a6 221 2 a f 3 6 1f 3 95 2 7bc 36 5 31 9 0 f 0 17 14 "
    "551 2a 65 0 a1 6 178 0 3e 3 1fd 3 3e1 6 6e 6 c16b7 1ee "
)

WIDE = (
    "1100 5f 11bb 1 e 1 bf 3 4 0 3 0 20a 1 16 1 33 b 2c 0 14 0 e 0 9 1 12 1 6 1 9 0 6 0 16 0 8 1 2 0 5 0 3 0 8 0 5 1 "
    "1d 0 24 0 2 0 5 2 2 0 3e 2 19 0 f 0 35c 1 34 0 5 0 32b 19 2 58 d d5 1b 4e 3 55 3 66 6 2a 2 5d 2 53 c 2f 2 27 9 "
    "1b6f 41 568c 4 36 49a 1c 284 2ba3 215d 1ff 311 9 17 22 2 12 2 3 96 5f 80 6 6ffa 4 c 1 f 17f7 9 4d5 2b 8 22e8 3 2 "
    "6 2 1 2 122 10 0 1e 2 3 0 f 3 9 18b 3d09 0 cb 0 bf 0 3 9 66 2 e 2b 5 8 8 1 f 5 9b 20 d 8 2 45 2 15 d 2a 5 4 d 10 "
    "4 0 4 46 2 0 2 ba 3 3e e 3 2 17 13 0 1b 1 e 0 57 54 31 45 7 0 4 2 3 2 5 3 c 1 8 8 e4 b 5 0 11c 2e 2 9 2 b8 71 c "
    "4 8 8 2d 2 6 9 d 5 8 8 8 508 fffd 3 fffd "
)


def ranges(packed: str) -> tuple[list[int], list[int]]:
    """The first and the last code points of the ranges, as two lists to search by bisection."""
    numbers = [int(word, 16) for word in packed.split()]
    firsts: list[int] = []
    lasts: list[int] = []
    end = 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        firsts.append(end + gap)
        end = end + gap + length
        lasts.append(end)
    return firsts, lasts


# --- width ------------------------------------------------------------------------------------------------------------


# mbvalidate drops bytes that are no UTF-8, and the last two code points of planes 1 to 16 (not those of plane 0,
# though they are noncharacters, too)
_LAST_OF_PLANES = "".join(chr(plane << 16 | end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF))
_UNPRINTABLE = re.compile(f"[\ud800-\udfff{_LAST_OF_PLANES}]")


@lru_cache(maxsize=1)
def _tables() -> tuple[list[int], list[int], list[int], list[int]]:

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


# --- report -----------------------------------------------------------------------------------------------------------


_DISPLAY_SIZE = 60  # columns of the statement's line that are shown
_MIN_RIGHT_CUT = 10  # columns kept to the right of the error, if possible

_ERRORS = frozenset({"ERROR", "FATAL", "PANIC"})


def message_text(report: Report, query: str | None, verbosity: str, show_context: str) -> str:
    """The lines of the message, each with its newline (pqBuildErrorMessage3); without a query there is no `LINE`."""
    out = [report.severity, ":  "]
    if verbosity == "sqlstate":
        return "".join(out) + report.sqlstate + "\n"
    if verbosity == "verbose":
        out += (report.sqlstate, ": ")
    out.append(report.message)
    position = report.position
    if position is None and report.internal_position is not None:
        position, query = report.internal_position, report.internal_query
    at_line = position is not None and verbosity != "terse" and query is not None
    if position is not None and not at_line:
        out.append(f" at character {position}")
    out.append("\n")
    if verbosity == "terse":
        return "".join(out)
    if at_line and query is not None and position is not None:
        out.append(error_position(query, position))
    if report.detail is not None:
        out.append(f"DETAIL:  {report.detail}\n")
    if report.hint is not None:
        out.append(f"HINT:  {report.hint}\n")
    if report.internal_query is not None:
        out.append(f"QUERY:  {report.internal_query}\n")
    shown = show_context == "always" or (show_context == "errors" and report.severity in _ERRORS)
    if report.context is not None and shown:
        out.append(f"CONTEXT:  {report.context}\n")
    if verbosity == "verbose":
        for label, value in (
            ("SCHEMA", report.schema),
            ("TABLE", report.table),
            ("COLUMN", report.column),
            ("DATATYPE", report.datatype),
            ("CONSTRAINT", report.constraint),
        ):
            if value is not None:
                out.append(f"{label} NAME:  {value}\n")
    return "".join(out)


def error_position(query: str, position: int) -> str:
    """`LINE n: …` and the caret below it (reportErrorPosition); empty: the position is outside the query."""
    place = position - 1
    if place < 0 or place > len(query):
        return ""
    before = query[:place]
    line_number = 1 + before.count("\n") + before.count("\r") - before.count("\r\n")
    begin = max(before.rfind("\n"), before.rfind("\r")) + 1
    ends = [at for at in (query.find("\n", place), query.find("\r", place)) if at >= 0]
    end = min(ends, default=len(query))
    # columns[i] is where character begin + i starts on the screen
    columns = [0]
    for char in query[begin:end]:
        columns.append(columns[-1] + max(char_width(char), 1))
    here, first, last = place - begin, 0, end - begin
    cut_left = cut_right = False
    if columns[last] > _DISPLAY_SIZE:
        if columns[here] + _MIN_RIGHT_CUT <= _DISPLAY_SIZE:
            while columns[last] > _DISPLAY_SIZE:
                last -= 1
            cut_right = True
        else:
            while columns[here] + _MIN_RIGHT_CUT < columns[last]:
                last -= 1
                cut_right = True
            while columns[last] - columns[first] > _DISPLAY_SIZE:
                first += 1
                cut_left = True
    prefix = f"LINE {line_number}: " + ("..." if cut_left else "")
    shown = query[begin + first : begin + last].replace("\t", " ") + ("..." if cut_right else "")
    caret = " " * (len(prefix) + columns[here] - columns[first]) + "^"
    return f"{prefix}{shown}\n{caret}\n"


# --- numeric locale ---------------------------------------------------------------------------------------------------


_NUMERIC = frozenset("0123456789+-.eE")


@lru_cache(maxsize=1)
def _conventions() -> tuple[str, int, str]:
    """Decimal point, digits in a group, separator of groups, with setDecimalLocale's defaults for empty ones."""
    try:
        locale.setlocale(locale.LC_NUMERIC, "")
    except locale.Error:
        locale.setlocale(locale.LC_NUMERIC, "C")
    conventions = locale.localeconv()
    locale.setlocale(locale.LC_NUMERIC, "C")
    point = str(conventions["decimal_point"]) or "."
    grouping = conventions["grouping"]
    digits = grouping[0] if isinstance(grouping, list) and grouping else 0
    separator = str(conventions["thousands_sep"]) or ("," if point != "," else ".")
    return point, digits if 0 < digits <= 6 else 3, separator


def localized(number: str) -> str:
    """`-1234567.8` as `-1,234,567.8`; a text that is no number stays as it is."""
    if not _NUMERIC.issuperset(number):
        return number
    point, group, separator = _conventions()
    sign = number[:1] if number[:1] in ("-", "+") else ""
    rest = number[len(sign) :]
    whole = len(rest) - len(rest.lstrip("0123456789"))
    digits, tail = rest[:whole], rest[whole:]
    first = whole % group or group
    groups = [digits[:first]] + [digits[at : at + group] for at in range(first, whole, group)]
    if tail.startswith("."):
        tail = point + tail[1:]
    return sign + separator.join(groups) + tail


# --- table ------------------------------------------------------------------------------------------------------------


Format = Literal[
    "aligned", "asciidoc", "csv", "html", "json", "latex", "latex-longtable", "ndjson", "troff-ms", "unaligned",
    "wrapped",
]  # fmt: skip
JSON_FORMATS = ("json", "ndjson")
Expanded = Literal["on", "off", "auto"]
LineStyleName = Literal["ascii", "old-ascii", "unicode"]
HeaderWidth = Literal["full", "column", "page"] | int

# column_type_alignment: int8 int2 int4 oid xid cid float4 float8 money numeric xid8
RIGHT_ALIGNED = frozenset({20, 21, 23, 26, 28, 29, 700, 701, 790, 1700, 5069})


@frozen
class PrintOptions:
    r"""A field for each `\pset` name, three for printing a result in portions, and the release that is spoken."""

    border: int = 1
    columns: int = 0
    csv_fieldsep: str = ","
    expanded: Expanded = "off"
    fieldsep: str = "|"
    fieldsep_zero: bool = False
    footer: bool = True
    format: Format = "aligned"
    linestyle: LineStyleName = "ascii"
    null: str = ""
    numericlocale: bool = False
    pager: int = 1
    pager_min_lines: int = 0
    recordsep: str = "\n"
    recordsep_zero: bool = False
    tableattr: str | None = None
    title: str | None = None
    tuples_only: bool = False
    unicode_border_linestyle: Literal["single", "double"] = "single"
    unicode_column_linestyle: Literal["single", "double"] = "single"
    unicode_header_linestyle: Literal["single", "double"] = "single"
    xheader_width: HeaderWidth = "full"
    start_table: bool = True
    stop_table: bool = True
    prior_records: int = 0
    release: int = 17

    @property
    def field_separator(self) -> str:
        return "\0" if self.fieldsep_zero else self.fieldsep

    @property
    def record_separator(self) -> str:
        return "\0" if self.recordsep_zero else self.recordsep


@frozen
class TableContent:
    """Headers, rows of cells, 'l' or 'r' for each column; footers None: psql's "(n rows)"."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    aligns: str
    title: str | None = None
    footers: Sequence[str] | None = None
    values: Sequence[Sequence[str | None]] | None = None  # of a query's result, for formats that know types
    types: Sequence[int] = ()

    def footers_to_print(self, options: PrintOptions) -> Sequence[str]:
        """The footers of formats that do not number their records (footers_with_default)."""
        if self.footers is not None:
            return self.footers
        if not options.footer:
            return ()
        total = options.prior_records + len(self.rows)
        return (f"({total} row)" if total == 1 else f"({total} rows)",)

    def own_footers(self) -> Sequence[str]:
        return self.footers or ()


def alignment(type_oids: Sequence[int]) -> str:
    """Numbers to the right, all else to the left."""
    return "".join("r" if oid in RIGHT_ALIGNED else "l" for oid in type_oids)


def result_table(
    names: Sequence[str], type_oids: Sequence[int], rows: Sequence[Sequence[str | None]], options: PrintOptions
) -> TableContent:
    """A query's result as text: NULL as `\\pset null` says, numbers by locale if asked, as printQuery does."""
    aligns = alignment(type_oids)
    null = printable(options.null)
    cells = [[null if value is None else printable(value) for value in row] for row in rows]
    if options.numericlocale and "r" in aligns:
        for row, shown in zip(rows, cells, strict=True):
            for at, align in enumerate(aligns):
                if align == "r" and row[at] is not None:
                    shown[at] = localized(shown[at])
    if options.format in JSON_FORMATS:
        return TableContent(names, cells, aligns, title=options.title, values=rows, types=type_oids)
    return TableContent([printable(name) for name in names], cells, aligns, title=options.title)
