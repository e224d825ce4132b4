"""The observer of a worker: told of each table and batch, to show it to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.catalog.copies import Copying
    from pgrepl.replication.subscriber.outcome import Streamed


class Observer:
    """Shows nothing."""

    def copying(self, subscription: str, table: str) -> None:
        """The copy of a table begins."""

    def rows(self, subscription: str, table: str, copying: Copying) -> None:
        """Rows of the table are coming, or more of them have come; in any thread."""

    def copied(self, subscription: str, table: str, count: int) -> None:
        """The copy is done, with so many rows."""

    def applying(self, subscription: str) -> None:
        """A batch begins, if there is one."""

    def applied(self, subscription: str, start: int, streamed: Streamed) -> None:
        """A batch has been applied; the first of the run began at `start`."""
