r"""`\pset \a \C \f \H \t \T \x`: print options; and `\crosstabview`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.formats.aligned import line_style
from pgrepl.shell.formats.table import (
    JSON_FORMATS,
    Expanded,
    Format,
    HeaderWidth,
    LineStyleName,
    PrintOptions,
    TableContent,
    alignment,
    printable,
)
from pgrepl.shell.scripts.slash_lexer import dequote_identifier
from pgrepl.shell.shell import Shell
from pgrepl.shell.variables import enum_error, parse_bool, parse_integer

if TYPE_CHECKING:
    from pgrepl.query.result import Result

_MAX_COLUMNS = 1600


class _Refused(Exception):
    """The reason why the result makes no crosstab."""


def print_crosstab(shell: Shell, result: Result, arguments: list[str | None]) -> bool:
    try:
        table = _turned(shell, result, arguments)
    except _Refused as problem:
        shell.error(f"\\crosstabview: {problem}")
        return False
    return shell.print_table(table)


def _turned(shell: Shell, result: Result, arguments: list[str | None]) -> TableContent:
    columns = result.columns or ()
    names = [column.name for column in columns]
    if len(names) < 3:
        raise _Refused("query must return at least three columns")
    down = 0 if arguments[0] is None else _column(arguments[0], names)
    across = 1 if arguments[1] is None else _column(arguments[1], names)
    if down == across:
        raise _Refused("vertical and horizontal headers must be different columns")
    if arguments[2] is not None:
        data = _column(arguments[2], names)
    elif len(names) != 3:
        raise _Refused("data column must be specified when query returns more than three columns")
    else:
        data = 3 - down - across
    order = None if arguments[3] is None else _column(arguments[3], names)

    heads: dict[str | None, int] = {}
    sides: dict[str | None, int] = {}
    sort_values: dict[str | None, str | None] = {}
    for row in result.rows:
        heads.setdefault(row[across], len(heads))
        sort_values.setdefault(row[across], None if order is None else row[order])
        if len(heads) > _MAX_COLUMNS:
            raise _Refused(f"maximum number of columns ({_MAX_COLUMNS}) exceeded")
        sides.setdefault(row[down], len(sides))
    if order is not None:
        ranked = sorted(sorted(heads, key=_by_bytes), key=lambda head: _rank(sort_values[head]))
        heads = {head: at for at, head in enumerate(ranked)}

    cells: list[list[str | None]] = [[side] + [""] * len(heads) for side in sides]
    filled: set[tuple[int, int]] = set()
    null = shell.options.null
    for row in result.rows:
        place = sides[row[down]], heads[row[across]]
        if place in filled:
            side, head = (null or "(null)" if value is None else value for value in (row[down], row[across]))
            raise _Refused(f'query result contains multiple data values for row "{side}", column "{head}"')
        filled.add(place)
        cells[place[0]][place[1] + 1] = row[data]
    aligns = alignment([columns[down].type]) + alignment([columns[data].type]) * len(heads)
    shown = [[printable(null if value is None else value) for value in line] for line in cells]
    headers = [printable(names[down])] + [printable(null if head is None else head) for head in heads]
    return TableContent(headers, shown, aligns, title=shell.options.title)


def _by_bytes(value: str | None) -> tuple[bool, bytes]:
    return value is None, (value or "").encode("utf-8", "surrogateescape")


def _rank(value: str | None) -> int:
    """The value as a number; 0: it is none (rankSort)."""
    return int(value) if value is not None and re.fullmatch("-?[0-9]+", value) else 0


def _column(argument: str, names: list[str]) -> int:
    """A column by its number or name (indexOfColumn)."""
    if argument and re.fullmatch("[0-9]+", argument):
        number = int(argument)
        if not 1 <= number <= len(names):
            raise _Refused(f"column number {number} is out of range 1..{len(names)}")
        return number - 1
    name = dequote_identifier(argument, fold=True)
    places = [at for at, column in enumerate(names) if column == name]
    if len(places) > 1:
        raise _Refused(f'ambiguous column name: "{name}"')
    if not places:
        raise _Refused(f'column name not found: "{name}"')
    return places[0]


# --- pset -------------------------------------------------------------------------------------------------------------


FORMATS = ("aligned", "asciidoc", "csv", "html", "latex", "troff-ms", "unaligned", "wrapped")
LINE_STYLES = ("ascii", "old-ascii", "unicode")
_ALL_FORMATS = "aligned, asciidoc, csv, html, latex, latex-longtable, troff-ms, unaligned, wrapped"
_SYNONYMS = {"x": "expanded", "vertical": "expanded", "t": "tuples_only", "C": "title", "T": "tableattr"}

# What `\pset` without arguments lists, in its order.
LISTED = (
    "border", "columns", "csv_fieldsep", "expanded", "fieldsep", "fieldsep_zero", "footer", "format", "linestyle",
    "null", "numericlocale", "pager", "pager_min_lines", "recordsep", "recordsep_zero", "tableattr", "title",
    "tuples_only", "unicode_border_linestyle", "unicode_column_linestyle", "unicode_header_linestyle", "xheader_width",
)  # fmt: skip


class BadOption(Exception):
    """The message about a print option that cannot be set."""


def set_option(shell: Shell, name: str, value: str | None, *, quiet: bool) -> bool:
    """Set one option (without a value many are toggled) and, unless quiet, print its state. False: it is an error."""
    try:
        shell.options = changed(shell.options, name, value)
    except BadOption as problem:
        shell.error(str(problem))
        return False
    # psql prints nothing for these when they have a value
    silent = value is not None and _SYNONYMS.get(name, name) in ("numericlocale", "tuples_only", "footer")
    if not quiet and not silent:
        shell.say(announcement(shell.options, name))
    return True


def changed(options: PrintOptions, name: str, value: str | None) -> PrintOptions:
    """The options with one of them set (do_pset)."""
    option = _SYNONYMS.get(name, name)
    return replace(options, **_change(options, option, name, value))


def _change(options: PrintOptions, option: str, name: str, value: str | None) -> dict[str, Any]:
    if option == "expanded":
        return {option: _expanded(options, name, value)}
    if option in ("numericlocale", "tuples_only", "footer"):
        return {option: _toggled(name, value, getattr(options, option))}
    if option in ("fieldsep_zero", "recordsep_zero"):
        return {option: True, option.removesuffix("_zero"): ""}
    if option in ("title", "tableattr"):
        return {option: value}
    if option == "pager":
        return {option: _pager(options, value)}
    if option not in LISTED:
        raise BadOption(f"\\pset: unknown option: {name}")
    if value is None:
        return {}
    if option in ("fieldsep", "recordsep"):
        return {option: value, f"{option}_zero": False}
    return {option: _read(option, value)}


def _read(option: str, value: str) -> object:
    if option == "format":
        return _format(value)
    if option == "linestyle":
        return _line_style(value)
    if option == "border":
        return _atoi(value) % 65536
    if option == "columns":
        return _atoi(value)
    if option == "xheader_width":
        return _xheader_width(value)
    if option == "csv_fieldsep":
        return _csv_separator(value)
    if option == "pager_min_lines":
        return _lines(value)
    return value if option == "null" else _unicode_style(option, value)


def _abbreviates(value: str, word: str) -> bool:
    return word.startswith(value.lower())


def _format(value: str) -> Format:
    if value in JSON_FORMATS:  # psql has none; they have no abbreviations
        return cast(Format, value)
    matches = [name for name in FORMATS if _abbreviates(value, name)]
    if len(matches) > 1:
        raise BadOption(f'\\pset: ambiguous abbreviation "{value}" matches both "{matches[0]}" and "{matches[1]}"')
    if matches:
        return cast(Format, matches[0])
    if _abbreviates(value, "latex-longtable"):
        return "latex-longtable"
    raise BadOption(f"\\pset: allowed formats are {_ALL_FORMATS}")


def _line_style(value: str) -> LineStyleName:
    for style in LINE_STYLES:
        if _abbreviates(value, style):
            return cast(LineStyleName, style)
    raise BadOption("\\pset: allowed line styles are ascii, old-ascii, unicode")


def _unicode_style(option: str, value: str) -> str:
    for style in ("single", "double"):
        if _abbreviates(value, style):
            return style
    part = option.split("_")[1]
    raise BadOption(f"\\pset: allowed Unicode {part} line styles are single, double")


def _atoi(value: str) -> int:
    """The number as C's atoi reads it: text after it is ignored, no number is 0, a large one wraps."""
    match = re.match(r"[ \t\n\r\f\v]*([+-]?[0-9]+)", value)
    number = max(-(2**63), min(int(match[1]), 2**63 - 1)) if match else 0
    return (number + 2**31) % 2**32 - 2**31


def _expanded(options: PrintOptions, name: str, value: str | None) -> Expanded:
    if value is None:
        return "off" if options.expanded != "off" else "on"
    if value.lower() == "auto":
        return "auto"
    on = parse_bool(value)
    if on is None:
        raise BadOption(enum_error(name, value, "on, off, auto"))
    return "on" if on else "off"


def _xheader_width(value: str) -> HeaderWidth:
    if value.lower() in ("full", "column", "page"):
        return cast(HeaderWidth, value.lower())
    width = _atoi(value)
    if width == 0:
        raise BadOption(
            '\\pset: allowed xheader_width values are "full" (default), "column", "page",'
            " or a number specifying the exact width"
        )
    return width


def _csv_separator(value: str) -> str:
    if len(value.encode("utf-8", "surrogateescape")) != 1:
        raise BadOption("\\pset: csv_fieldsep must be a single one-byte character")
    if value in '"\n\r':
        raise BadOption("\\pset: csv_fieldsep cannot be a double quote, a newline, or a carriage return")
    return value


def _toggled(name: str, value: str | None, now: bool) -> bool:
    if value is None:
        return not now
    on = parse_bool(value)
    if on is None:
        raise BadOption(f'unrecognized value "{value}" for "{name}": Boolean expected')
    return on


def _pager(options: PrintOptions, value: str | None) -> int:
    if value is None:
        return 0 if options.pager == 1 else 1
    if value.lower() == "always":
        return 2
    on = parse_bool(value)
    if on is None:
        raise BadOption(enum_error("pager", value, "on, off, always"))
    return 1 if on else 0


def _lines(value: str) -> int:
    lines = parse_integer(value)
    if lines is None:
        raise BadOption(f'invalid value "{value}" for "pager_min_lines": integer expected')
    return lines


# --- showing ---------------------------------------------------------------------------------------------------------


def announcement(options: PrintOptions, name: str) -> str:
    """The sentence about an option's state (printPsetInfo)."""
    option = _SYNONYMS.get(name, name)
    if option == "border":
        return f"Border style is {options.border}."
    if option == "columns":
        return f"Target width is {options.columns}." if options.columns else "Target width is unset."
    if option == "expanded":
        state = {"on": "is on", "off": "is off", "auto": "is used automatically"}[options.expanded]
        return f"Expanded display {state}."
    if option == "xheader_width":
        width = options.xheader_width
        return (
            f"Expanded header width is {width}." if isinstance(width, int) else f'Expanded header width is "{width}".'
        )
    if option == "csv_fieldsep":
        return f'Field separator for CSV is "{options.csv_fieldsep}".'
    if option == "fieldsep" and not options.fieldsep_zero:
        return f'Field separator is "{options.fieldsep}".'
    if option in ("fieldsep", "fieldsep_zero"):
        return "Field separator is zero byte."
    if option == "footer":
        return f"Default footer is {_on(options.footer)}."
    if option == "format":
        return f"Output format is {options.format}."
    if option == "linestyle":
        return f"Line style is {line_style(options).name}."
    if option == "null":
        return f'Null display is "{options.null}".'
    if option == "numericlocale":
        return f"Locale-adjusted numeric output is {_on(options.numericlocale)}."
    if option == "pager":
        return ("Pager usage is off.", "Pager is used for long output.", "Pager is always used.")[options.pager]
    if option == "pager_min_lines":
        lines = "line" if options.pager_min_lines == 1 else "lines"
        return f"Pager won't be used for less than {options.pager_min_lines} {lines}."
    if option == "recordsep" and not options.recordsep_zero:
        shown = "<newline>" if options.recordsep == "\n" else f'"{options.recordsep}"'
        return f"Record separator is {shown}."
    if option in ("recordsep", "recordsep_zero"):
        return "Record separator is zero byte."
    if option == "tableattr":
        attributes = options.tableattr
        return "Table attributes unset." if attributes is None else f'Table attributes are "{attributes}".'
    if option == "title":
        return "Title is unset." if options.title is None else f'Title is "{options.title}".'
    if option == "tuples_only":
        return f"Tuples only is {_on(options.tuples_only)}."
    part = option.split("_")[1]
    return f'Unicode {part} line style is "{getattr(options, option)}".'


def _on(value: bool) -> str:
    return "on" if value else "off"


def _quoted(text: str) -> str:
    return "'" + text.replace("\n", "\\n").replace("'", "\\'") + "'"


def listing(options: PrintOptions) -> str:
    """All options and their values, as they would be written after `\\pset`."""
    return "".join(f"{name:<24} {_shown(options, name)}\n" for name in LISTED)


def _shown(options: PrintOptions, name: str) -> str:
    value = getattr(options, name)
    if isinstance(value, bool):
        return _on(value)
    if name in ("csv_fieldsep", "fieldsep", "null", "recordsep"):
        return _quoted(value)
    if name in ("tableattr", "title"):
        return "" if value is None else _quoted(value)
    return str(value)


# --- formatting -------------------------------------------------------------------------------------------------------


def _set(c: BackslashCommand, name: str, value: str | None) -> bool:
    return set_option(c.shell, name, value, quiet=c.shell.quiet)


@command("a")
def align(c: BackslashCommand) -> bool:
    return _set(c, "format", "unaligned" if c.shell.options.format == "aligned" else "aligned")


@command("C")
def title(c: BackslashCommand) -> bool:
    return _set(c, "title", c.word(semicolon=True))


@command("f")
def field_separator(c: BackslashCommand) -> bool:
    return _set(c, "fieldsep", c.word())


@command("H", "html")
def html(c: BackslashCommand) -> bool:
    return _set(c, "format", "aligned" if c.shell.options.format == "html" else "html")


@command("pset")
def print_option(c: BackslashCommand) -> bool:
    name, value = c.word(), c.word()
    if name is None:
        c.shell.stdout.write(listing(c.shell.options))
        return True
    return _set(c, name, value)


@command("t")
def tuples_only(c: BackslashCommand) -> bool:
    return _set(c, "tuples_only", c.word(semicolon=True))


@command("T")
def table_attributes(c: BackslashCommand) -> bool:
    return _set(c, "tableattr", c.word())


@command("x")
def expanded(c: BackslashCommand) -> bool:
    return _set(c, "expanded", c.word(semicolon=True))
