"""The progress of a worker's copies and of those that the workers of its tables do, counted in any thread: for the
observer, and for pg_stat_progress_copy, to which the heartbeat writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.copies import Copying

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.replication.publisher.table_copy import CountRows
    from pgrepl.replication.subscriber.observer import Observer


class CopyProgress:
    """The copies under one lease."""

    def __init__(self, observer: Observer) -> None:
        self.copying: dict[int, Copying] = {}  # by table
        self._observer = observer

    def begins(
        self, subscription: str, table: Relation, rows: int | None, pieces: tuple[int, int] | None = None
    ) -> CountRows:
        """A function to count rows and bytes of a table's copy. `rows` is the table's number of rows, if known.
        `pieces`: of a table that is copied in pieces those that are copied, and all; their rows are counted
        together."""
        copying = Copying(table.oid, tuples_total=rows)
        if pieces is not None:
            copying = self.copying.get(table.oid, copying)
            copying.count_pieces(*pieces)
        self.copying[table.oid] = copying
        name = table.qualified_name
        self._observer.rows(subscription, name, copying)

        def count_rows(tuples: int, size: int) -> None:
            copying.add(tuples, size)
            self._observer.rows(subscription, name, copying)

        return count_rows

    def pieces_copied(self, relid: int, done: int, total: int) -> None:
        if relid in self.copying:
            self.copying[relid].count_pieces(done, total)

    def ended(self, relid: int) -> None:
        self.copying.pop(relid, None)
