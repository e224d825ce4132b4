"""A database of an instance as a publisher: of this instance, or of one in another folder.

For a statement, operations in the same instance are part of its transaction, in the other database. For a worker, and
in another instance with a catalog of its own, each operation is a transaction by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from threading import Event
from typing import TYPE_CHECKING

from pgrepl import engine
from pgrepl.catalog import statistics, tables
from pgrepl.catalog.inheritance import inheritors, partition_ancestors
from pgrepl.catalog.numbering import current_lsn
from pgrepl.catalog.publication import publications, published_tables
from pgrepl.catalog.relation import find_relation, relation, relation_or_none
from pgrepl.catalog.store import rows
from pgrepl.catalog.subscription import system_identifier
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError, Report
from pgrepl.file_watch import FileWatch
from pgrepl.replication.log import LogOf, log_beside
from pgrepl.replication.publisher import senders, slots
from pgrepl.replication.publisher.definition import RemoteAttribute, RemoteDefinition
from pgrepl.replication.publisher.protocol import (
    Backlog,
    ChangesWithin,
    Published,
    Publisher,
    PublisherError,
    RemoteTable,
    SlotLag,
    TableCopy,
    WantedRanges,
    refused,
    server_text,
    slot_is_ahead,
)
from pgrepl.replication.publisher.retained import Retained
from pgrepl.replication.publisher.senders import WalSender
from pgrepl.replication.publisher.standby_slots import sendable_lsn
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.messages import MESSAGE_BYTES, Message, TruncateMessage, WireTransaction, message_bytes
from pgrepl.replication.wire.messages import Row as Values
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_FEW, _FEW_SNAPSHOTS = 100, 10  # changes in files, and snapshots, that are applied under the catalog's write lock
_LOOK = 0.1  # seconds between two looks into a catalog that is on a server
_SNAPSHOTS = 4  # snapshots that are read together at first, if not all changes are wanted at once


class LakePublisher(Publisher):
    """A publisher whose `session` is in the publishing database, as the role of the connection."""

    def __init__(self, session: Session, *, used_password: bool, own_instance: bool, apart: bool) -> None:
        """`apart`: this publisher owns the session."""
        self._session = session
        self._apart = apart
        self._used_password = used_password
        self._own_instance = own_instance
        self._file = None if own_instance else _identity(session)
        self._token = self._slot = ""  # of the worker that reads through this publisher
        self._held_back: Report | None = None  # the last report about a standby that the slot waits for
        self._statement = ""  # START_REPLICATION
        self._log = LogOf(log_beside(session), session)
        self._within: tuple[Session, Session] | None = None  # a worker's session, and one of the publishing database
        self._watch: FileWatch | None = None
        self._copying: ExitStack | None = None  # the transaction of a copy whose rows have not all been read

    @property
    def is_open(self) -> bool:
        """Is the catalog's file still the one that was opened, not moved away or replaced?"""
        return self._own_instance or self._file == _identity(self._session)

    @property
    def used_password(self) -> bool:
        return self._used_password

    def choose_as(self, worker: Session) -> None:
        engine.choose_as(worker, self._session)

    @contextmanager
    def _asked(self) -> Iterator[Session]:
        self._end_copy()
        try:
            with reading(self._session):
                yield self._session
        except PgError as error:
            raise refused(error) from error

    @cached_property
    def system_identifier(self) -> str:
        with self._asked() as session:
            return str(system_identifier(session))

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        with self._asked() as session:
            return {row.pubname for row in publications(session)}.intersection(names)

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        with self._asked() as session:
            there = [row.pubname for row in publications(session) if row.pubname in names]
            found: dict[RemoteTable, None] = {}
            for table in published_tables(session, there):
                published = relation(session, table.relid)
                found[RemoteTable(published.schema, published.name, table.attrs)] = None
            return list(found)

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        from pgrepl.replication.publisher.lake.schema import attributes

        with self._asked() as session:
            return attributes(session.at(lsn), relid)

    def older_value(self, relid: int, attnum: int, lsn: int) -> str | None:
        from pgrepl.replication.publisher.lake.schema import older_value

        with self._asked() as session:
            return older_value(session, relid, attnum, lsn)

    def definitions(self, schema: str, name: str, publications: Sequence[str]) -> list[RemoteDefinition]:
        from pgrepl.replication.publisher.lake.copy_plan import Uncopyable
        from pgrepl.replication.publisher.lake.schema import definitions

        try:
            with self._asked() as session:
                return definitions(session, schema, name, publications)
        except Uncopyable as wrong:
            raise wrong.error from None

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        with self._asked() as session:
            written = self._subscribed_relations(session)
            found = []
            for publication in sorted(row.pubname for row in publications(session) if row.pubname in names):
                for table in published_tables(session, [publication]):
                    published = relation(session, table.relid)
                    if table.relid in written and (published.schema, published.name) not in known:
                        found.append(publication)
                        break
            return found

    @staticmethod
    def _subscribed_relations(session: Session) -> set[int]:
        """The tables of this database's subscriptions, with their partitions and ancestors."""
        found: set[int] = set()
        for subscription in rows(session, tables.pg_subscription, subdbid=session.database_oid):
            for row in rows(session, tables.pg_subscription_rel, srsubid=subscription.oid):
                found.add(row.srrelid)
                target = relation_or_none(session, row.srrelid)
                if target is not None and target.is_partition:
                    found.update(partition_ancestors(session, row.srrelid))
                if target is not None and target.kind == "p":
                    found.update(inheritors(session, row.srrelid))
        return found

    def create_slot(self, name: str, *, two_phase: bool, failover: bool) -> int:
        with self._changing_slots() as session:
            slots.check_decoding_requirements(session)
            made = slots.create_slot(session, name, two_phase=two_phase, failover=failover)
            return made.confirmed_flush_lsn or 0

    def alter_slot(self, name: str, *, failover: bool) -> None:
        with self._changing_slots() as session:
            slots.alter_slot(session, name, failover=failover)

    def drop_slot(self, name: str) -> None:
        with self._changing_slots() as session:
            slots.drop_slot(session, name)

    def current_lsn(self) -> int:
        with self._asked() as session:
            row = slots.slot_or_none(session, self._slot) if self._slot else None
            lsn = current_lsn(session) if row is None else self._sendable(session, row)
        self._flush()
        return lsn

    def _sendable(self, session: Session, row: tables.pg_replication_slot) -> int:
        """The LSN up to which the slot may send; a standby that it waits for is reported once."""
        end, held_back = sendable_lsn(session, row)
        if held_back is not None and held_back != self._held_back:
            session.report(held_back)
        self._held_back = held_back
        return end

    def _flush(self) -> None:
        """Sync commits with `synchronous_commit = off` before another instance receives them: after a crash here it
        would keep changes that are lost here. Within one instance a crash loses both."""
        if not self._own_instance:
            try:
                self._session.link.flush()
            except PgError as error:
                raise refused(error) from error

    @property
    def shares_catalog(self) -> bool:
        return self._own_instance

    @contextmanager
    def _changing_slots(self) -> Iterator[Session]:
        """A transaction that is synced, as the files of PostgreSQL's slots are."""
        with self._asked() as session:
            session.transaction.waits_for_disk = True
            yield session

    @contextmanager
    def _writing(self, within: Session | None) -> Iterator[Session]:
        """A transaction that need not be synced, as for a slot's position and its walsender."""
        if within is not None:
            try:
                yield within
            except PgError as error:
                raise refused(error) from error
        else:
            with self._asked() as session:
                if self._apart:
                    session.transaction.waits_for_disk = False
                yield session

    def occupy(self, slot: str, sender: WalSender, within: Session | None = None) -> None:
        self._statement = sender.statement
        with self._writing(within) as session, self._telling():
            slots.occupy(session, slot, replace(sender, role=self._session.role))
        self._token, self._slot = sender.token, slot

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Write errors for the worker into the publisher's log, too."""
        try:
            yield
        except PgError as error:
            self._tell(error.report)
            raise

    def _tell(self, report: Report) -> None:
        with suppress(OSError):  # the log may be another user's
            if self._statement:
                self._log.report(report, self._statement if report.severity in ("ERROR", "FATAL") else None)

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        with self._writing(within) as session:
            senders.leave(session, slot, token)

    def wait(self, lsn: int, seconds: float, over: Event) -> bool:
        """The catalog's file tells of commits; a catalog on a server is asked now and then."""
        path = self._session.catalog.path
        if self._watch is None and path is not None:
            self._watch = FileWatch(path.parent, (path.name, f"{path.name}-wal"))
        until = time.monotonic() + seconds
        while not over.is_set():
            if self.current_lsn() > lsn:
                return True
            left = until - time.monotonic()
            if left <= 0:
                break
            if self._watch is None:
                over.wait(min(left, _LOOK))
            elif not self._watch.wait(left):
                break
        return False

    def wake(self) -> None:
        watch = self._watch
        if watch is not None:
            watch.wake()

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        with self._asked() as session, self._telling():
            row = slots.acquire(session, slot, self._token)
            slots.check_decodable(session, row)
            slots.check_start(session, lsn)
            confirmed = row.confirmed_flush_lsn or 0
            if lsn and confirmed > lsn:
                raise slot_is_ahead(slot, confirmed, lsn)
            start = max(confirmed, lsn)
            slots.check_retained(session, row, start)
            if two_phase:
                slots.enable_two_phase(session, row, start)
            return start

    def transactions(
        self,
        slot: str,
        publications: Sequence[str],
        start: int,
        end: int,
        *,
        local_only: bool,
        limit: int | None = None,
    ) -> Generator[WireTransaction, None, None]:
        from pgrepl.replication.publisher.lake.stream import MessageStream

        portion = None if limit is None else min(limit, _SNAPSHOTS)
        with self._asked() as session, self._telling(), self._decoding(slot):
            skipped = partial(self._skipped, slot) if self._hears_of_empty() else None
            row = slots.slot_or_none(session, slot)
            since = None if row is None else slots.two_phase_at(row)
            stream = MessageStream(session, publications, local_only=local_only, skipped=skipped, two_phase_at=since)
            for transaction in stream.transactions(start, end, portion):
                _count(session, slot, 1, message_bytes(transaction.messages))
                if transaction.is_large:
                    decoding = partial(self._decoding, slot)
                    transaction = replace(transaction, messages=_Sent(transaction.messages, transaction.size, decoding))
                yield transaction

    @property
    def within(self) -> ChangesWithin | None:
        return self if self._own_instance else None

    def is_usual(self, slot: tables.pg_replication_slot) -> bool:
        special = slot.temporary or slot.two_phase or slot.failover or slot.synced or slot.invalidation_reason
        return slot.slot_type == "logical" and slot.datoid == self._session.database_oid and not special

    def few(
        self, within: Session, publications: Sequence[str], start: int, end: int, *, local_only: bool
    ) -> list[WireTransaction] | None:
        from pgrepl.replication.publisher.lake.size import changed_rows
        from pgrepl.replication.publisher.lake.stream import ChangeError, MessageStream

        session = self._seen_within(within)
        if self._log.hears("DEBUG1") or end - start > _FEW_SNAPSHOTS:
            return None
        count = changed_rows(session, start, end)
        if count > _FEW or engine.choose_batch(within, count).engine is not engine.Engine.LOCAL:
            return None
        stream = MessageStream(session, publications, local_only=local_only, is_small=True)
        try:
            return list(stream.transactions(start, end))
        except ChangeError:
            return None

    def _seen_within(self, other: Session) -> Session:
        """A session of the publishing database in another session's transaction."""
        known = self._within
        if known is None or known[0] is not other:
            there = other.elsewhere(self._session.database_oid, self._session.role)
            there.settings.take_defaults(self._session.settings)
            known = self._within = (other, there)
        known[1].on_report = other.on_report
        return known[1]

    def has_sent(self, slot: str, transactions: Iterable[WireTransaction]) -> None:
        for transaction in transactions:
            _count(self._session, slot, 1, message_bytes(transaction.messages))

    @contextmanager
    def _decoding(self, slot: str) -> Iterator[None]:
        from pgrepl.replication.publisher.lake.stream import ChangeError

        try:
            yield
        except ChangeError as failure:
            error = failure.error
            context = _in_callback(slot, failure.callback, failure.lsn)
            self._tell(replace(error.report, context=context, position=None))
            raise PublisherError(error.sqlstate, f"{server_text(error)}\nCONTEXT:  {context}") from error

    def _hears_of_empty(self) -> bool:
        return bool(self._statement) and self._log.hears("DEBUG1")

    def _skipped(self, slot: str, snapshot: int) -> None:
        """Log an empty transaction (pgoutput_commit_txn)."""
        text = f"skipped replication of an empty transaction with XID: {snapshot}"
        self._tell(Report("DEBUG1", "00000", text, context=_in_callback(slot, "commit", snapshot)))

    def batch(
        self, slot: str, publications: Sequence[str], start: int, end: int, *, local_only: bool, least: int
    ) -> tuple[WireBatch, int] | None:
        from pgrepl.replication.publisher.lake.size import changed_rows
        from pgrepl.replication.publisher.lake.stream_columns import lake_batch

        with self._asked() as session:
            if changed_rows(session, start, end) < least or self._hears_of_empty():
                return None
            row = slots.slot_or_none(session, slot)
            two_phase = row is not None and bool(row.two_phase)
            found = lake_batch(session, publications, start, end, local_only=local_only, two_phase=two_phase)
            if found is not None:
                _count(session, slot, len(found[0].transactions), MESSAGE_BYTES * found[0].count)
            return found

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """While transactions are being read, it is committed apart from the reading, which may go on for long."""
        is_reading = within is None and self._session.transaction.in_statement
        with slots.at_once(self._session) if is_reading else self._writing(within) as session:
            slots.confirm(session, slot, lsn)

    def lag(self, slot: str, *, tell: bool = False) -> SlotLag | None:
        with self._asked() as session:
            row = slots.slot_or_none(session, slot)
            if row is None:
                return None
            return SlotLag(
                row.confirmed_flush_lsn or 0,
                row.restart_lsn or 0,
                current_lsn(session),
                senders.active_pid(session, row),
                row.wal_status or "reserved",
                self._sendable(session, row) if tell else sendable_lsn(session, row)[0],
            )

    def retained(self, slot: str) -> Retained | None:
        from pgrepl.replication.publisher.lake.size import retained

        with self._asked() as session:
            row = slots.slot_or_none(session, slot)
            return None if row is None else retained(session, row)

    def backlog(self, publications: Sequence[str], start: int, end: int, *, local_only: bool) -> Backlog | None:
        from pgrepl.replication.publisher.lake.backlog import backlog

        with self._asked() as session:
            return backlog(session, publications, start, end, local_only=local_only)

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        from pgrepl.expr.deparse import expression_text
        from pgrepl.replication.publisher.plan import send_plan
        from pgrepl.replication.wire.messages import OPERATIONS

        with self._asked() as session:
            table = find_relation(session, RangeVar(name, schema), missing_ok=True)
            plan = None if table is None else send_plan(session, publications, table.oid)
            if table is None or plan is None:
                return None
            filters = {
                operation: " OR ".join([expression_text(session, expr, plan.sent_as) for expr in exprs])
                for operation, exprs in plan.filters.items()
            }
            return Published(
                tuple([column.name for column in plan.columns]),
                tuple([operation for operation in OPERATIONS if operation in plan.operations]),
                tuple([(operation, filters[operation]) for operation in OPERATIONS if operation in filters]),
            )

    def copy(
        self, schema: str, name: str, publications: Sequence[str], wanted: WantedRanges | None = None
    ) -> TableCopy:
        from pgrepl.replication.publisher.lake.copy import published_copy
        from pgrepl.replication.publisher.lake.copy_plan import Uncopyable

        try:
            with ExitStack() as stack:
                found = published_copy(stack.enter_context(self._asked()), schema, name, publications)
                self._flush()
                self._copying = stack.pop_all()
        except Uncopyable as wrong:
            raise wrong.error from None
        return replace(found, rows=self._taken(found.rows, self._copying))

    def rows_in(self, names: Iterable[tuple[str, str]]) -> int:
        """Reads no file."""
        from pgrepl.lake.files import estimate
        from pgrepl.lake.table import lake_table

        count = 0
        with self._asked() as session:
            for schema, name in names:
                table = find_relation(session, RangeVar(name, schema), missing_ok=True)
                leaves = [] if table is None else inheritors(session, table.oid) if table.kind == "p" else [table.oid]
                for leaf in leaves:
                    if relation(session, leaf).kind == "r":
                        count += estimate(session, lake_table(session, leaf))
        return count

    def interrupt(self) -> None:
        """Stop waiting for the catalog's write lock; from another thread."""
        self.give_up()

    def give_up(self) -> None:
        self._session.link.give_up()

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        from pgrepl.replication.publisher.lake.copy_plan import Uncopyable
        from pgrepl.replication.publisher.lake.count import published_count

        try:
            with self._asked() as session:
                return published_count(session, schema, name, publications)
        except Uncopyable as wrong:
            raise wrong.error from None

    def _taken(self, rows: Iterator[Values], transaction: ExitStack) -> Iterator[Values]:
        with transaction:
            yield from rows
        self._copying = None

    def _end_copy(self) -> None:
        transaction, self._copying = self._copying, None
        if transaction is not None:
            transaction.close()

    def close(self) -> None:
        self._end_copy()
        if self._watch is not None:
            self._watch.close()
        if self._apart:
            self._session.close()
        if not self._own_instance:
            self._session.catalog.close()


def _count(session: Session, slot: str, transactions: int, size: int) -> None:
    statistics.count(session, statistics.SLOT, slot, total_txns=transactions, total_bytes=size)


def _in_callback(slot: str, callback: str, lsn: int) -> str:
    """The CONTEXT of an error in an output plugin (output_plugin_error_callback)."""
    return f'slot "{slot}", output plugin "pgoutput", in the {callback} callback, associated LSN {lsn_text(lsn)}'


class _Sent:
    """The messages of a large transaction; errors while they are read are the publisher's."""

    def __init__(
        self,
        messages: Iterable[Message | TruncateMessage],
        size: int,
        decoding: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._messages = messages
        self._decoding = decoding
        self.size = size

    def __iter__(self) -> Iterator[Message | TruncateMessage]:
        try:
            with self._decoding():
                yield from self._messages
        except PgError as error:
            raise refused(error) from error


def _identity(session: Session) -> tuple[int, int] | None:
    """The identity of another instance's catalog file; None: it is on a server."""
    path = session.catalog.path
    try:
        found = None if path is None else path.stat()
    except OSError:
        return -1, -1
    return None if found is None else (found.st_dev, found.st_ino)
