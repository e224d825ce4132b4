"""The progress of workers for a person: a line for each table copied and each round; on a terminal bars, too."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgrepl.replication.subscriber.dangers import duration
from pgrepl.replication.subscriber.observer import Observer

if TYPE_CHECKING:
    from pgrepl.api.rounds import SubscriptionRound
    from pgrepl.catalog.copies import Copying
    from pgrepl.replication.subscriber.outcome import Streamed


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
        found = self._tasks.get((subscription, table))
        if found is not None:
            seconds = max(time.monotonic() - found[1], 0.001)
            seen = f"{count:,} {unit}, {count / seconds:,.0f}/s{rest}" if count else ""
            self._progress.update(found[0], seen=seen, **values)

    def _remove(self, subscription: str, table: str) -> None:
        found = self._tasks.pop((subscription, table), None)
        if found is not None:
            self._progress.remove_task(found[0])


@contextmanager
def progress_observer() -> Iterator[ProgressLines]:
    """The observer of workers: bars on a terminal, else lines."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield ProgressLines(_print)
        return
    from rich.console import Console

    from pgrepl.shell.applying_bars import Above, progress

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
