"""Applies messages one by one to rows in memory, as PostgreSQL's apply worker does (worker.c).

A batch is applied transaction by transaction. Its net effect is taken from the overlays and written at once; the first
violation ends the batch before the transaction it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.sequences import restart_sequences
from pgrepl.catalog.facts.subscription import NO_SCHEMA, WITH_TABLES
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.apply.conflicts_met import ConflictsMet
from pgrepl.replication.subscriber.apply.overlay import Overlay
from pgrepl.replication.subscriber.apply.progress import Emptied, Journal, LiveRow, Progress
from pgrepl.replication.subscriber.apply.target import SearchKey, TargetTable, identity_of, target_or_none
from pgrepl.replication.subscriber.apply.triggers import (
    acting_for,
    applied_triggers,
    check_target_privilege,
    emptied_by,
)
from pgrepl.replication.subscriber.conflicts import Decisions
from pgrepl.replication.subscriber.copying.ranges import CopyRanges
from pgrepl.replication.subscriber.history import Logs
from pgrepl.replication.wire.messages import (
    INSERT,
    TRUNCATE,
    UNCHANGED,
    UPDATE,
    Message,
    Row,
    SentRelation,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.rows.after_triggers import fire_of_row, truncate_tables
from pgrepl.rows.changes import ModifiedRow
from pgrepl.rows.checks import modified_by_trigger
from pgrepl.rows.checks_table import Router, column_places, converter
from pgrepl.rows.triggers import TriggerEvent

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store import tables

_UNIQUE_VIOLATION = "23505"
Applies = Callable[[int, int], bool]  # table, finish LSN: are its changes to be applied, as its copy lacks them?


class Player:
    """Applies the messages of one batch for one subscription."""

    def __init__(
        self,
        session: Session,
        subscription: tables.pg_subscription,
        progress: Progress,
        applies: Applies,
        completed: dict[int, Row] | None = None,
        write: Callable[[Player], None] | None = None,
        ranges: Mapping[int, CopyRanges] | None = None,
    ) -> None:
        """`completed`: new rows by message, with the defaults that a previous player has given them: its work is
        repeated, and sequences must not advance again. `write`: writes what has been applied so far; given where
        triggers fire. `ranges`: of the tables that are copied in pieces."""
        self.overlays: dict[int, Overlay] = {}
        self.journal = Journal()
        self.completed: dict[int, Row] = {} if completed is None else completed
        self._session = session
        self._subscription = subscription
        self._progress = progress
        self._applies = applies
        self.ranges: Mapping[int, CopyRanges] = ranges or {}
        self._tables: dict[SentRelation, _Table] = {}
        self.restarts = False  # whether a TRUNCATE restarted the sequences of its tables
        self.truncated: list[int] = []  # tables that a TRUNCATE emptied
        self.conflicts = ConflictsMet(session, subscription, progress)
        self.logs = Logs(session, subscription)
        self._decisions = Decisions(session, subscription)
        self._follows = subscription.subschemachanges != NO_SCHEMA
        self.generation = 0  # how often what was applied has been written
        self._write = write
        self.passed = 0  # messages that are not applied: the table's copy has them already, or is still to come

    # --- a batch ------------------------------------------------------------------------------------------------------

    def prefetch(self, transactions: Iterable[WireTransaction]) -> None:
        """Read the rows and keys that the messages need, each table once; a TRUNCATE forgets what was read of its
        table. Errors are ignored: the message that causes one meets it again in its turn."""
        by_relation: dict[SentRelation, list[Message]] = {}
        for transaction in transactions:
            for message in transaction.messages:
                if not isinstance(message, TruncateMessage):
                    by_relation.setdefault(message.relation, []).append(message)
        for sent, messages in by_relation.items():
            try:
                table = self._open(sent)
                if not self._is_copied(table.target.relation.oid, 2**63):
                    continue
                table.prefetch(messages)
            except PgError:
                continue

    def play(self, transaction: WireTransaction) -> None:
        """Apply the messages of a transaction in order."""
        progress = self._progress
        progress.transaction(transaction.xid, transaction.finish_lsn)
        self.journal.begin(transaction)
        self.conflicts.begin()
        for message in transaction.messages:
            try:
                if isinstance(message, TruncateMessage):
                    progress.message(TRUNCATE)
                    self._truncate(message, transaction)
                else:
                    progress.message(message.operation)
                    self._change(message, transaction)
            except PgError as error:
                raise progress.explain(error) from error.__cause__

    def settle(self, tables: Collection[int] | None, *, writes: bool) -> None:
        """Write what has been applied to these tables (Session.settle). What is known of tables that others write is
        forgotten."""
        concerned = {oid for oid, overlay in self.overlays.items() if writes or overlay.is_changed}
        if self._write is None or not concerned or (tables is not None and concerned.isdisjoint(tables)):
            return
        self._write(self)
        self.generation += 1
        self.overlays.clear()
        self.truncated, self.restarts = [], False
        transaction, _ = self.journal.transactions[-1]
        self.journal.transactions.clear()
        self.journal.begin(transaction)

    def overlay(self, table: Relation) -> Overlay:
        overlay = self.overlays.get(table.oid)
        if overlay is None:
            overlay = self.overlays[table.oid] = Overlay(self._session, table, self.journal)
        return overlay

    def _open(self, sent: SentRelation) -> _Table:
        table = self._tables.get(sent)
        if table is None:
            target = TargetTable(self._session, sent, self._progress, binary=bool(self._subscription.subbinary))
            table = self._tables[sent] = _Table(self, target)
        return table

    # --- changes ------------------------------------------------------------------------------------------------------

    def _concerned(self, sent: SentRelation, finish_lsn: int) -> _Table | None:
        """The table, if changes of the transaction are applied to it. With schema_changes it may lack columns as long
        as none are, or be still to come."""
        if self._follows and sent not in self._tables:
            target = target_or_none(self._session, sent)
            if target is None and self._subscription.subschemachanges in WITH_TABLES:
                return None
            if target is not None and not self._is_copied(target.oid, finish_lsn):
                return None
        table = self._open(sent)
        return table if self._is_copied(table.target.relation.oid, finish_lsn) else None

    def _is_copied(self, relid: int, finish_lsn: int) -> bool:
        """Whether the table has been copied before the transaction, or a part of it has."""
        return self._applies(relid, finish_lsn) or relid in self.ranges

    def _change(self, message: Message, transaction: WireTransaction) -> None:
        table = self._concerned(message.relation, transaction.finish_lsn)
        if table is None:
            self.passed += 1
        elif (ranges := self.ranges.get(table.target.relation.oid)) is None:
            self._apply(message, table)
        else:
            counting = ranges.changes(message, transaction.xid)
            self.passed += not counting
            for counted in counting:
                self._apply(counted, table)

    def _apply(self, message: Message, table: _Table) -> None:
        if self._decisions:
            decided = self._decisions.of(message, self._progress.finish_lsn)
            if decided is None:
                self.passed += 1
                return
            message = decided
        if message.operation != INSERT:
            self._progress.relation = message.relation
            table.check_updatable()
        with acting_for(self._session, self._subscription, table.target.relation):
            self._progress.relation = message.relation
            if message.operation == INSERT:
                table.insert(message)
            elif message.operation == UPDATE:
                table.update(message)
            else:
                table.delete(message)

    def _truncate(self, message: TruncateMessage, transaction: WireTransaction) -> None:
        """Empty the tables of a TRUNCATE (apply_handle_truncate)."""
        concerned = (self._concerned(sent, transaction.finish_lsn) for sent in message.relations)
        targets = (
            table.target.relation
            for table in concerned
            if table is not None
            and ((ranges := self.ranges.get(table.target.relation.oid)) is None or ranges.truncates(transaction.xid))
        )
        self.passed += not self.truncate(targets, restart_identity=message.restart_identity)

    def truncate(self, tables: Iterable[Relation], *, restart_identity: bool) -> bool:
        """Empty tables, with their partitions; whether there are any."""
        emptied = emptied_by(self._session, tables, restart_identity=restart_identity)
        if emptied:
            with acting_for(self._session, self._subscription, emptied[0]):
                truncate_tables(self._session, emptied, lambda: self._empty(emptied, restart_identity=restart_identity))
        return bool(emptied)

    def _empty(self, emptied: Sequence[Relation], *, restart_identity: bool) -> None:
        oids = [one.oid for one in emptied]
        overlays = tuple([self.overlay(one) for one in emptied if one.kind == "r"])
        for overlay in overlays:
            overlay.truncate()
        self.truncated += [oid for oid in oids if oid not in self.truncated]
        if restart_identity:  # defaults of later rows may take values of the sequences
            restart_sequences(self._session, oids)
            self.restarts = True
        tables = tuple([overlay.relation.oid for overlay in overlays])
        self.journal.add(Emptied(tables, tuple(emptied), restart_identity))

    @property
    def session(self) -> Session:
        return self._session


class _Table:
    """The target table of one relation of the publisher, or the leaves of a partitioned one."""

    def __init__(self, player: Player, target: TargetTable) -> None:
        self.target = target
        self._player = player
        self._session = player.session
        table = target.relation
        self._router = Router(self._session, table) if table.kind == "p" else None
        self._leaves: dict[int, _Leaf] = {}
        self._own = None if self._router else _Leaf(player, target, table)

    def prefetch(self, messages: Sequence[Message]) -> None:
        """Look up the rows and keys that these messages need."""
        searched: dict[_Leaf, list[Row]] = {}
        inserted: dict[_Leaf, list[Row]] = {}
        for message in messages:
            old = message.old if message.operation != INSERT else None
            if message.operation != INSERT:
                row = self.target.store(message.old if message.old is not None else message.new or ())
                leaf, there = self._leaf(tuple(row))
                searched.setdefault(leaf, []).append(there)
            if message.operation == INSERT or (old is not None and message.new is not None):
                leaf, there = self._leaf(self.target.foreseen(self.target.store(message.new or ())))
                inserted.setdefault(leaf, []).append(there)
        for leaf in {**searched, **inserted}:
            leaf.prefetch(searched.get(leaf, []), inserted.get(leaf, []))

    def check_updatable(self) -> None:
        """Check the replica identity; of a partitioned table each leaf is checked later (check_relation_updatable)."""
        if self._own is not None:
            self._own.check_identity()

    def insert(self, message: Message) -> None:
        leaf, there = self._leaf(self._completed(message))
        leaf.insert(there, message)

    def _completed(self, message: Message) -> Row:
        row = self._player.completed.get(id(message))
        if row is None:
            row = self.target.complete(self.target.store(message.new or ()))
            if not self.target.is_repeatable:
                self._player.completed[id(message)] = row
        return row

    def update(self, message: Message) -> None:
        assert message.new is not None
        searched = tuple(self.target.store(message.old if message.old is not None else message.new))
        leaf, there = self._leaf(searched, identity=True)
        live = leaf.find(there)
        if live is None:
            partition = "'s partition" if self._router else ""
            what = f'updated in replication target relation{partition} "{leaf.table.name}"'
            self._player.conflicts.miss(leaf, message, there, what)
            return
        self._player.conflicts.look(leaf, message, live, there)
        row = leaf.from_root(self.target.modify(leaf.to_root(live.row), message.new))
        if leaf.overlay.fits(row):
            leaf.update(live, row, there, self._sent_columns(leaf, message.new) if leaf.triggers else None, message)
            return
        leaf.delete(live, there)
        other, moved = self._leaf(leaf.to_root(row))
        other.insert(moved, message)

    def _sent_columns(self, leaf: _Leaf, new: Row) -> frozenset[int]:
        """The columns of the leaf whose values were sent: what UPDATE OF is judged by."""
        unchanged = tuple([value is UNCHANGED for value in new])
        known = leaf.sent_columns.get(unchanged)
        if known is None:
            names = {
                attribute.name
                for attribute, place in zip(self.target.relation.attributes, self.target.places, strict=True)
                if place >= 0 and not unchanged[place]
            }
            known = frozenset(column.num for column in leaf.table.columns if column.name in names)
            leaf.sent_columns[unchanged] = known
        return known

    def delete(self, message: Message) -> None:
        assert message.old is not None
        leaf, there = self._leaf(tuple(self.target.store(message.old)), identity=True)
        live = leaf.find(there)
        if live is None:
            self._player.conflicts.miss(
                leaf, message, there, f'deleted in replication target relation "{leaf.table.name}"'
            )
            return
        self._player.conflicts.look(leaf, message, live, there)
        leaf.delete(live, there)

    def _leaf(self, row: Row, *, identity: bool = False) -> tuple[_Leaf, Row]:
        """The leaf that a row is routed to, and the row in that leaf's layout. `identity`: check the leaf's replica
        identity, because the row will be looked for there."""
        if self._router is None:
            assert self._own is not None
            return self._own, row
        table, there = self._router.route(row)
        leaf = self._leaves.get(table.oid)
        if leaf is None:
            leaf = self._leaves[table.oid] = _Leaf(self._player, self.target, table)
        if identity:
            leaf.check_identity()
        return leaf, there


class _Leaf:
    """A table that holds rows: a leaf partition, or the target itself."""

    def __init__(self, player: Player, target: TargetTable, table: Relation) -> None:
        self.table = table
        self.triggers = applied_triggers(player.session, table)
        self._player = player
        self._session = player.session
        self.target = target
        self._identity: SearchKey | None = None
        self._allowed: set[str] = set()
        self.sent_columns: dict[tuple[bool, ...], frozenset[int]] = {}  # by which values are unchanged
        self.to_root = converter(table, target.relation)
        self.from_root = converter(target.relation, table)

    @property
    def overlay(self) -> Overlay:
        return self._player.overlay(self.table)

    # --- changes, with their triggers ---------------------------------------------------------------------------------

    def new_row(self, message: Message) -> Row | None:
        """The new row of a message in this table's layout."""
        return None if message.new is None else self.from_root(tuple(self.target.store(message.new)))

    def insert(self, row: Row, message: Message) -> None:
        self.allow("INSERT")
        if self.triggers is None:
            self._insert(row, message)
            return
        given = self.triggers.before(TriggerEvent.INSERT, None, row)
        if given is not None:
            self._fire(ModifiedRow(self.table.oid, new=self._insert(given, message), to=self.table.oid))

    def _insert(self, row: Row, message: Message) -> Row:
        try:
            return self.overlay.insert(row)
        except PgError as error:
            if error.sqlstate != _UNIQUE_VIOLATION:
                raise
            raise self._player.conflicts.rejected(error, self, message, row, None, None) from error.__cause__

    def _update(self, live: LiveRow, row: Row, message: Message, searched: Row) -> Row:
        try:
            return self.overlay.update(live, row)
        except PgError as error:
            if error.sqlstate != _UNIQUE_VIOLATION:
                raise
            raise self._player.conflicts.rejected(error, self, message, row, live, searched) from error.__cause__

    def update(self, live: LiveRow, row: Row, searched: Row, columns: frozenset[int] | None, message: Message) -> None:
        """`searched`: by which the row was found; `columns`: that the UPDATE sets."""
        self.allow("UPDATE")
        if self.triggers is None:
            self._update(live, row, message, searched)
            return
        old, generation = live.row, self._player.generation
        given = self.triggers.before(TriggerEvent.UPDATE, old, row, columns)
        if given is None:
            return
        live = self._again(live, old, searched, generation, "updated")
        new = self._update(live, given, message, searched)
        self._fire(ModifiedRow(self.table.oid, live.place, old, new, self.table.oid), columns)

    def delete(self, live: LiveRow, searched: Row) -> None:
        self.allow("DELETE")
        if self.triggers is None:
            self.overlay.delete(live)
            return
        old, generation = live.row, self._player.generation
        if self.triggers.before(TriggerEvent.DELETE, old, None) is None:
            return
        live = self._again(live, old, searched, generation, "deleted")
        self.overlay.delete(live)
        self._fire(ModifiedRow(self.table.oid, live.place, old))

    def _again(self, live: LiveRow, old: Row, searched: Row, generation: int, done: str) -> LiveRow:
        """The row, once more if tables have been written meanwhile."""
        if generation == self._player.generation:
            return live
        again = self.find(searched)
        if again is None or again.row != old:
            raise modified_by_trigger(done)
        return again

    def _fire(self, change: ModifiedRow, columns: frozenset[int] | None = None) -> None:
        """Fire the AFTER triggers of the row."""
        assert self.triggers is not None
        fire_of_row(self._session, self.table, self.triggers, change, columns)

    def check_identity(self) -> SearchKey:
        if self._identity is None:
            in_root = column_places(self.target.relation, self.table)
            places = [-1 if place < 0 else self.target.places[place] for place in in_root]
            self._identity = identity_of(self._session, self.table, places, self.target.sent)
        return self._identity

    def find(self, searched: Sequence[Any]) -> LiveRow | None:
        self.allow("SELECT")
        return self.overlay.find(self.check_identity(), searched)

    def allow(self, privilege: str) -> None:
        if privilege not in self._allowed:
            check_target_privilege(self._session, self.table, privilege)
            self._allowed.add(privilege)

    def prefetch(self, searched: Sequence[Row], inserted: Sequence[Row]) -> None:
        if searched:
            self.overlay.prefetch(self.check_identity(), searched, inserted)
        else:
            self.overlay.prefetch_keys(inserted)
