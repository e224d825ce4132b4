"""Who watches a worker: told of each table and batch as it goes, to show it to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.catalog.copies import Copying
    from pgrepl.replication.subscriber.outcome import Streamed


class Observer:
    """Watches without a word."""

    def copying(self, subscription: str, table: str) -> None:
        """The copy of a table begins."""

    def rows(self, subscription: str, table: str, copying: Copying) -> None:
        """Its rows have begun to come, or more of them have; in any thread."""

    def copied(self, subscription: str, table: str, count: int) -> None:
        """It is there, with so many rows."""

    def applying(self, subscription: str) -> None:
        """A batch begins, if there is one."""

    def applied(self, subscription: str, start: int, streamed: Streamed) -> None:
        """A batch has been applied; the first of the run began at `start`."""
