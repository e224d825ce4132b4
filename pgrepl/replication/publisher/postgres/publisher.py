"""A database of a PostgreSQL server as a publisher."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from pgrepl.interrupts import JoinedThread
from pgrepl.replication.publisher.definition import RemoteAttribute, RemoteDefinition
from pgrepl.replication.publisher.postgres import published, slots, tables
from pgrepl.replication.publisher.postgres import schema as server_schema
from pgrepl.replication.publisher.postgres.copy_columns import ServerRows
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.prefetch import ReadRequest
from pgrepl.replication.publisher.postgres.reading import Reading
from pgrepl.replication.publisher.protocol import Published, Publisher, PublisherError, RemoteTable, SlotLag, TableCopy
from pgrepl.replication.publisher.senders import WalSender
from pgrepl.replication.wire.messages import WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.wire.batch import WireBatch

_STATUS_INTERVAL = 30.0  # seconds between two confirmations while much is read
_LOG_OF_CHANGE = 30  # bytes of log that a change takes at least
_COPY_SLOT = "pgrepl_copy_{}"  # name of a copy's slot, by the PID of the walsender


class PostgresPublisher(Publisher):
    """An open connection to a server."""

    def __init__(self, link: Link, data_path: str) -> None:
        """`data_path`: where files for Spark are written."""
        self._opened = link
        self._data_path = data_path
        self._copying: tuple[str, ServerRows | None] | None = None  # a copy's slot, in whose transaction the link is
        self._slot = ""  # the slot that the worker reads from
        self._two_phase = False  # the slot sends prepared transactions at PREPARE
        self._reading: Reading | None = None
        self._telling: JoinedThread | None = None  # confirms a position to the server, over `_opened`
        self._unconfirmed = 0  # the position that is committed here, if the server does not know it yet
        self._confirmed_at = 0.0

    @property
    def _link(self) -> Link:
        """The connection, with nothing in progress."""
        self._await_telling()
        self._end_copy()
        return self._opened

    @property
    def is_open(self) -> bool:
        return self._link.is_open

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
        end = slots.current_lsn(self._link)
        held_back = slots.sendable_lsn(self._link, self._slot) if self._slot else None
        return end if held_back is None else min(end, held_back)

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        prefetched = self._reading is not None and self._reading.is_prefetched
        begin = slots.start(self._link, slot, lsn, tell=not prefetched)
        if two_phase and not self._two_phase and slots.can_two_phase(self._link):
            slots.enable_two_phase(self._link, slot)
            self._two_phase = True
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
        reading = self._read(
            ReadRequest(slot, tuple(publications), end, local_only, self._two_phase), start, as_columns=False
        )
        while (piece := reading.piece(start)) is not None:
            yield from piece.one_by_one(start, end)
            start = piece.reached

    def batch(
        self, slot: str, publications: Sequence[str], start: int, end: int, *, local_only: bool, least: int
    ) -> tuple[WireBatch, int] | None:
        if end - start < least * _LOG_OF_CHANGE:
            return None
        reading = self._read(
            ReadRequest(slot, tuple(publications), end, local_only, self._two_phase), start, as_columns=True
        )
        piece = reading.piece(start)
        return None if piece is None else piece.batch(start, end, least, self._data_path)

    def _read(self, wanted: ReadRequest, start: int, *, as_columns: bool) -> Reading:
        """The present reading, if it covers the request; else a new one."""
        link = self._link
        if self._reading is not None and self._reading.covers(wanted, start):
            return self._reading
        self._stop_reading()
        slots.bring_restart_forward(link, wanted.slot)
        self._confirmed_at = time.monotonic()
        self._reading = Reading(link, wanted, start, self._data_path, as_columns=as_columns)
        return self._reading

    def _stop_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()

    def occupy(self, slot: str, sender: WalSender, within: Session | None = None) -> None:
        """Check that the slot is free. A peek holds it only while it runs; another reader is noticed later, because it
        moves the slot."""
        slots.check_free(self._link, slot)
        self._slot = slot
        self._link.rows(f"SET application_name = {self._link.literal(sender.application_name)}")

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        """End the reading, and send the last confirmed position."""
        self._stop_reading()
        unconfirmed, self._unconfirmed = self._unconfirmed, 0
        if unconfirmed:
            slots.advance(self._link, slot, unconfirmed)

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """Confirm a position. The server reads its WAL again for each confirmation; so during a long reading positions
        are confirmed only now and then, as a walreceiver does, and the last one in a thread."""
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
        self._opened.interrupt()
        reading = self._reading
        if reading is not None:
            reading.interrupt()

    def lag(self, slot: str, *, tell: bool = False) -> SlotLag | None:
        return slots.lag(self._link, slot)

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        return published.published_as(self._link, schema, name, publications)

    def copy(self, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
        """The rows are read while they are taken, in the snapshot of a temporary slot, which is dropped afterwards."""
        link = self._link
        slot = _COPY_SLOT.format(link.backend)
        self._copying = slot, None
        lsn = slots.create_for_snapshot(link, slot, temporary=True)
        rows = published.published_rows(link, schema, name, publications)
        relation = tables.copied_relation(rows, schema, name)
        query = tables.selection(link, rows, schema, name)
        link.rows(f"{query} LIMIT 0")  # so that the server raises its errors before any row is read
        direct = ServerRows(link, rows, schema, name, self._data_path)
        self._copying = slot, direct
        may_be_binary = link.version >= published.UNITED
        copied = tables.copied_rows(link, query, len(rows.columns))
        return TableCopy(relation, lsn, copied, direct, direct, may_be_binary=may_be_binary)

    @property
    def copies_directly(self) -> bool:
        return True

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        link = self._link
        rows = published.published_rows(link, schema, name, publications)
        return int(link.value(tables.selection(link, rows, schema, name, ["pg_catalog.count(*)"])))

    def _end_copy(self) -> None:
        copying, self._copying = self._copying, None
        if copying is None:
            return
        slot, rows = copying
        if rows is not None:
            rows.close()
        link = self._opened
        if link.is_open:
            with suppress(PublisherError):
                link.rows("ROLLBACK")
                slots.drop(link, slot)

    def close(self) -> None:
        self._stop_reading()
        self._await_telling()
        self._end_copy()
        self._opened.close()
