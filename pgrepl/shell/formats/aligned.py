"""The aligned and wrapped formats, straight and expanded (one line for each column), as psql's print_aligned_text and
print_aligned_vertical draw them, in the line styles ascii, old-ascii and unicode.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from pgrepl.ground.frozen import frozen
from pgrepl.shell.formats.table import PrintOptions, TableContent, display_lines, take_columns


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


# --- aligned ----------------------------------------------------------------------------------------------------------


Lines = list[tuple[str, int]]


@frozen
class Layout:
    """The cells of a table in lines, and the width of each column."""

    headers: list[Lines]
    rows: list[list[Lines]]
    widths: list[int]
    total: int  # the whole table's width
    header_total: int  # what the headers alone need

    def exceeds(self, columns: int) -> bool:
        return 0 < columns < max(self.total, self.header_total)


def lay_out(table: TableContent, options: PrintOptions, columns: int, last: Collection[int] = ()) -> Layout:
    """Measure every cell; in the wrapped format narrow the columns until the table fits, if possible, and those in
    `last` only if that does not do."""
    headers = [display_lines(text) for text in table.headers]
    rows = [[display_lines(cell) for cell in row] for row in table.rows]
    header_widths = [max(width for _, width in lines) for lines in headers]
    widths = list(header_widths)
    sums = [0] * len(widths)
    for row in rows:
        for at, lines in enumerate(row):
            width = lines[0][1] if len(lines) == 1 else max(width for _, width in lines)
            sums[at] += width
            if width > widths[at]:
                widths[at] = width
    count = len(widths)
    border = min(options.border, 2)
    frame = count if border == 0 else count * 3 - (1 if count else 0) if border == 1 else count * 3 + 1
    total, header_total = frame + sum(widths), frame + sum(header_widths)
    if options.format == "wrapped" and columns > 0 and header_total <= columns:
        averages = [width // len(rows) for width in sums] if rows else sums
        wrapped = list(widths)
        while total > columns:
            worst = _worst_column(wrapped, widths, header_widths, averages, last)
            if worst is None and last:
                worst = _worst_column(wrapped, widths, header_widths, averages)
            if worst is None:
                break
            wrapped[worst] -= 1
            total -= 1
        widths = wrapped
    return Layout(headers, rows, widths, total, header_total)


def _worst_column(
    wrapped: list[int], widths: list[int], headers: list[int], averages: list[int], but: Collection[int] = ()
) -> int | None:
    """The column to narrow: the widest in proportion to its average, and of equal ones the wider."""
    best, worst = 0.0, None
    for at, average in enumerate(averages):
        if average and wrapped[at] > headers[at] and at not in but:
            ratio = wrapped[at] / average + widths[at] * 0.01
            if ratio > best:
                best, worst = ratio, at
    return worst


def extra_lines(layout: Layout) -> int:
    """The lines beyond one for each row, as psql counts them to decide about the pager."""
    extra = max((len(lines) for lines in layout.headers), default=0)
    for row in layout.rows:
        tallest = 0
        for lines, column in zip(row, layout.widths, strict=True):
            width = max(width for _, width in lines)
            if width > 0 and column:
                tallest = max(tallest, (width - 1) // column + len(lines) - 1)
        extra += tallest
    return extra


def aligned(table: TableContent, options: PrintOptions, layout: Layout) -> str:
    style = line_style(options)
    border = min(options.border, 2)
    out: list[str] = []
    if options.start_table:
        if table.title is not None and not options.tuples_only:
            width = max(width for _, width in display_lines(table.title))
            out.append(" " * max((layout.total - width) // 2, 0) + table.title + "\n")
        if not options.tuples_only:
            if border == 2:
                out.append(horizontal_line(layout.widths, border, style.top))
            _draw_headers(out, layout, border, style)
            out.append(horizontal_line(layout.widths, border, style.header))
    _draw_rows(out, layout, table.aligns, border, style)
    if options.stop_table:
        if border == 2:
            out.append(horizontal_line(layout.widths, border, style.bottom))
        if not options.tuples_only:
            out.extend(footer + "\n" for footer in table.footers_to_print(options))
        out.append("\n")
    return "".join(out)


def horizontal_line(widths: list[int], border: int, rule: HorizontalRule) -> str:
    line = rule.horizontal
    between = " " if border == 0 else line + rule.middle + line
    middle = between.join(line * width for width in widths)
    if border == 0:
        return middle + "\n"
    if border == 1:
        return line + middle + line + "\n"
    return rule.left + line + middle + line + rule.right + "\n"


def _draw_headers(out: list[str], layout: Layout, border: int, style: LineStyle) -> None:
    last = len(layout.headers) - 1
    for number in range(max((len(lines) for lines in layout.headers), default=0)):
        if border == 2:
            out.append(style.data.left)
        for at, (lines, width) in enumerate(zip(layout.headers, layout.widths, strict=True)):
            if border or (not style.wrap_right_border and at > 0):
                out.append(style.header_newline_left if number else " ")
            if number < len(lines):
                text, wide = lines[number]
                space = width - wide
                out += (" " * (space // 2), text, " " * ((space + 1) // 2))
            else:
                out.append(" " * width)
            if border or style.wrap_right_border:
                out.append(style.header_newline_right if number + 1 < len(lines) else " ")
            if border and at < last:
                out.append(style.data.middle)
        if border == 2:
            out.append(style.data.right)
        out.append("\n")


def _draw_rows(out: list[str], layout: Layout, aligns: str, border: int, style: LineStyle) -> None:
    last = len(layout.widths) - 1
    divider = " " if border == 0 else f" {style.data.middle} "
    begin = ("", " ", style.data.left + " ")[border]
    end = f" {style.data.right}\n" if border == 2 else "\n"
    for row in layout.rows:
        if not row:
            continue
        if all(len(lines) == 1 and lines[0][1] <= width for lines, width in zip(row, layout.widths, strict=True)):
            cells = []
            for at, (((text, wide),), width) in enumerate(zip(row, layout.widths, strict=True)):
                pad = " " * (width - wide)
                cells.append(pad + text if aligns[at] == "r" else text if at == last and border < 2 else text + pad)
            out += (begin, divider.join(cells), end)
        else:
            _draw_tall_row(out, row, layout.widths, aligns, border, style)


def _draw_tall_row(
    out: list[str], row: list[Lines], widths: list[int], aligns: str, border: int, style: LineStyle
) -> None:
    """Draw a row of several lines: of values with newlines, or wrapped ones, with marks on both sides of a cell."""
    count = len(row)
    current = [0] * count  # the line of the cell
    offset = [0] * count  # characters of that line that are drawn
    mark = [""] * count  # how the cell's line continues the one above: "", "wrap" or "newline"
    left_marks = {"": " ", "wrap": style.wrap_left, "newline": style.newline_left}
    more = True
    while more:
        more = False
        if border == 2:
            out.append(style.data.left)
        for at, (lines, width) in enumerate(zip(row, widths, strict=True)):
            filled = border == 2 or at < count - 1
            if border:
                out.append(left_marks[mark[at]])
            shown = width
            if current[at] >= len(lines):
                if filled:
                    out.append(" " * width)
            else:
                text = lines[current[at]][0]
                taken, shown = take_columns(text[offset[at] :], width)
                shown = min(shown, width)
                if aligns[at] == "r":
                    out.append(" " * (width - shown))
                out.append(text[offset[at] : offset[at] + taken])
                offset[at] += taken
                if offset[at] < len(text):
                    more = True
                else:
                    current[at] += 1
                    offset[at] = 0
                    more = more or current[at] < len(lines)
            mark[at] = "" if current[at] >= len(lines) else "wrap" if offset[at] else "newline" if current[at] else ""
            if aligns[at] != "r" and (filled or mark[at]):
                out.append(" " * (width - shown))
            if mark[at]:
                out.append(style.wrap_right if mark[at] == "wrap" else style.newline_right)
            elif filled:
                out.append(" ")
            if border and at < count - 1:
                out.append(_divider(mark[at + 1], current[at + 1] >= len(row[at + 1]), style))
        if border == 2:
            out.append(style.data.right)
        out.append("\n")


def _divider(next_mark: str, next_blank: bool, style: LineStyle) -> str:
    if next_mark == "wrap":
        return style.vertical_wrap
    if next_mark == "newline":
        return style.vertical_newline
    return style.vertical_blank if next_blank else style.data.middle


# --- expanded ---------------------------------------------------------------------------------------------------------


def expanded(table: TableContent, options: PrintOptions, columns: int) -> str:
    """`columns` is the screen's width, 0 if there is none."""
    style = line_style(options)
    border = min(options.border, 2)
    if not any(table.rows) and options.start_table and options.stop_table:
        footers = () if options.tuples_only else table.footers_to_print(options)
        return "".join(footer + "\n" for footer in footers) + "\n"
    headers = [display_lines(text) for text in table.headers]
    rows = [[display_lines(cell) for cell in row] for row in table.rows]
    header_width = max((width for lines in headers for _, width in lines), default=0)
    tall_headers = any(len(lines) > 1 for lines in headers)
    data_width, tall_data = _data_width(rows, header_width, tall_headers, style, options, columns)
    drawing = _Drawing(style, border, options, columns, header_width, data_width, tall_headers, tall_data)

    out: list[str] = []
    if options.start_table and not options.tuples_only and table.title is not None:
        out.append(table.title + "\n")
    rule_width = header_width + (1 if border < 2 and tall_headers and style.name == "old-ascii" else 0)
    for number, row in enumerate(rows):
        rule = style.header if number else style.top
        if not options.tuples_only:
            out.append(drawing.record_line(options.prior_records + number + 1, rule_width, rule))
        elif number or not options.start_table or border == 2:
            out.append(drawing.record_line(0, rule_width, rule))
        for header, cell in zip(headers, row, strict=True):
            drawing.draw_field(out, header, cell)
    if options.stop_table:
        if border == 2:
            out.append(drawing.record_line(0, header_width, style.bottom))
        footers = () if options.tuples_only else table.own_footers()
        if footers and border < 2:
            out.append("\n")
        out.extend(footer + "\n" for footer in footers)
        out.append("\n")
    return "".join(out)


def _data_width(
    rows: list[list[Lines]],
    header_width: int,
    tall_headers: bool,
    style: LineStyle,
    options: PrintOptions,
    columns: int,
) -> tuple[int, bool]:
    """The data column's width, and whether there is a column for marks of newlines or wrapping. psql 17 leaves room for
    the line `-[ RECORD 1 ]` in the aligned format, too; 16 and 18 do so in the wrapped one only."""
    border = min(options.border, 2)
    old = style.name == "old-ascii"
    widest = max((width for row in rows for lines in row for _, width in lines), default=0)
    marked = any(len(lines) > 1 for row in rows for lines in row)
    spacing = (1, 3, 7)[border]
    if tall_headers and (border == 0 or (border == 1 and old)):
        spacing += 1
    if marked and border < 2 and not old:
        spacing += 1
    record_width = 0
    if not options.tuples_only and (options.release < 18 or options.format == "wrapped"):
        record_width = (1 + int(math.log10(len(rows))) if rows else 0) + (9, 12, 15)[border]
    while True:
        width = max(header_width + spacing + widest, record_width)
        if options.format == "wrapped" and 0 < columns < width:
            width = max(columns, header_width + spacing + 3, record_width)
        data_width = width - header_width - spacing
        if data_width < widest and not marked and border < 2 and not old:
            marked = True
            spacing += 1
        else:
            return data_width, marked


class _Drawing:
    """The measures that every record of one table shares."""

    def __init__(
        self,
        style: LineStyle,
        border: int,
        options: PrintOptions,
        columns: int,
        header_width: int,
        data_width: int,
        tall_headers: bool,
        tall_data: bool,
    ) -> None:
        self.style = style
        self.border = border
        self.options = options
        self.columns = columns
        self.header_width = header_width
        self.data_width = data_width
        self.old = style.name == "old-ascii"
        self.header_marks = border > 0 or (tall_headers and not self.old)
        self.header_left = border == 2 or (tall_headers and self.old)
        self.data_marks = border > 1 or (tall_data and not self.old)
        blank = header_width + border
        if tall_headers and ((border < 2 and self.old) or (border == 0 and not self.old)):
            blank += 1
        self.no_header = " " * max(blank, 1)

    def record_line(self, record: int, header_width: int, rule: HorizontalRule) -> str:
        """The line `-[ RECORD 1 ]-+----`, or the line at a table's end (print_aligned_vertical_line)."""
        line = rule.horizontal
        border = self.options.border  # more than 2 draws these lines without their ends
        fill = line if border else " "
        label = "" if not record else f"* Record {record}" if border == 0 else f"[ RECORD {record} ]"
        out = [(rule.left + line) if border == 2 else line if border == 1 else "", label]
        used = len(label) + (1 if border != 2 else 0)
        out.append(fill * max(header_width - used, 0))
        used -= header_width
        narrow = self.options.xheader_width == "column"
        if border:
            joints = [line, rule.right if narrow else rule.middle, "" if narrow else line]
        else:
            joints = [" "]
        for joint in joints:
            if used <= 0:
                out.append(joint)
            used -= 1
        if not narrow:
            used = max(used, 0)
            width = max(self._ruled_width(header_width), used)
            out.append(fill * (width - used))
            if border == 2:
                out.append(line + rule.right)
        out.append("\n")
        return "".join(out)

    def _ruled_width(self, header_width: int) -> int:
        """The width of the line over the data, which `\\pset xheader_width` limits."""
        limit = self.options.xheader_width
        columns = limit if isinstance(limit, int) else self.columns if limit == "page" else 0
        if columns <= 0 or self.options.border > 2:
            return self.data_width
        return min(self.data_width, max(0, columns - header_width - (0, 3, 7)[self.border]))

    def draw_field(self, out: list[str], header: Lines, cell: Lines) -> None:
        """Draw a header beside its value, line by line."""
        style = self.style
        header_at = line_at = offset = 0
        left = cell[0][1]  # columns of the value's line still to come
        done = False  # the value is drawn; its end decides the separators beside a longer header
        while header_at < len(header) or not done:
            if self.border == 2:
                out.append(style.data.left)
            if header_at < len(header):
                text, width = header[header_at]
                if self.header_left:
                    out.append(style.header_newline_left if header_at else " ")
                out += (text, " " * (self.header_width - width))
                header_at += 1
                if self.header_marks:
                    out.append(style.header_newline_right if header_at < len(header) else " ")
            else:
                out.append(self.no_header)
            if self.border:
                first = line_at == 0
                out.append(style.vertical_wrap if offset else style.data.middle if first else style.vertical_newline)
            if done:
                out.append("\n" if self.border < 2 else " " * self.data_width + "  " + style.data.right + "\n")
                continue
            out.append(style.wrap_left if offset else " ")
            taken, width = take_columns(cell[line_at][0][offset:], self.data_width)
            out.append(cell[line_at][0][offset : offset + taken])
            offset += taken
            left -= width
            pad = " " * (self.data_width - width)
            if left:
                if self.data_marks:
                    out += (pad, style.wrap_right)
            elif line_at + 1 < len(cell):
                if self.data_marks:
                    out += (pad, style.newline_right)
                line_at += 1
                offset = 0
                left = cell[line_at][1]
            else:
                if self.border > 1:
                    out += (pad, " ")
                done = True
            if self.border == 2:
                out.append(style.data.right)
            out.append("\n")
