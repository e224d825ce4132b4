r"""The expanded form of the aligned and wrapped formats: one line for each column (print_aligned_vertical)."""

from __future__ import annotations

import math

from pgrepl.shell.formats.aligned import HorizontalRule, Lines, LineStyle, line_style
from pgrepl.shell.formats.table import PrintOptions, TableContent, display_lines, take_columns


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
