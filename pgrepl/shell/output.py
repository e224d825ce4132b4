"""Printing a table in the format of the options, on a stream, through the pager if it is long."""

from __future__ import annotations

import os
from collections.abc import Callable

from pgrepl.shell import streams
from pgrepl.shell.streams import Stream
from pgrepl.shell.table import JSON_FORMATS, PrintOptions, TableContent

# COLUMNS at the start: line editing may set it later
_ENVIRONMENT_COLUMNS = os.environ.get("COLUMNS", "")


def print_table(
    table: TableContent, options: PrintOptions, stream: Stream, *, is_pager: bool = False, log: Stream | None = None
) -> None:
    """Print a table (printTable). `is_pager`: the stream is a pager already; `log` gets an aligned copy."""
    if log is not None:
        log.write(_aligned(table, options, log, False)[0])
    stream.error = None
    if options.format in ("aligned", "wrapped"):
        if options.expanded == "on" or (options.expanded == "auto" and is_pager):
            text, lines = _expanded(table, options, stream, is_pager)
        else:
            text, lines = _aligned(table, options, stream, is_pager)
    else:
        text = _renderer(options)(table, options)
        lines = _line_count(table, options, options.expanded == "on")
    target: Stream = stream
    if stream.is_stdout and not is_pager:
        target = streams.pager(lines, options.pager, options.pager_min_lines) or stream
    if target is not stream:
        stream.flush()
    target.write(text)
    if target is not stream:
        target.close()


def _renderer(options: PrintOptions) -> Callable[[TableContent, PrintOptions], str]:
    expanded = options.expanded == "on"
    if options.format == "csv":
        from pgrepl.shell.formats.delimited import csv, csv_expanded

        return csv_expanded if expanded else csv
    if options.format in JSON_FORMATS:
        from pgrepl.shell.formats.json import json, ndjson

        return json if options.format == "json" else ndjson
    if options.format == "html":
        from pgrepl.shell.formats.html import html, html_expanded

        return html_expanded if expanded else html
    if options.format == "asciidoc":
        from pgrepl.shell.formats.asciidoc import asciidoc, asciidoc_expanded

        return asciidoc_expanded if expanded else asciidoc
    if options.format in ("latex", "latex-longtable"):
        from pgrepl.shell.formats.latex import latex, latex_expanded, latex_longtable

        return latex_expanded if expanded else latex if options.format == "latex" else latex_longtable
    if options.format == "troff-ms":
        from pgrepl.shell.formats.troff import troff_ms, troff_ms_expanded

        return troff_ms_expanded if expanded else troff_ms
    from pgrepl.shell.formats.delimited import unaligned, unaligned_expanded

    return unaligned_expanded if expanded else unaligned


def _line_count(table: TableContent, options: PrintOptions, expanded: bool) -> int:
    """The lines on the screen as IsPagerNeeded counts them: a footer is one line."""
    lines = (len(table.headers) + 1) * len(table.rows) if expanded else len(table.rows) + 1
    return lines if options.tuples_only else lines + len(table.own_footers())


def _columns(options: PrintOptions, stream: Stream, is_pager: bool) -> int:
    r"""The width to print for: `\pset columns`, or on a terminal COLUMNS or the screen; 0 if there is none."""
    if options.columns > 0:
        return options.columns
    if not is_pager and not (stream.is_stdout and stream.is_terminal()):
        return 0
    if _ENVIRONMENT_COLUMNS.isdecimal() and int(_ENVIRONMENT_COLUMNS) > 0:
        return int(_ENVIRONMENT_COLUMNS)
    size = streams.screen_size()
    return size.columns if size is not None else 0


def _aligned(table: TableContent, options: PrintOptions, stream: Stream, is_pager: bool) -> tuple[str, int]:
    from pgrepl.shell.formats.aligned import aligned, extra_lines, lay_out

    columns = _columns(options, stream, is_pager)
    layout = lay_out(table, options, columns)
    if options.expanded == "auto" and len(table.headers) > 1 and layout.exceeds(columns):
        return _expanded(table, options, stream, is_pager)
    if layout.exceeds(columns):
        lines = streams.MANY_LINES
    elif stream.is_stdout and streams.both_terminals():
        lines = _line_count(table, options, False) + extra_lines(layout)
    else:
        lines = 0
    return aligned(table, options, layout), lines


def _expanded(table: TableContent, options: PrintOptions, stream: Stream, is_pager: bool) -> tuple[str, int]:
    from pgrepl.shell.formats.expanded import expanded

    return expanded(table, options, _columns(options, stream, is_pager)), _line_count(table, options, True)
