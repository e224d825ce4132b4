"""The conflicts that messages meet which are applied one by one; and the rows that were deleted here, for those of kind
update_deleted (retain_dead_tuples): the lake's snapshots tell them, without anything that is kept besides.

What matters are deletions since the subscription had all changes of its publisher for the last time: an UPDATE that
comes now was made after that. VACUUM keeps the snapshots since then (catalog/facts/subscription.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.relation_parts import identity_or_primary_key
from pgrepl.catalog.facts.subscription import retained_from
from pgrepl.ground.errors import PgError, Report
from pgrepl.lake.changes.changes import changes_at
from pgrepl.lake.changes.history import Snapshot, snapshots
from pgrepl.lake.table import lake_table
from pgrepl.replication.subscriber.apply.overlay import Overlay
from pgrepl.replication.subscriber.apply.progress import LiveRow, Progress
from pgrepl.replication.subscriber.apply.target import TargetTable
from pgrepl.replication.subscriber.conflicts import (
    DELETE_DIFFERS,
    DELETE_MISSING,
    INSERT_EXISTS,
    MOST,
    MULTIPLE,
    NOBODYS,
    UPDATE_DELETED,
    UPDATE_DIFFERS,
    UPDATE_EXISTS,
    UPDATE_MISSING,
    Foreign,
    Missed,
    Rejected,
    RowOrigin,
    Taken,
    Telling,
    foreign_rows,
    is_own,
)
from pgrepl.replication.wire.messages import DELETE, Message, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store import tables


class _Leaf(Protocol):
    """A table that holds rows: a leaf partition, or the target itself."""

    table: Relation
    target: TargetTable

    @property
    def overlay(self) -> Overlay: ...

    def new_row(self, message: Message) -> Row | None: ...


class ConflictsMet:
    def __init__(self, session: Session, subscription: tables.pg_subscription, progress: Progress) -> None:
        self.missed: list[Missed] = []  # rows that were not found, or that another origin has written
        self._before = 0
        self._session = session
        self._progress = progress
        self._keeps = bool(subscription.subconflictlog)
        self._deleted = DeletedRows(session, subscription) if subscription.subretaindeadtuples else None
        self._tells = self._keeps or session.settings.release >= 18  # 18's words for what stops the subscription
        self._foreign: dict[int, Foreign] = {}  # by table, what of it other origins have written

    def begin(self) -> None:
        """Begin a transaction."""
        self._before = len(self.missed)

    @property
    def of_last(self) -> list[Missed]:
        """What the transaction applied last has missed."""
        return self.missed[self._before :]

    def _telling(self, leaf: _Leaf, message: Message) -> Telling:
        return Telling(self._session, leaf.target, leaf.table, message, self._progress)

    def miss(self, leaf: _Leaf, message: Message, searched: Row, what: str) -> None:
        """Note that a row was not found, which is no error. `what`: the end of 17's message."""
        conflict = deleted = None
        if self._deleted is not None and message.operation != DELETE:
            deleted = self._deleted.of(leaf.table, searched)
        if self._keeps and len(self.missed) < MOST:
            conflict = self._telling(leaf, message).missing(searched, leaf.new_row(message), deleted)
        text = f"logical replication did not find row to be {what}"
        report = Report("DEBUG1", "00000", text, context=self._progress.context)
        kind = DELETE_MISSING if message.operation == DELETE else UPDATE_MISSING if deleted is None else UPDATE_DELETED
        self.missed.append(Missed(kind, report, conflict))

    def look(self, leaf: _Leaf, message: Message, live: LiveRow, searched: Row) -> None:
        """Note that a row which is about to change was written by another origin."""
        if not self._keeps or live.place is None or live.changed:
            return
        origin = self._of_others(leaf.table).of(live.place)
        if origin is not None:
            conflict = None
            if len(self.missed) < MOST:
                conflict = self._telling(leaf, message).differs(live.row, origin, searched, leaf.new_row(message))
            kind = DELETE_DIFFERS if message.operation == DELETE else UPDATE_DIFFERS
            self.missed.append(Missed(kind, None, conflict))

    def _of_others(self, table: Relation) -> Foreign:
        foreign = self._foreign.get(table.oid)
        if foreign is None:
            snapshot = self._session.transaction.numbering.last_snapshot()
            own = lake_table(self._session, table.oid)
            foreign = foreign_rows(self._session, own, self._progress.origin, snapshot) if self._tells else NOBODYS
            self._foreign[table.oid] = foreign
        return foreign

    def rejected(
        self, error: PgError, leaf: _Leaf, message: Message, row: Row, live: LiveRow | None, searched: Row | None
    ) -> PgError:
        """The error of a row whose key another row has, told as a conflict."""
        taken = []
        for index, values, holder, stored in leaf.overlay.taken(row, live):
            other = holder.row if isinstance(holder, LiveRow) else stored
            place = holder.place if isinstance(holder, LiveRow) else holder
            origin = None if place is None else self._of_others(leaf.table).of(place)
            if other is not None:
                taken.append(Taken(index, values, other, origin))
        if not taken:
            return error
        kind = INSERT_EXISTS if live is None else UPDATE_EXISTS
        kind = MULTIPLE if len(taken) > 1 else kind
        if not self._tells:
            return Rejected(error, kind, None)
        conflict = self._telling(leaf, message).exists(kind, taken, searched, row)
        if self._session.settings.release >= 18:  # the error itself is what 17 only logs
            error = PgError(error.sqlstate, conflict.report.message, detail=conflict.detail)
        return Rejected(error, kind, conflict if self._keeps else None)


# --- deleted rows -----------------------------------------------------------------------------------------------------


class DeletedRows:
    """Those of the tables of one batch."""

    def __init__(self, session: Session, subscription: tables.pg_subscription) -> None:
        self._session = session
        self._subscription = subscription
        self._own = subscriptions.origin_name(subscription.oid)
        self._snapshots: list[Snapshot] | None = None
        self._found: dict[int, dict[tuple[Any, ...], RowOrigin]] = {}

    def any_in(self, table: Relation) -> bool:
        """Have rows of the table been deleted?"""
        return bool(self._of(table))

    def of(self, table: Relation, searched: Sequence[Any]) -> RowOrigin | None:
        """Who has deleted the row, which is not the subscription; None: nobody, as far as is known."""
        origins = self._of(table)
        return origins.get(_key(table, self._attnums(table), searched)) if origins else None

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
        origins: dict[tuple[Any, ...], RowOrigin] = {}
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
                    origins[_key(table, attnums, change.old)] = origin
        return origins


def _key(table: Relation, attnums: Sequence[int], row: Sequence[Any]) -> tuple[Any, ...]:
    """The key's values; arrays and the like count by their text."""
    values = [row[number - 1] for number in attnums]
    return tuple([repr(value) if isinstance(value, (list, dict)) else value for value in values])
