"""The wire stream of a lake: the transactions between two LSNs as a subscription receives them, message by message.

The lake gives the changes, snapshot by snapshot (transactions.py); the catalog as of that snapshot decides what of them
is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.lake.changes.changes import RowChange, in_order
from pgrepl.lake.changes.history import PREPARE, Snapshot
from pgrepl.replication.publisher.lake.definitions import message as definition_message
from pgrepl.replication.publisher.lake.definitions import redefined
from pgrepl.replication.publisher.lake.large_changes import changes_in_order
from pgrepl.replication.publisher.lake.transactions import (
    LakeTransaction,
    changed_rows,
    changed_tables,
    class_row,
    is_plain,
    phases,
    prepared_changes,
    read,
    read_changes,
    wanted,
)
from pgrepl.replication.publisher.plan import SendPlan, TableMessages, check_sendable, send_plan, truncated
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.messages import DELETE, UPDATE, Emitted, Message, Phase, TruncateMessage, WireTransaction

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session

    Numbers = npt.NDArray[Any]

_MORE, _MOST = 2, 512  # times as many snapshots in the next portion, up to so many

_Changed = Mapping[tuple[int, int], Iterable[RowChange]]  # by snapshot and table


class ChangeError(Exception):
    """A change could not be sent: a publication does not exist, a filter fails."""

    def __init__(self, error: PgError, lsn: int, callback: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.lsn = lsn
        self.callback = callback  # of the output plugin: change or truncate


class MessageStream:
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
        is_small: bool = False,
        tells: bool = False,
    ) -> None:
        """`local_only`: origin = none, changes that the publisher has received itself are left out. `with_emitted`:
        logical messages are sent, too. `skipped` is called with the XID of each empty transaction. `two_phase_at`: see
        slots.two_phase_at. `is_small`: there are few changes, none of them in a large transaction. `tells`:
        definitions are sent, too."""
        self._tells = tells
        self._redefined: list[tuple[int, int, bool]] = []
        self._is_small = is_small
        self._two_phase_at = two_phase_at
        self._skipped = skipped
        self._session = session
        self._names = tuple(names)
        self._local_only = local_only
        self._with_emitted = with_emitted
        self._tables: dict[tuple[int, int], TableMessages | PgError | None] = {}  # by stretch and table
        self._sendable: set[tuple[int, int, str]] = set()  # stretches, tables and operations that were checked
        self._seen: tuple[int, Session] | None = None  # the stretch asked about last, and its session

    def transactions(self, start: int, end: int, limit: int | None = None) -> Iterator[WireTransaction]:
        """The transactions that finish at `start` or later and before `end`, without empty ones. They are read in
        portions: about `limit` snapshots first, then more and more, as far as the caller reads them; a large
        transaction is read when it is its turn."""
        while start < end:
            portion, behind = read(self._session, start, end, limit)
            yield from self._sent(portion, start)
            start = behind
            limit = limit and min(limit * _MORE, _MOST)

    def _sent(self, portion: Sequence[LakeTransaction], start: int) -> Iterator[WireTransaction]:
        """Small transactions are read together, a large one when its messages are asked for."""
        if self._tells and portion:
            self._redefined = redefined(self._session, portion[0].first, portion[-1].last.id + 1)
        large = self._large(portion)
        self._seen = None  # a portion may be read in another transaction
        small = [snapshot for t in portion if t.first not in large for snapshot in self._wanted(t)]
        known = [snapshot for transaction in portion for snapshot in transaction.snapshots]
        changed = read_changes(self._session, small, self._is_sent, known)
        for transaction in portion:
            if not is_plain(transaction, self._two_phase_at):
                yield from self._in_phases(transaction, start)
                continue
            messages: tuple[Message | TruncateMessage, ...] | _LargeMessages
            emitted: list[Emitted] = []
            if transaction.first in large:
                messages = _LargeMessages(self, self._wanted(transaction), large[transaction.first])
            else:
                collected: list[Message | TruncateMessage] = []
                for snapshot in self._wanted(transaction):
                    emitted += self._told(snapshot.id, len(collected))
                    emitted += self._emitted(snapshot, len(collected))
                    collected += self._explained(snapshot, changed)
                emitted += self._told(transaction.last.id, len(collected))
                messages = tuple(collected)
            if emitted or next(iter(messages), None) is not None:
                last = transaction.last
                yield WireTransaction(
                    transaction.xid,
                    last.id,
                    last.id + 1,
                    last.time,
                    messages,
                    last.origin,
                    tuple(emitted),
                    origin_lsn=last.origin_lsn,
                )
            elif self._skipped is not None and self._is_of_here(transaction):
                self._skipped(transaction.last.id)

    def _in_phases(self, transaction: LakeTransaction, start: int) -> Iterator[WireTransaction]:
        """The phases of a prepared transaction: PREPARE with its changes, and how it ended."""
        last, said = transaction.last, transaction.two_phase
        assert said is not None
        if self._local_only and last.origin:
            return
        for kind in phases(self._session, transaction, self._two_phase_at, start):
            phase = Phase(kind, said.gid, said.xid + 1, said.prepared_at)
            if kind != PREPARE:
                yield WireTransaction(
                    said.xid, last.id, last.id + 1, last.time, (), last.origin, origin_lsn=last.origin_lsn, phase=phase
                )
                continue
            # sent at its commit: a subscriber that goes on from this LSN has all but COMMIT PREPARED
            end_lsn = said.xid + 1 if said.kind == PREPARE else last.id
            yield WireTransaction(
                said.xid, said.xid, end_lsn, said.prepared_at, self._prepared(transaction), last.origin,
                origin_lsn=last.origin_lsn, phase=phase,
            )  # fmt: skip

    def _prepared(self, transaction: LakeTransaction) -> tuple[Message | TruncateMessage, ...]:
        said = transaction.two_phase
        assert said is not None
        messages: list[Message | TruncateMessage] = []
        with prepared_changes(self._session, said, at_prepare=transaction.last.id == said.xid) as (there, snapshots):
            stream = self
            if there is not self._session:
                stream = MessageStream(there, self._names, local_only=self._local_only)
            changed = read_changes(there, snapshots, stream._is_sent)
            for snapshot in snapshots:
                messages += stream._explained(snapshot, changed)
        return tuple(messages)

    def _is_of_here(self, transaction: LakeTransaction) -> bool:
        """Whether a slot of this database decodes the transaction."""
        if self._local_only and transaction.last.origin:
            return False
        return transaction.is_of(self._database, self._is_table)

    @cached_property
    def _database(self) -> int:
        return self._session.database_oid

    def _emitted(self, snapshot: Snapshot, after: int) -> Iterator[Emitted]:
        for message in snapshot.emitted if self._with_emitted else ():
            if message.database == self._database:
                yield Emitted(snapshot.id, message, after)

    def _told(self, upto: int, after: int) -> Iterator[Emitted]:
        """What the snapshots up to this one tell of definitions, and none has told before."""
        while self._redefined and self._redefined[0][0] <= upto:
            snapshot, oid, is_enum = self._redefined.pop(0)
            message = definition_message(self._session, self._names, snapshot, oid, is_enum=is_enum)
            if message is not None:
                yield Emitted(snapshot, message, after)

    def _wanted(self, transaction: LakeTransaction) -> list[Snapshot]:
        return wanted(transaction.snapshots, local_only=self._local_only)

    def _large(self, portion: Sequence[LakeTransaction]) -> dict[int, int]:
        """The large transactions by their first snapshots, and about how many changes they have. Logical messages have
        their places among all of the changes: then all are read."""
        if not portion or self._with_emitted or self._is_small:
            return {}
        if changed_rows(self._session, portion[0].first, portion[-1].last.id + 1) <= messages.PORTION:
            return {}
        sizes = {t.first: changed_rows(self._session, t.first, t.last.id + 1) for t in portion}
        last = {t.first: t.last.id for t in portion}
        telling = {n for n in sizes for at, _, _ in self._redefined if n <= at <= last[n]}
        return {first: size for first, size in sizes.items() if size > messages.PORTION and first not in telling}

    def one_by_one(self, group: Sequence[Snapshot]) -> Iterator[Message | TruncateMessage]:
        """The messages of these snapshots, each read in its turn."""
        for snapshot in group:
            changed = {
                (snapshot.id, table): changes_in_order(self._session, table, snapshot.id)
                for table in changed_tables(snapshot)
                if self._is_sent(snapshot.stretch, table)
            }
            yield from self._explained(snapshot, changed)

    def _explained(self, snapshot: Snapshot, changed: _Changed) -> Iterator[Message | TruncateMessage]:
        try:
            yield from self._messages(snapshot, changed)
        except PgError as error:
            raise ChangeError(error, snapshot.id, "truncate" if snapshot.truncated else "change") from error

    def _messages(self, snapshot: Snapshot, changed: _Changed) -> Iterator[Message | TruncateMessage]:
        if snapshot.truncated:
            plans = [self._plan(snapshot.stretch, table) for table in snapshot.truncated]
            message = truncated(plans, cascade=snapshot.cascade, restart_identity=snapshot.restart_identity)
            if message is not None:
                yield message
        here = {table: changed[snapshot.id, table] for table in snapshot.tables if (snapshot.id, table) in changed}
        for oid, change in in_order(snapshot, here):
            table = self._table(snapshot.stretch, oid)
            if table is not None:
                self._check_sendable(snapshot.stretch, table.plan, change)
                sent = table.message(change.old, change.new)
                if sent is not None:
                    yield sent

    def _check_sendable(self, stretch: int, plan: SendPlan, change: RowChange) -> None:
        """Other writers of the lake know no replica identity: a change that PostgreSQL would have refused cannot be
        sent."""
        if change.old is None:
            return
        operation = UPDATE if change.new is not None else DELETE
        key = (stretch, plan.table.oid, operation)
        if operation in plan.operations and key not in self._sendable:
            check_sendable(self._past(stretch), plan, operation)
            self._sendable.add(key)

    def _table(self, stretch: int, oid: int) -> TableMessages | None:
        table = self._known_table(stretch, oid)
        if isinstance(table, PgError):
            raise table
        return table

    def _known_table(self, stretch: int, oid: int) -> TableMessages | PgError | None:
        """A table's messages, or the error to raise when a change of it is to be sent: the changes before it get
        through."""
        key = (stretch, oid)
        if key not in self._tables:
            try:
                plan = self._plan(stretch, oid)
                self._tables[key] = None if plan is None else TableMessages(plan)
            except PgError as error:
                self._tables[key] = error
        return self._tables[key]

    def _is_sent(self, stretch: int, oid: int) -> bool:
        return self._known_table(stretch, oid) is not None

    def _plan(self, stretch: int, oid: int) -> SendPlan | None:
        if not self._is_table(stretch, oid):
            return None
        return send_plan(self._past(stretch), self._names, oid, self._session.settings.release)

    def _is_table(self, stretch: int, oid: int) -> bool:
        """Was it a table of this database then?"""
        return class_row(self._past(stretch), oid) is not None

    def _past(self, stretch: int) -> Session:
        """A session that sees the definitions of a stretch. Many tables are asked about one after another: it remembers
        the publications for all of them."""
        if self._seen is not None and self._seen[0] == stretch:
            return self._seen[1]
        past = self._session.at(stretch)
        if past.as_of is not None:  # else it sees the present definitions, which may change
            self._seen = stretch, past
        return past


class _LargeMessages:
    """The messages of a large transaction, read snapshot by snapshot each time they are iterated."""

    def __init__(self, stream: MessageStream, group: Sequence[Snapshot], size: int) -> None:
        self._stream = stream
        self._group = group
        self.size = size

    def __iter__(self) -> Iterator[Message | TruncateMessage]:
        return self._stream.one_by_one(self._group)
