"""What a person sees of work that takes long: the bar of a statement, bars of workers (by rich), or a line for each
table and round.

They are drawn on standard error of a terminal and removed before anything else is printed. Text that is typed
meanwhile appears at the next prompt.
"""

from __future__ import annotations

import io
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from pgrepl.ground import interrupts
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.replication.subscriber.dangers import duration
from pgrepl.replication.subscriber.lease import Observer

if TYPE_CHECKING:
    from pgrepl.api.rounds import SubscriptionRound
    from pgrepl.catalog.facts.activity import Copying
    from pgrepl.replication.subscriber.lease import Streamed

PATIENCE = 2.0  # seconds until the bar appears
_PAUSE = 0.2

Tasks = Callable[[], "tuple[int, int] | None"]


class StatementBar:
    """`with StatementBar(stderr): …` around a statement. `end` is called before anything is printed."""

    def __init__(self, stream: TextIO, *, tasks: Tasks | None = None, patience: float = PATIENCE) -> None:
        self._stream = stream
        self._tasks = tasks or interrupts.running_tasks
        self._patience = patience
        self._over = threading.Event()
        self._thread = JoinedThread(self._run, "statement bar")

    def __enter__(self) -> StatementBar:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Remove the bar."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if self._over.wait(self._patience):
            return
        console = Console(file=self._stream)
        if console.is_terminal and not console.is_dumb_terminal:
            self._show(console)

    def _show(self, console: Console) -> None:
        columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"), BarColumn())
        redirected: Any = {"redirect_stdout": False, "redirect_stderr": False}
        with (
            _without_echo(self._stream),
            Progress(*columns, console=console, transient=True, auto_refresh=False, **redirected) as progress,
        ):
            task = progress.add_task("working", total=None)
            while not self._over.wait(_PAUSE):
                tasks = self._tasks()
                if tasks is None:
                    progress.update(task, description="working", total=None)
                else:
                    done, total = tasks
                    progress.update(task, description=f"Spark: {done} of {total} tasks", completed=done, total=total)
                progress.refresh()


@contextmanager
def _without_echo(stream: TextIO) -> Iterator[None]:
    """Turn off the terminal's echo; the next prompt shows what was typed."""
    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):  # input comes from elsewhere
        yield
        return
    silent = before.copy()
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, silent)
    stream.write("\r\x1b[2K")
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


# --- applying bars ----------------------------------------------------------------------------------------------------


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
    if interrupts.is_starting():
        return "Spark starts"
    tasks = interrupts.running_tasks()
    return "" if tasks is None else f"Spark: {tasks[0]} of {tasks[1]} tasks"


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


# --- applying progress ------------------------------------------------------------------------------------------------


class ProgressLines(Observer):
    """A line for each table copied and each subscription's round."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def copied(self, subscription: str, table: str, count: int) -> None:
        self._say(f'subscription "{subscription}": table {table} copied, {_counted(count, "row")}')

    def summary(self, done: SubscriptionRound) -> None:
        if done.error is not None and not done.transactions:
            return
        if done.transactions:
            changes = _counted(done.changes, "change")
            what = f"{_counted(done.transactions, 'transaction')} with {changes} applied"
            self._say(f'subscription "{done.subscription}": {what}, up to {done.applied_lsn}')
        elif not done.tables_copied:
            self._say(f'subscription "{done.subscription}": nothing to do')


class Bars(ProgressLines):
    """The same lines, and a bar for each running copy and batch that takes longer than a moment."""

    def __init__(self, progress: Any) -> None:
        super().__init__(lambda line: progress.console.print(line, highlight=False, markup=False, soft_wrap=True))
        self._progress = progress
        self._tasks: dict[tuple[str, str], tuple[Any, float]] = {}
        self._changes: dict[str, int] = {}

    def copying(self, subscription: str, table: str) -> None:
        self._task(subscription, table)

    def rows(self, subscription: str, table: str, copying: Copying) -> None:
        count, total = copying.tuples_processed, copying.tuples_total
        completed = 0 if total is None else min(count, total)
        if copying.pieces_total:
            completed, total = copying.pieces_processed, copying.pieces_total
        self._update(subscription, table, count, "rows", _pieces(copying), total=total or None, completed=completed)

    def copied(self, subscription: str, table: str, count: int) -> None:
        self._remove(subscription, table)
        super().copied(subscription, table, count)

    def applying(self, subscription: str) -> None:
        self._task(subscription, "")

    def applied(self, subscription: str, start: int, streamed: Streamed) -> None:
        count = self._changes[subscription] = self._changes.get(subscription, 0) + streamed.applied.changes
        if streamed.finished:
            self._remove(subscription, "")
            self._changes.pop(subscription, None)
        elif count:
            total = max(streamed.upto - start, 1)
            self._update(subscription, "", count, "changes", total=total, completed=streamed.reached - start)

    def summary(self, done: SubscriptionRound) -> None:
        name = done.subscription
        for table in [table for of, table in list(self._tasks) if of == name]:  # bars of failed copies
            self._remove(name, table)
        self._changes.pop(name, None)
        super().summary(done)

    def _task(self, subscription: str, table: str) -> None:
        if (subscription, table) not in self._tasks:
            task = self._progress.add_task(f"{subscription} {table}".strip(), total=None, visible=False, seen="")
            self._tasks[subscription, table] = task, time.monotonic()

    def _update(self, subscription: str, table: str, count: int, unit: str, rest: str = "", **values: Any) -> None:
        task = self._tasks.get((subscription, table))
        if task is not None:
            seconds = max(time.monotonic() - task[1], 0.001)
            seen = f"{count:,} {unit}, {count / seconds:,.0f}/s{rest}" if count else ""
            self._progress.update(task[0], seen=seen, **values)

    def _remove(self, subscription: str, table: str) -> None:
        task = self._tasks.pop((subscription, table), None)
        if task is not None:
            self._progress.remove_task(task[0])


@contextmanager
def progress_observer() -> Iterator[ProgressLines]:
    """The observer of workers: bars on a terminal, else lines."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield ProgressLines(_print)
        return

    console = Console()
    if console.is_dumb_terminal:
        yield ProgressLines(_print)
        return
    before = sys.stderr
    with progress(console) as bars:
        sys.stderr = Above(console, before)
        try:
            yield Bars(bars)
        finally:
            sys.stderr = before


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _pieces(copying: Copying) -> str:
    """How far a copy in pieces is, and how long it still takes."""
    if not copying.pieces_total:
        return ""
    left = copying.seconds_left
    told = f", {copying.pieces_processed} of {copying.pieces_total} pieces"
    return told if left is None else f"{told}, {duration(left)} left"


def _counted(count: int, noun: str) -> str:
    return (
        f"{count:,} {noun}" + ("" if count == 1 else "s") if count >= 10_000 else f"{count} {noun}" + "s" * (count != 1)
    )
