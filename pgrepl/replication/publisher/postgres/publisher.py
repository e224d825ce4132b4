"""A database of a PostgreSQL server as a publisher."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING

from pgrepl.engine import LEAST_CHANGES
from pgrepl.interrupts import JoinedThread
from pgrepl.replication.publisher.definition import RemoteAttribute, RemoteDefinition
from pgrepl.replication.publisher.postgres import key_ranges, published, slots, tables
from pgrepl.replication.publisher.postgres import schema as server_schema
from pgrepl.replication.publisher.postgres.copy_columns import ServerRows, readers
from pgrepl.replication.publisher.postgres.feedback import Feedback
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.pieces import Piece
from pgrepl.replication.publisher.postgres.prefetch import LeavesOff, ReadRequest, start_prefetch
from pgrepl.replication.publisher.postgres.reading import Reading
from pgrepl.replication.publisher.postgres.retained import ServerProbe, retained
from pgrepl.replication.publisher.postgres.stream import Stream
from pgrepl.replication.publisher.protocol import (
    ColumnsFollow,
    Published,
    Publisher,
    PublisherError,
    RemoteTable,
    SlotLag,
    TableCopy,
    Undivided,
    WantedRanges,
)
from pgrepl.replication.publisher.retained import Retained, SlotProbe
from pgrepl.replication.publisher.senders import StreamOptions, WalSender
from pgrepl.replication.wire.copy_ranges import KeyRange
from pgrepl.replication.wire.messages import WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.wire.batch import WireBatch

_STATUS_INTERVAL = 30.0  # seconds between two confirmations while much is read
_IDLE = 1.0  # seconds between two confirmations of a position behind which nothing of the publication has come
_MAY_NOT = "42501"
_UNUSED = 5.0  # seconds after which the connection beside a stream is closed
_LOG_OF_CHANGE = 30  # bytes of log that a change takes at least
_COPY_SLOT = "pgrepl_copy_{}"  # name of a copy's slot, by the PID of the walsender


class PostgresPublisher(Publisher):
    """An open connection to a server."""

    def __init__(self, link: Link, data_path: str, interval: float = 10.0, heartbeat: float = 0.0) -> None:
        """`data_path`: where files for Spark are written. `interval`, `heartbeat`: see to_server."""
        self._heartbeat = heartbeat
        self._quiet_since = 0, 0.0  # the position at which nothing has come, and since when
        self._opened = link
        self._beside: Link | None = None  # another connection, while the first one streams
        self._interval = interval
        self._options: StreamOptions | None = None  # how the worker that reads from the slot wants its changes
        self._stream: Stream | None = None
        self._target = 0  # the end of the server's WAL when the stream was started
        self._data_path = data_path
        self._copying: tuple[Link, str, ServerRows | None] | None = None  # a copy's slot, in whose transaction it is
        self._slot = ""  # the slot that the worker reads from
        self._two_phase = False  # the slot sends prepared transactions at PREPARE
        self._reading: Reading | None = None
        self._telling: JoinedThread | None = None  # confirms a position to the server, over `_opened`
        self._unconfirmed = 0  # the position that is committed here, if the server does not know it yet
        self._confirmed_at = 0.0
        self._used_at = 0.0  # when the connection beside the stream was last used

    @property
    def _link(self) -> Link:
        """The connection, with nothing in progress."""
        self._await_telling()
        self._end_copy()
        if self._stream is None:
            return self._opened
        if self._beside is None or not self._beside.is_open:
            self._beside = self._opened.same()
        self._used_at = time.monotonic()
        return self._beside

    @property
    def is_open(self) -> bool:
        return self._opened.is_open

    @property
    def used_password(self) -> bool:
        return self._link.used_password

    @cached_property
    def system_identifier(self) -> str:
        return self._link.row("IDENTIFY_SYSTEM")[0] or ""

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        return published.existing_publications(self._link, names)

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        return published.published_tables(self._link, names)

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        return server_schema.attributes(self._link, relid)

    def older_value(self, relid: int, attnum: int, lsn: int) -> str | None:
        return server_schema.older_value(self._link, relid, attnum)

    def definitions(self, schema: str, name: str, publications: Sequence[str]) -> list[RemoteDefinition]:
        return server_schema.definitions(self._link, schema, name, publications)

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        return published.publications_with_other_origins(self._link, names, known)

    def create_slot(self, name: str, *, two_phase: bool, failover: bool) -> int:
        return slots.create(self._link, name, two_phase=two_phase, failover=failover)

    def alter_slot(self, name: str, *, failover: bool) -> None:
        slots.alter(self._link, name, failover=failover)

    def drop_slot(self, name: str) -> None:
        slots.drop(self._link, name)

    def current_lsn(self) -> int:
        if self._stream is not None:
            return max(self._stream.available(), self._target)
        end = slots.current_lsn(self._link)
        held_back = slots.sendable_lsn(self._link, self._slot) if self._slot else None
        return end if held_back is None else min(end, held_back)

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        if self._stream is not None:
            if self._stream.has_from(lsn) and two_phase == self._two_phase:
                return lsn
            self._stop_streaming()
        prefetched = self._reading is not None and self._reading.is_prefetched
        begin = slots.start(self._link, slot, lsn, tell=not prefetched)
        if two_phase and not self._two_phase and slots.can_two_phase(self._link):
            self._two_phase = True
            self._begin_streaming(slot, begin, begin)  # which enables it for the slot (CreateDecodingContext)
        return begin

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
        if start >= end:
            return
        wanted = self._request(slot, publications, end, local_only=local_only)
        any_yet = False
        while (piece := self._piece(wanted, start, as_columns=False)) is not None:
            if self._options is not None and any_yet and piece.spool.changes > LEAST_CHANGES:
                raise ColumnsFollow
            for transaction in piece.one_by_one(start, end):
                any_yet = True
                yield transaction
            start = piece.reached

    def batch(
        self, slot: str, publications: Sequence[str], start: int, end: int, *, local_only: bool, least: int
    ) -> tuple[WireBatch, int] | None:
        if end - start < least * _LOG_OF_CHANGE:
            return None
        wanted = self._request(slot, publications, end, local_only=local_only)
        piece = self._piece(wanted, start, as_columns=True)
        return None if piece is None else piece.batch(start, end, least, self._data_path)

    def _request(self, slot: str, publications: Sequence[str], end: int, *, local_only: bool) -> ReadRequest:
        binary = self._options is not None and self._options.binary
        return ReadRequest(slot, tuple(publications), end, local_only, self._two_phase, binary)

    def _piece(self, wanted: ReadRequest, start: int, *, as_columns: bool) -> Piece | None:
        """The first piece that reaches beyond `start`. A worker's changes are streamed, unless much has piled up: then
        copies of its slot are read ahead, as long as the server decodes little twice."""
        if self._stream is None:
            if self._reading is None or not self._reading.covers(wanted, start):
                self._begin_reading(wanted, start, as_columns=as_columns)
            try:
                if self._reading is not None:
                    return self._reading.piece(start)
            except LeavesOff:
                self._stop_reading()
                if self._options is None:
                    self._reading = Reading(self._link, wanted, start, None)
                    return self._reading.piece(start)
            self._begin_streaming(wanted.slot, start, wanted.end)
        assert self._stream is not None
        return self._stream.piece(start, wanted.end)

    def _begin_reading(self, wanted: ReadRequest, start: int, *, as_columns: bool) -> None:
        self._stop_reading()
        link = self._link
        self._confirmed_at = time.monotonic()
        prefetch = start_prefetch(link, wanted, start, self._data_path if as_columns else None)
        if prefetch is not None or self._options is None:
            self._reading = Reading(link, wanted, start, prefetch)

    # --- streaming ----------------------------------------------------------------------------------------------------

    def _begin_streaming(self, slot: str, start: int, target: int) -> None:
        assert self._options is not None
        self._await_telling()
        self._end_copy()
        link = self._opened
        options = replace(self._options, two_phase=self._two_phase)
        feedback = Feedback(start, self._interval, link.patience, time.monotonic())
        self._target = max(self._target, target)
        command = options.statement(slot, start, link.version)
        self._stream = Stream(link, command, start, self._data_path, feedback, self._target)

    def _stop_streaming(self) -> None:
        """End the stream; what it has confirmed is told."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        self._close_beside()

    def _close_beside(self) -> None:
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.close()

    def wait(self, lsn: int, seconds: float, over: Event) -> bool:
        if self._options is None:
            return super().wait(lsn, seconds, over)
        if self._stream is None:
            self._stop_reading()
            self._begin_streaming(self._slot, lsn, lsn)
        if self._beside is not None and self._copying is None and time.monotonic() > self._used_at + _UNUSED:
            self._close_beside()
        self._beat(lsn)
        return self._stream is None or (not over.is_set() and self._stream.wait(lsn, seconds, _IDLE))

    def _beat(self, lsn: int) -> None:
        """Write a logical message where nothing has come for long. A role that may not do that is left in peace."""
        now = time.monotonic()
        if self._quiet_since[0] != lsn:
            self._quiet_since = lsn, now
        elif self._heartbeat and now - self._quiet_since[1] >= self._heartbeat:
            self._quiet_since = lsn, now
            try:
                self._link.rows("SELECT pg_catalog.pg_logical_emit_message(false, 'pgrepl', '')")
            except PublisherError as refused:
                if refused.sqlstate != _MAY_NOT:
                    raise
                self._heartbeat = 0.0

    def wake(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.wake()

    def _stop_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()

    def occupy(self, slot: str, sender: WalSender, within: Session | None = None) -> None:
        """Check that the slot is free."""
        slots.check_free(self._link, slot)
        self._slot = slot
        self._options = sender.options
        self._two_phase = sender.options is not None and sender.options.two_phase
        self._link.rename(sender.application_name)

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        """End the reading, and send the last confirmed position. A slot that another worker reads from is taken from
        it."""
        if slot != self._slot:
            slots.end_reader(self._link, slot)
            return
        self._stop_streaming()
        self._stop_reading()
        self._options = None
        unconfirmed, self._unconfirmed = self._unconfirmed, 0
        if unconfirmed:
            slots.advance(self._link, slot, unconfirmed)

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """Confirm a position. The server reads its WAL again for each confirmation; so during a long reading positions
        are confirmed only now and then, as a walreceiver does, and the last one in a thread."""
        if self._stream is not None:
            self._stream.confirm(lsn)
            return
        reading, now = self._reading, time.monotonic()
        if reading is not None and lsn >= reading.wanted.end:
            self._stop_reading()
        elif reading is not None and reading.is_prefetched and now - self._confirmed_at < _STATUS_INTERVAL:
            self._unconfirmed = lsn
            return
        self._unconfirmed, self._confirmed_at = 0, now
        if reading is not None and reading.is_prefetched and self._reading is None:
            self._telling = JoinedThread(lambda: self._tell(slot, lsn), "pgrepl-confirm")
            self._telling.start()
        else:
            slots.advance(self._link, slot, lsn)

    def _tell(self, slot: str, lsn: int) -> None:
        """Confirm a position in a thread. If that fails, the next worker confirms it again."""
        with suppress(PublisherError):
            slots.advance(self._opened, slot, lsn)

    def _await_telling(self) -> None:
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.join()

    def interrupt(self) -> None:
        """End the connections' running or waiting commands with an error; called from another thread."""
        stream = self._stream
        if stream is not None:
            stream.interrupt()
        else:
            self._opened.interrupt()
        beside = self._beside
        if beside is not None:
            beside.interrupt()
        reading = self._reading
        if reading is not None:
            reading.interrupt()

    def lag(self, slot: str, *, tell: bool = False) -> SlotLag | None:
        return slots.lag(self._link, slot)

    def retained(self, slot: str) -> Retained | None:
        return retained(self._link, slot)

    def probe(self, slot: str) -> SlotProbe | None:
        return ServerProbe(self._link, slot)

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        return published.published_as(self._link, schema, name, publications)

    def settled(self, lsn: int) -> int:
        found = key_ranges.settled(self._link, lsn)
        self._target = max(self._target, found)
        return found

    def divide(
        self, schema: str, name: str, publications: Sequence[str], size: int
    ) -> tuple[tuple[tuple[str, int], ...], list[KeyRange]] | Undivided | None:
        link = self._link
        rows = published.published_rows(link, schema, name, publications)
        count = -(-published.size(link, rows) // size)
        if count < 2:
            return None
        key = key_ranges.key_of(link, rows)
        if isinstance(key, Undivided):
            return key
        only = "" if rows.kind == "p" else "ONLY "
        table = f"{only}{link.identifier(schema)}.{link.identifier(name)}"
        return tuple([(column.name, column.type) for column in key]), key_ranges.divide(link, table, rows, key, count)

    def copy(
        self, schema: str, name: str, publications: Sequence[str], wanted: WantedRanges | None = None
    ) -> TableCopy:
        """The rows are read while they are taken, in the snapshot of a temporary slot, which is dropped afterwards, or
        in one of their own."""
        if wanted is not None:
            return self._copy_ranges(schema, name, publications, wanted)
        link = self._link
        slot = _COPY_SLOT.format(link.backend)
        self._copying = link, slot, None
        lsn = slots.create_for_snapshot(link, slot, temporary=True)
        self._target = max(self._target, lsn)
        rows = published.published_rows(link, schema, name, publications)
        relation = tables.copied_relation(rows, schema, name)
        query = tables.selection(link, rows, schema, name)
        link.rows(f"{query} LIMIT 0")  # so that the server raises its errors before any row is read
        direct = ServerRows(link, rows, schema, name, self._data_path)
        self._copying = link, slot, direct
        may_be_binary = link.version >= published.UNITED
        copied = tables.copied_rows(link, query, len(rows.columns))
        return TableCopy(relation, lsn, copied, direct, direct, may_be_binary=may_be_binary)

    def _copy_ranges(self, schema: str, name: str, publications: Sequence[str], wanted: WantedRanges) -> TableCopy:
        link = self._link
        snapshot, lsn = key_ranges.take_snapshot(link, wanted.passed)
        self._copying = link, "", None
        rows = published.published_rows(link, schema, name, publications)
        key = key_ranges.key_of(link, rows)
        if isinstance(key, Undivided):
            raise PublisherError("55000", f'ERROR:  the key of table "{schema}.{name}" has been changed')
        conditions = [key_ranges.condition(link, key, each) for each in wanted.ranges]
        direct = ServerRows(link, rows, schema, name, self._data_path, conditions)
        self._copying = link, "", direct
        query = tables.selection(link, rows, schema, name)
        either = " OR ".join(f"({each})" for each in conditions)
        joined = f"{query} {'AND' if rows.condition is not None else 'WHERE'} ({either})"
        copied = tables.copied_rows(link, joined, len(rows.columns))
        relation = tables.copied_relation(rows, schema, name)
        may_be_binary = link.version >= published.UNITED
        return TableCopy(relation, lsn, copied, direct, direct, may_be_binary=may_be_binary, snapshot=snapshot)

    @property
    def copies_directly(self) -> bool:
        return True

    @property
    def readers(self) -> int:
        return readers()

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        link = self._link
        rows = published.published_rows(link, schema, name, publications)
        return int(link.value(tables.selection(link, rows, schema, name, ["pg_catalog.count(*)"])))

    def _end_copy(self) -> None:
        copying, self._copying = self._copying, None
        if copying is None:
            return
        link, slot, rows = copying
        if rows is not None:
            rows.close()
        if link.is_open:
            with suppress(PublisherError):
                link.rows("ROLLBACK")
                if slot:
                    slots.drop(link, slot)

    def close(self) -> None:
        self._stop_streaming()
        self._stop_reading()
        self._await_telling()
        self._end_copy()
        self._opened.close()
