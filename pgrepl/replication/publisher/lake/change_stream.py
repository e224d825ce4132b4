"""The stream of a lake's slot: its transactions, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.numbering import current_lsn
from pgrepl.errors import PgError, Report
from pgrepl.file_watch import FileWatch
from pgrepl.replication.publisher import senders, slots
from pgrepl.replication.publisher.lake.changes_within import LakeChangesWithin
from pgrepl.replication.publisher.lake.connection import LakeConnection, count_sent
from pgrepl.replication.publisher.protocol import (
    Backlog,
    ChangeStream,
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
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
            stream = MessageStream(session, names, local_only=local_only, skipped=skipped, two_phase_at=since)
            for transaction in stream.transactions(wanted.start, wanted.end, portion):
                count_sent(session, wanted.slot, 1, message_bytes(transaction.messages))
                if transaction.is_large:
                    decoding = partial(self._decoding, wanted.slot)
                    transaction = replace(transaction, messages=_Sent(transaction.messages, transaction.size, decoding))
                yield transaction

    def batch(self, wanted: StreamRequest, least: int) -> tuple[WireBatch, int] | None:
        from pgrepl.replication.publisher.lake.size import changed_rows
        from pgrepl.replication.publisher.lake.stream_columns import lake_batch

        slot, start, end = wanted.slot, wanted.start, wanted.end
        with self._asked() as session:
            if changed_rows(session, start, end) < least or self._hears_of_empty():
                return None
            row = slots.slot_or_none(session, slot)
            two_phase = row is not None and bool(row.two_phase)
            names, local_only = wanted.publications, wanted.local_only
            found = lake_batch(session, names, start, end, local_only=local_only, two_phase=two_phase)
            if found is not None:
                count_sent(session, slot, len(found[0].transactions), MESSAGE_BYTES * found[0].count)
            return found

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
