"""The observer of a worker: it is called for each table and batch, to show progress to a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.catalog.copies import Copying
    from pgrepl.replication.subscriber.outcome import Streamed


class Observer:
    """An observer that shows nothing; others override its methods."""

    def copying(self, subscription: str, table: str) -> None:
        """The copy of a table begins."""

    def rows(self, subscription: str, table: str, copying: Copying) -> None:
        """The copy's rows are about to come, or more of them have come. Called in any thread."""

    def copied(self, subscription: str, table: str, count: int) -> None:
        """The copy is done, with so many rows."""

    def applying(self, subscription: str) -> None:
        """The worker is about to ask for a batch."""

    def applied(self, subscription: str, start: int, streamed: Streamed) -> None:
        """A batch has been applied; the first of the run began at `start`."""
