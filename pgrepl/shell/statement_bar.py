"""The bar of a statement that takes long: the time, and the progress of Spark's tasks.

A thread draws it on standard error of a terminal, and removes it before anything else is printed. Text that is typed
meanwhile appears at the next prompt.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from pgrepl import jobs
from pgrepl.interrupts import JoinedThread

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 2.0  # seconds until the bar appears
_PAUSE = 0.2

Tasks = Callable[[], "tuple[int, int] | None"]


class StatementBar:
    """`with StatementBar(stderr): …` around a statement. `end` is called before anything is printed."""

    def __init__(self, stream: TextIO, *, tasks: Tasks | None = None, patience: float = PATIENCE) -> None:
        self._stream = stream
        self._tasks = tasks or jobs.running_tasks
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
        from rich.console import Console

        console = Console(file=self._stream)
        if console.is_terminal and not console.is_dumb_terminal:
            self._show(console)

    def _show(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"), BarColumn())
        redirected: Any = {"redirect_stdout": False, "redirect_stderr": False}
        with (
            _without_echo(self._stream),
            Progress(*columns, console=console, transient=True, auto_refresh=False, **redirected) as progress,
        ):
            task = progress.add_task("working", total=None)
            while not self._over.wait(_PAUSE):
                found = self._tasks()
                if found is None:
                    progress.update(task, description="working", total=None)
                else:
                    done, total = found
                    progress.update(task, description=f"Spark: {done} of {total} tasks", completed=done, total=total)
                progress.refresh()


@contextmanager
def _without_echo(stream: TextIO) -> Iterator[None]:
    """Turn off the terminal's echo; the next prompt shows what was typed."""
    import termios

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
