"""Printing a result as a table, whole or, with FETCH_COUNT, in portions with column widths of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from pgrepl.query.streamed import StreamedRows
from pgrepl.shell import interrupt, streams
from pgrepl.shell.output import print_table
from pgrepl.shell.shell import Shell
from pgrepl.shell.streams import Stream
from pgrepl.shell.table import PrintOptions, TableContent, result_table

if TYPE_CHECKING:
    from pgrepl.query.result import Result


def table_of(result: Result, options: PrintOptions) -> TableContent:
    columns = result.columns or ()
    return result_table([column.name for column in columns], [column.type for column in columns], result.rows, options)


def print_portions(shell: Shell, result: Result, options: PrintOptions, target: Stream, size: int) -> bool:
    """Print `size` rows at a time, and then the footer, all through one pager."""
    pager = None
    if target.is_stdout:
        target.flush()
        pager = streams.pager(streams.MANY_LINES, options.pager, options.pager_min_lines)
    stream: Stream = pager or target
    ok, begin = True, 0
    try:
        for rows in chain(_portions(result, size), [()]):
            portion = replace(options, start_table=begin == 0, stop_table=not rows, prior_records=begin)
            table = table_of(replace(result, rows=rows), portion)
            print_table(table, portion, stream, is_pager=pager is not None, log=shell.log_file)
            stream.flush()
            ok = ok and stream.error is None
            begin += len(rows)
    finally:
        if pager is not None:
            pager.close()
    return ok


def _portions(result: Result, size: int) -> Iterator[Sequence[tuple[str | None, ...]]]:
    rows = result.rows
    if not isinstance(rows, StreamedRows):
        for begin in range(0, len(rows), size):
            yield rows[begin : begin + size]
        return
    while True:
        with interrupt.cancels_query():
            portion = rows.portion(size)
        if not portion:
            return
        yield portion
