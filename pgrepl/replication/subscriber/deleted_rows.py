"""The rows that were deleted here, for conflicts of kind update_deleted (retain_dead_tuples): the lake's snapshots tell
them, without anything that is kept besides.

What matters are deletions since the subscription had all changes of its publisher for the last time: an UPDATE that
comes now was made after that. VACUUM keeps the snapshots since then (catalog/facts/subscription.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import subscription as catalog
from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.relation_parts import identity_or_primary_key
from pgrepl.catalog.facts.subscription import retained_from
from pgrepl.lake.changes.changes import changes_at
from pgrepl.lake.changes.history import Snapshot, snapshots
from pgrepl.lake.table import lake_table
from pgrepl.replication.subscriber.row_origins import RowOrigin, is_own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store import tables


class DeletedRows:
    """Those of the tables of one batch."""

    def __init__(self, session: Session, subscription: tables.pg_subscription) -> None:
        self._session = session
        self._subscription = subscription
        self._own = catalog.origin_name(subscription.oid)
        self._snapshots: list[Snapshot] | None = None
        self._found: dict[int, dict[tuple[Any, ...], RowOrigin]] = {}

    def any_in(self, table: Relation) -> bool:
        """Have rows of the table been deleted?"""
        return bool(self._of(table))

    def of(self, table: Relation, searched: Sequence[Any]) -> RowOrigin | None:
        """Who has deleted the row, which is not the subscription; None: nobody, as far as is known."""
        found = self._of(table)
        return found.get(_key(table, self._attnums(table), searched)) if found else None

    def _attnums(self, table: Relation) -> list[int]:
        index = identity_or_primary_key(self._session, table)
        if index is None:
            return [column.num for column in table.columns]
        return list(index.indkey[: index.indnkeyatts])

    def _of(self, table: Relation) -> dict[tuple[Any, ...], RowOrigin]:
        known = self._found.get(table.oid)
        if known is None:
            known = self._found[table.oid] = self._read(table)
        return known

    def _read(self, table: Relation) -> dict[tuple[Any, ...], RowOrigin]:
        if self._snapshots is None:
            since = retained_from(self._session, self._subscription)
            last = self._session.transaction.numbering.last_snapshot()
            self._snapshots = [] if since is None else snapshots(self._session, since, last)
        found: dict[tuple[Any, ...], RowOrigin] = {}
        attnums = self._attnums(table)
        number = lake_table(self._session, table.oid).table_id if self._snapshots else 0
        for snapshot in self._snapshots:
            if table.oid not in snapshot.tables or table.oid in snapshot.truncated or snapshot.rearranges(number):
                continue
            if is_own(snapshot.origin, self._own):
                continue
            origin = RowOrigin(snapshot.origin, snapshot.first, snapshot.time)
            for change in changes_at(self._session, table.oid, snapshot.id, labels_then=False):
                if change.old is not None and change.new is None:
                    found[_key(table, attnums, change.old)] = origin
        return found


def _key(table: Relation, attnums: Sequence[int], row: Sequence[Any]) -> tuple[Any, ...]:
    """The key's values; arrays and the like count by their text."""
    values = [row[number - 1] for number in attnums]
    return tuple([repr(value) if isinstance(value, (list, dict)) else value for value in values])
