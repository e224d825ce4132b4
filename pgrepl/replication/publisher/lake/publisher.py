"""A database of an instance as a publisher, of this one or in another folder, and the stream of its slot."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from threading import Event
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.subscription import system_identifier
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.store import tables
from pgrepl.engine import choice
from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.threads import FileWatch
from pgrepl.replication.publisher import senders, slots
from pgrepl.replication.publisher.lake.catalog import LakeCatalog
from pgrepl.replication.publisher.lake.connection import LakeConnection, LakeSlots, count_sent
from pgrepl.replication.publisher.lake.copies import LakeCopies
from pgrepl.replication.publisher.protocol import (
    Backlog,
    ChangeStream,
    ChangesWithin,
    Publisher,
    PublisherError,
    SlotLag,
    StreamRequest,
    refused,
    server_text,
    slot_is_ahead,
)
from pgrepl.replication.publisher.standby_slots import sendable_lsn
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.messages import MESSAGE_BYTES, Message, TruncateMessage, WireTransaction, message_bytes
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.lake.comparing import LakeComparing

_FEW, _FEW_SNAPSHOTS = 100, 10  # changes in files, and snapshots, that are applied under the catalog's write lock


class LakeChangesWithin(ChangesWithin):
    def __init__(self, connection: LakeConnection) -> None:
        self._session = connection.session
        self._log = connection.log
        self._within: tuple[Session, Session] | None = None  # a worker's session, and one of the publishing database

    def is_usual(self, slot: tables.pg_replication_slot) -> bool:
        special = slot.temporary or slot.two_phase or slot.failover or slot.synced or slot.invalidation_reason
        return slot.slot_type == "logical" and slot.datoid == self._session.database_oid and not special

    def few(self, within: Session, wanted: StreamRequest) -> list[WireTransaction] | None:
        from pgrepl.replication.publisher.lake.stream import ChangeError, MessageStream
        from pgrepl.replication.publisher.lake.transactions import changed_rows

        session = self._seen_within(within)
        if self._log.hears("DEBUG1") or wanted.end - wanted.start > _FEW_SNAPSHOTS:
            return None
        count = changed_rows(session, wanted.start, wanted.end)
        if count > _FEW or choice.choose_batch(within, count).engine is not choice.Engine.LOCAL:
            return None
        stream = MessageStream(
            session, wanted.publications, local_only=wanted.local_only, is_small=True, tells=wanted.tells
        )
        try:
            return list(stream.transactions(wanted.start, wanted.end))
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
            count_sent(self._session, slot, 1, message_bytes(transaction.messages))


# --- change stream ----------------------------------------------------------------------------------------------------


_LOOK = 0.1  # seconds between two looks into a catalog that is on a server
_SNAPSHOTS = 4  # snapshots that are read together at first, if not all changes are wanted at once


class LakeChangeStream(ChangeStream):
    def __init__(self, connection: LakeConnection) -> None:
        self._connection = connection
        self._session = connection.session
        self._asked = connection.asked
        self.within = LakeChangesWithin(connection) if connection.own_instance else None
        self._held_back: Report | None = None  # the last report about a standby that the slot waits for
        self._watch: FileWatch | None = None

    # --- positions ----------------------------------------------------------------------------------------------------

    def current_lsn(self) -> int:
        slot = self._connection.slot
        with self._asked() as session:
            row = slots.slot_or_none(session, slot) if slot else None
            lsn = current_lsn(session) if row is None else self._sendable(session, row)
        self._connection.flush()
        return lsn

    def _sendable(self, session: Session, row: tables.pg_replication_slot) -> int:
        """The LSN up to which the slot may send; a standby that it waits for is reported once."""
        end, held_back = sendable_lsn(session, row)
        if held_back is not None and held_back != self._held_back:
            session.report(held_back)
        self._held_back = held_back
        return end

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

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        with self._asked() as session, self._connection.telling():
            row = slots.acquire(session, slot, self._connection.token)
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

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """While transactions are being read, it is committed apart from the reading, which may go on for long."""
        is_reading = within is None and self._session.transaction.in_statement
        with slots.at_once(self._session) if is_reading else self._connection.writing(within) as session:
            slots.confirm(session, slot, lsn)

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

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    # --- transactions -------------------------------------------------------------------------------------------------

    def transactions(self, wanted: StreamRequest, limit: int | None = None) -> Generator[WireTransaction, None, None]:
        from pgrepl.replication.publisher.lake.stream import MessageStream

        portion = None if limit is None else min(limit, _SNAPSHOTS)
        with self._asked() as session, self._connection.telling(), self._decoding(wanted.slot):
            skipped = partial(self._skipped, wanted.slot) if self._hears_of_empty() else None
            row = slots.slot_or_none(session, wanted.slot)
            since = None if row is None else slots.two_phase_at(row)
            names, local_only = wanted.publications, wanted.local_only
            stream = MessageStream(
                session, names, local_only=local_only, skipped=skipped, two_phase_at=since, tells=wanted.tells
            )
            for transaction in stream.transactions(wanted.start, wanted.end, portion):
                count_sent(session, wanted.slot, 1, message_bytes(transaction.messages))
                if transaction.is_large:
                    decoding = partial(self._decoding, wanted.slot)
                    transaction = replace(transaction, messages=_Sent(transaction.messages, transaction.size, decoding))
                yield transaction

    def batch(self, wanted: StreamRequest, least: int) -> tuple[WireBatch, int] | None:
        from pgrepl.replication.publisher.lake.stream_columns import lake_batch
        from pgrepl.replication.publisher.lake.transactions import changed_rows

        slot, start, end = wanted.slot, wanted.start, wanted.end
        with self._asked() as session:
            if changed_rows(session, start, end) < least or self._hears_of_empty():
                return None
            if wanted.tells:
                from pgrepl.replication.publisher.lake.definitions import redefined

                end = min([end, *(at for at, _, _ in redefined(session, start, end))])
            row = slots.slot_or_none(session, slot)
            two_phase = row is not None and bool(row.two_phase)
            names, local_only = wanted.publications, wanted.local_only
            batch = lake_batch(session, names, start, end, local_only=local_only, two_phase=two_phase)
            if batch is not None:
                count_sent(session, slot, len(batch[0].transactions), MESSAGE_BYTES * batch[0].count)
            return batch

    def backlog(self, wanted: StreamRequest) -> Backlog:
        from pgrepl.replication.publisher.lake.backlog import backlog

        with self._asked() as session:
            return backlog(session, wanted.publications, wanted.start, wanted.end, local_only=wanted.local_only)

    @contextmanager
    def _decoding(self, slot: str) -> Iterator[None]:
        from pgrepl.replication.publisher.lake.stream import ChangeError

        try:
            yield
        except ChangeError as failure:
            error = failure.error
            context = _in_callback(slot, failure.callback, failure.lsn)
            self._connection.tell(replace(error.report, context=context, position=None))
            raise PublisherError(error.sqlstate, f"{server_text(error)}\nCONTEXT:  {context}") from error

    def _hears_of_empty(self) -> bool:
        return bool(self._connection.statement) and self._connection.log.hears("DEBUG1")

    def _skipped(self, slot: str, snapshot: int) -> None:
        """Log an empty transaction (pgoutput_commit_txn)."""
        text = f"skipped replication of an empty transaction with XID: {snapshot}"
        self._connection.tell(Report("DEBUG1", "00000", text, context=_in_callback(slot, "commit", snapshot)))


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


# --- publisher --------------------------------------------------------------------------------------------------------


class LakePublisher(Publisher):
    """A publisher whose session is in the publishing database, as the role of the connection."""

    slots: LakeSlots
    stream: LakeChangeStream
    copies: LakeCopies

    def __init__(self, session: Session, *, used_password: bool, own_instance: bool, apart: bool) -> None:
        """`apart`: this publisher owns the session."""
        self.connection = LakeConnection(session, own_instance=own_instance, apart=apart)
        self.catalog = LakeCatalog(self.connection)
        self.slots = LakeSlots(self.connection)
        self.stream = LakeChangeStream(self.connection)
        self.copies = LakeCopies(self.connection)
        self._used_password = used_password
        self._file = None if own_instance else _identity(session)

    @property
    def is_open(self) -> bool:
        """Is the catalog's file still the one that was opened, not moved away or replaced?"""
        return self.connection.own_instance or self._file == _identity(self.connection.session)

    @property
    def used_password(self) -> bool:
        return self._used_password

    @cached_property
    def system_identifier(self) -> str:
        with self.connection.asked() as session:
            return str(system_identifier(session))

    @cached_property
    def comparing(self) -> LakeComparing:
        from pgrepl.replication.publisher.lake.comparing import LakeComparing

        return LakeComparing(self.connection, self.slots)

    @property
    def shares_catalog(self) -> bool:
        return self.connection.own_instance

    def inherit_engine(self, worker: Session) -> None:
        choice.inherit_engine(worker, self.connection.session)

    def interrupt(self) -> None:
        """Stop waiting for the catalog's write lock; from another thread."""
        self.give_up()

    def give_up(self) -> None:
        self.connection.session.link.give_up()

    def close(self) -> None:
        self.stream.close()
        self.connection.close()


def _identity(session: Session) -> tuple[int, int] | None:
    """The identity of another instance's catalog file; None: it is on a server."""
    path = session.catalog.path
    try:
        status = None if path is None else path.stat()
    except OSError:
        return -1, -1
    return None if status is None else (status.st_dev, status.st_ino)
