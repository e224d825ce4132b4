"""The wire stream of a lake: the transactions between two LSNs as a subscription receives them.

What changed comes from the lake, snapshot by snapshot; what is sent of it is decided by the catalog as it was at that
snapshot. The definitions change only at snapshots of their own, so tables are read in stretches between those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.store import one
from pgrepl.errors import PgError
from pgrepl.lake.changes import Change, Snapshot, changes, changes_at, in_order, snapshots
from pgrepl.lake.history import COMMIT, PREPARE, TwoPhase
from pgrepl.replication.publisher.decision import Sender, truncated
from pgrepl.replication.publisher.lake.two_phase import is_told, prepared_changes
from pgrepl.replication.publisher.plan import SendPlan, check_sendable, send_plan
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.messages import DELETE, UPDATE, Emitted, Message, Phase, TruncateMessage, WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


_MORE, _MOST = 2, 512  # times as many snapshots in the next portion, up to so many

Changed = Mapping[tuple[int, int], Iterable[Change]]  # by snapshot and table


class ChangeError(Exception):
    """A change could not be sent: a publication is gone, a filter fails."""

    def __init__(self, error: PgError, lsn: int, callback: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.lsn = lsn
        self.callback = callback  # of the output plugin: change or truncate


class Stream:
    """The transactions of one publishing database for the publications of one subscription."""

    def __init__(
        self,
        session: Session,
        names: Sequence[str],
        *,
        local_only: bool,
        with_emitted: bool = False,
        skipped: Callable[[int], None] | None = None,
        two_phase_at: int | None = None,
    ) -> None:
        """`local_only`: origin = none, what the publisher itself has from elsewhere is left out. `with_emitted`:
        logical messages are wanted, too. `skipped` hears of transactions of which nothing is sent, by their XIDs.
        `two_phase_at`: see slots.two_phase_at."""
        self._two_phase_at = two_phase_at
        self._skipped = skipped
        self._session = session
        self._names = tuple(names)
        self._local_only = local_only
        self._with_emitted = with_emitted
        self._senders: dict[tuple[int, int], Sender | PgError | None] = {}  # by stretch and table
        self._sendable: set[tuple[int, int, str]] = set()  # stretches, tables and operations that were checked

    def transactions(self, start: int, end: int, limit: int | None = None) -> Iterator[WireTransaction]:
        """Those that finish at `start` or later and before `end`, empty ones left out. They are read in portions: about
        `limit` snapshots first, then more and more, as far as whoever asks takes them; what is large is not read in
        vain."""
        while start < end:
            portion = self._portion(start, end, limit)
            if not portion:
                return
            yield from self._sent(portion, start)
            start = portion[-1].id + 1
            limit = limit and min(limit * _MORE, _MOST)

    def _portion(self, start: int, end: int, limit: int | None) -> list[Snapshot]:
        """Whole transactions."""
        last = end - 1 if limit is None else min(end - 1, start + limit - 1)
        while True:
            found = snapshots(self._session, start - 1, last)
            if found and found[0].first < start:  # the beginning of a transaction that finishes here
                found = snapshots(self._session, found[0].first - 1, last)
            if not found or found[-1].is_last or last >= end - 1:
                return found
            last = min(end - 1, last + (limit or 1))

    def _sent(self, portion: list[Snapshot], start: int) -> Iterator[WireTransaction]:
        """Small transactions are read together, a large one when its messages are asked for."""
        groups = list(_groups(portion))
        large = self._large(groups)
        changed = self._changed([s for group in groups if group[0].id not in large for s in self._wanted(group)])
        for group in groups:
            said = group[-1].two_phase
            if said is not None and (said.kind != COMMIT or is_told(said, self._two_phase_at)):
                yield from self._told(group, said, start)
                continue
            messages: tuple[Message | TruncateMessage, ...] | _Large
            emitted: list[Emitted] = []
            if group[0].id in large:
                messages = _Large(self, self._wanted(group), large[group[0].id])
            else:
                collected: list[Message | TruncateMessage] = []
                for member in self._wanted(group):
                    emitted += self._emitted(member, len(collected))
                    collected += self._explained(member, changed)
                messages = tuple(collected)
            if emitted or next(iter(messages), None) is not None:
                last = group[-1]
                yield WireTransaction(
                    last.id if said is None else said.xid,
                    last.id,
                    last.id + 1,
                    last.time,
                    messages,
                    last.origin,
                    tuple(emitted),
                    origin_lsn=last.origin_lsn,
                )
            elif self._skipped is not None and self._is_of_here(group):
                self._skipped(group[-1].id)

    def _told(self, group: Sequence[Snapshot], said: TwoPhase, start: int) -> Iterator[WireTransaction]:
        """What is told of a prepared transaction: with its changes that it was prepared, and how it ended."""
        if not is_told(said, self._two_phase_at) or not said.statements or (self._local_only and group[-1].origin):
            return
        if said.database != self._session.database.oid:
            return
        assert self._two_phase_at is not None
        phase = Phase(said.kind, said.gid, said.xid, said.xid + 1, said.prepared_at)
        if said.kind == PREPARE:
            yield self._prepared(group, said, said.xid + 1)
            return
        if said.kind == COMMIT and said.xid < self._two_phase_at and start <= group[0].id:
            yield self._prepared(group, said, group[-1].id)  # who goes on from there has got all but its end
        last = group[-1]
        yield WireTransaction(
            said.xid, last.id, last.id + 1, last.time, (), last.origin, origin_lsn=last.origin_lsn, phase=phase
        )

    def _prepared(self, group: Sequence[Snapshot], said: TwoPhase, end_lsn: int) -> WireTransaction:
        messages: list[Message | TruncateMessage] = []
        with prepared_changes(self._session, said, at_prepare=group[-1].id == said.xid) as (there, found):
            stream = self
            if there is not self._session:
                stream = Stream(there, self._names, local_only=self._local_only)
            changed = stream._changed(found)
            for snapshot in found:
                messages += stream._explained(snapshot, changed)
        last = group[-1]
        phase = Phase(PREPARE, said.gid, said.xid, said.xid + 1, said.prepared_at)
        return WireTransaction(
            said.xid, said.xid, end_lsn, said.prepared_at, tuple(messages), last.origin, origin_lsn=last.origin_lsn,
            phase=phase,
        )  # fmt: skip

    def _is_of_here(self, group: Sequence[Snapshot]) -> bool:
        """Whether a transaction is one that a slot of this database decodes."""
        touched = {table for snapshot in group for table in (*snapshot.tables, *snapshot.truncated)}
        if self._local_only and group[-1].origin:
            return False
        own = self._session.at(group[-1].stretch)
        rows = [one(own, tables.pg_class, oid=table) for table in touched]
        return not rows or any(row is not None and row.datid == self._session.database.oid for row in rows)

    def _emitted(self, snapshot: Snapshot, after: int) -> Iterator[Emitted]:
        for message in snapshot.emitted if self._with_emitted else ():
            if message.database == self._session.database.oid:
                yield Emitted(snapshot.id, message, after)

    def _wanted(self, group: Sequence[Snapshot]) -> list[Snapshot]:
        return [s for s in group if not (self._local_only and s.origin)]

    def _large(self, groups: Sequence[Sequence[Snapshot]]) -> dict[int, int]:
        """The transactions with many changes by their first snapshots, and about how many they have. Logical messages
        have their places among all of the changes: then all are read."""
        from pgrepl.replication.publisher.lake.stream_columns import changed_rows

        if not groups or self._with_emitted:
            return {}
        if changed_rows(self._session, groups[0][0].id, groups[-1][-1].id + 1) <= messages.PORTION:
            return {}
        sizes = {group[0].id: changed_rows(self._session, group[0].id, group[-1].id + 1) for group in groups}
        return {first: size for first, size in sizes.items() if size > messages.PORTION}

    def one_by_one(self, group: Sequence[Snapshot]) -> Iterator[Message | TruncateMessage]:
        """What is sent of these snapshots, each read in its turn."""
        for snapshot in group:
            emptied = snapshot.truncated
            changed = {
                (snapshot.id, table): changes_at(self._session, table, snapshot.id)
                for table in snapshot.tables
                if table not in emptied and self._known_sender(snapshot.stretch, table) is not None
            }
            yield from self._explained(snapshot, changed)

    def _changed(self, portion: Sequence[Snapshot]) -> dict[tuple[int, int], list[Change]]:
        """The changes by snapshot and table: every table is read once for each stretch without new definitions."""
        found: dict[tuple[int, int], list[Change]] = {}
        for stretch in _stretches(portion):
            first, last = stretch[0].id, stretch[-1].id
            emptied = {(s.id, table) for s in stretch for table in s.truncated}
            tables_there = {table for s in stretch for table in s.tables if table not in s.truncated}
            for table in sorted(tables_there):
                if self._known_sender(first, table) is None:
                    continue
                for change in changes(self._session, table, first - 1, last):
                    if (change.snapshot, table) not in emptied:
                        found.setdefault((change.snapshot, table), []).append(change)
        return found

    def _explained(self, snapshot: Snapshot, changed: Changed) -> Iterator[Message | TruncateMessage]:
        try:
            yield from self._messages(snapshot, changed)
        except PgError as error:
            raise ChangeError(error, snapshot.id, "truncate" if snapshot.truncated else "change") from error

    def _messages(self, snapshot: Snapshot, changed: Changed) -> Iterator[Message | TruncateMessage]:
        if snapshot.truncated:
            plans = [self._plan(snapshot.stretch, table) for table in snapshot.truncated]
            message = truncated(plans, cascade=snapshot.cascade, restart_identity=snapshot.restart_identity)
            if message is not None:
                yield message
        here = {table: changed[snapshot.id, table] for table in snapshot.tables if (snapshot.id, table) in changed}
        for table, change in in_order(snapshot, here):
            sender = self._sender(snapshot.stretch, table)
            if sender is not None:
                self._check_sendable(snapshot.stretch, sender.plan, change)
                sent = _message(sender, change)
                if sent is not None:
                    yield sent

    def _check_sendable(self, stretch: int, plan: SendPlan, change: Change) -> None:
        """Other writers of the lake know no replica identity: what PostgreSQL would have refused cannot be sent."""
        if change.old is None:
            return
        operation = UPDATE if change.new is not None else DELETE
        key = (stretch, plan.table.oid, operation)
        if operation in plan.operations and key not in self._sendable:
            check_sendable(self._session.at(stretch), plan, operation)
            self._sendable.add(key)

    def _sender(self, stretch: int, table: int) -> Sender | None:
        found = self._known_sender(stretch, table)
        if isinstance(found, PgError):
            raise found
        return found

    def _known_sender(self, stretch: int, table: int) -> Sender | PgError | None:
        """An error waits until a change is to be sent: what comes before it has to get through."""
        key = (stretch, table)
        if key not in self._senders:
            try:
                plan = self._plan(stretch, table)
                self._senders[key] = None if plan is None else Sender(plan)
            except PgError as error:
                self._senders[key] = error
        return self._senders[key]

    def _plan(self, stretch: int, table: int) -> SendPlan | None:
        past = self._session.at(stretch)
        row = one(past, tables.pg_class, oid=table)
        if row is None or row.datid != self._session.database.oid:
            return None
        return send_plan(past, self._names, table)


class _Large:
    """The messages of a large transaction, read snapshot by snapshot whenever they are asked for."""

    def __init__(self, stream: Stream, group: Sequence[Snapshot], size: int) -> None:
        self._stream = stream
        self._group = group
        self.size = size

    def __iter__(self) -> Iterator[Message | TruncateMessage]:
        return self._stream.one_by_one(self._group)


def _groups(portion: Iterable[Snapshot]) -> Iterator[list[Snapshot]]:
    """Transactions; what is not the whole of one is none."""
    group: list[Snapshot] = []
    for snapshot in portion:
        group.append(snapshot)
        if snapshot.is_last:
            yield group
            group = []


def _stretches(portion: Sequence[Snapshot]) -> Iterator[list[Snapshot]]:
    """Snapshots that see the same definitions."""
    stretch: list[Snapshot] = []
    for snapshot in portion:
        if stretch and stretch[0].stretch != snapshot.stretch:
            yield stretch
            stretch = []
        stretch.append(snapshot)
    if stretch:
        yield stretch


def _message(sender: Sender, change: Change) -> Message | None:
    if change.old is None:
        assert change.new is not None
        return sender.insert(change.new)
    if change.new is None:
        return sender.delete(change.old)
    return sender.update(change.old, change.new)
