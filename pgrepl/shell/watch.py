r"""`\watch`: repeats a query until a count, too few rows, an error or Ctrl-C."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

from pgrepl.shell import interrupt, streams
from pgrepl.shell.execute import watch_query
from pgrepl.shell.shell import Shell
from pgrepl.shell.streams import PipeStream


@dataclass(frozen=True, slots=True)
class Watch:
    interval: float = 2.0
    count: int = 0  # 0: without end
    min_rows: int = 0


def watch_query_buffer(shell: Shell, query: str, watch: Watch) -> bool:
    if not query:
        shell.error("\\watch cannot be used with an empty query")
        return False
    milliseconds = int(watch.interval * 1000)
    pager = _pager(shell)
    options = shell.options if pager is not None else replace(shell.options, pager=0)
    title = "" if options.title is None else options.title + "\t"
    left = watch.count
    status = 0
    due = time.monotonic()
    while True:
        now = time.strftime("%c")
        headed = replace(options, title=f"{title}{now} (every {milliseconds / 1000.0:g}s)\n")
        status = watch_query(shell, query, headed, pager, watch.min_rows)
        if status <= 0:
            break
        left -= 1
        if left == 0 or (pager is not None and pager.error is not None):
            break
        due += milliseconds / 1000.0
        if not _sleep(shell, due):
            break
    if pager is not None:
        pager.close()
    else:
        shell.stdout.write("\n")
        shell.stdout.flush()
    return status >= 0


def _pager(shell: Shell) -> PipeStream | None:
    """The program of PSQL_WATCH_PAGER; other pagers cannot show a stream of results."""
    program = os.environ.get("PSQL_WATCH_PAGER", "")
    if not program.strip(" \t\r\n") or not shell.options.pager or not streams.both_terminals():
        return None
    shell.stdout.flush()
    return PipeStream(program)


def _sleep(shell: Shell, until: float) -> bool:
    """Wait for the next round; False if Ctrl-C came first."""
    try:
        with interrupt.stops_waiting():
            time.sleep(max(until - time.monotonic(), 0))
    except KeyboardInterrupt:
        return False
    return not shell.cancelled
