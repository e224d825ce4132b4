"""The progress bars of workers on a terminal, drawn by rich: one for each table and each batch that takes longer than
half a second. Log messages appear above the bars, in whole lines.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from pgrepl import jobs

_MOMENT = 0.5  # seconds without a bar


def progress(console: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        _Seen(),
        TimeElapsedColumn(),
    )
    return _Bars(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)


class _Bars(Progress):
    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            if not task.visible and (task.elapsed or 0.0) >= _MOMENT:
                task.visible = True
        yield from super().get_renderables()


class _Seen(ProgressColumn):
    """Rows or changes with their rate; before there are any, Spark's tasks."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["seen"]) or _of_spark())


def _of_spark() -> str:
    if jobs.is_starting():
        return "Spark starts"
    found = jobs.running_tasks()
    return "" if found is None else f"Spark: {found[0]} of {found[1]} tasks"


class Above(io.TextIOBase):
    """Standard error while bars are drawn: prints whole lines above them."""

    def __init__(self, console: Console, stream: TextIO) -> None:
        self._console = console
        self._stream = stream
        self._held = ""

    def write(self, text: str) -> int:
        lines, newline, self._held = (self._held + text).rpartition("\n")
        if newline:
            self._console.print(lines, highlight=False, markup=False, soft_wrap=True)
        return len(text)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()
