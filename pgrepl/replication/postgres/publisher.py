"""A database of a server as a publisher."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from pgrepl.replication.postgres import changes, published, slots, tables
from pgrepl.replication.postgres.bulk_copy import ServerRows
from pgrepl.replication.postgres.link import Link
from pgrepl.replication.publisher import Backlog, Published, PublisherError, RemoteTable, SlotLag, TableCopy
from pgrepl.replication.senders import Sender
from pgrepl.replication.sending.wire import WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.bulk.batch import WireBatch

_COPY_SLOT = "pgrepl_copy_{}"  # by the process of the server that serves us


class PostgresPublisher:
    """An open connection."""

    def __init__(self, link: Link, data_path: str) -> None:
        """`data_path`: where Spark's machines find files."""
        self._opened = link
        self._data_path = data_path
        self._copying: tuple[str, ServerRows | None] | None = None  # a copy's slot, in whose transaction the link is

    @property
    def _link(self) -> Link:
        """The connection, free for something new."""
        self._end_copy()
        return self._opened

    @property
    def is_open(self) -> bool:
        return self._link.is_open

    @property
    def used_password(self) -> bool:
        return self._link.used_password

    @cached_property
    def system_identifier(self) -> str | None:
        return self._link.row("IDENTIFY_SYSTEM")[0]

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        return published.existing_publications(self._link, names)

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        return published.published_tables(self._link, names)

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        return published.publications_with_other_origins(self._link, names, known)

    def create_slot(self, name: str, *, two_phase: bool, failover: bool) -> int:
        return slots.create(self._link, name, two_phase=two_phase, failover=failover)

    def alter_slot(self, name: str, *, failover: bool) -> None:
        slots.alter(self._link, name, failover=failover)

    def drop_slot(self, name: str) -> None:
        slots.drop(self._link, name)

    def current_lsn(self) -> int:
        return slots.current_lsn(self._link)

    def start(self, slot: str, lsn: int) -> int:
        return slots.start(self._link, slot, lsn)

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
        if start < end:
            slots.bring_restart_forward(self._link, slot)
            yield from changes.transactions(
                self._link, slot, publications, start, end, local_only=local_only, limit=limit
            )

    def bulk(
        self, slot: str, publications: Sequence[str], start: int, end: int, *, local_only: bool, least: int
    ) -> tuple[WireBatch, int] | None:
        from pgrepl.replication.postgres.bulk_changes import bulk

        link = self._link
        slots.bring_restart_forward(link, slot)
        return bulk(link, slot, publications, start, end, local_only=local_only, least=least, data_path=self._data_path)

    @property
    def shares_catalog(self) -> bool:
        return False

    def occupy(self, slot: str, sender: Sender, within: Session | None = None) -> None:
        """A peek holds the slot only as long as it takes; that nobody else reads it shows in its position."""
        slots.check_free(self._link, slot)
        self._link.rows(f"SET application_name = {self._link.literal(sender.application_name)}")

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        """Nothing is held."""

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        slots.advance(self._link, slot, lsn)

    def lag(self, slot: str) -> SlotLag | None:
        return slots.lag(self._link, slot)

    def backlog(self, publications: Sequence[str], start: int, end: int, *, local_only: bool) -> Backlog | None:
        return None

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        return published.published_as(self._link, schema, name, publications)

    def copy(self, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
        """The rows are read while they are asked for, in the snapshot of a slot that lives as long."""
        link = self._link
        slot = _COPY_SLOT.format(link.backend)
        self._copying = slot, None
        lsn = slots.create_for_snapshot(link, slot, temporary=True)
        rows = published.published_rows(link, schema, name, publications)
        relation = tables.copied_relation(rows, schema, name)
        query = tables.selection(link, rows, schema, name)
        direct = ServerRows(link, rows, schema, name, self._data_path)
        self._copying = slot, direct
        return TableCopy(relation, lsn, tables.copied_rows(link, query, len(rows.columns)), direct, direct)

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
        if link.alive:
            with suppress(PublisherError):
                link.rows("ROLLBACK")
                slots.drop(link, slot)

    def close(self) -> None:
        self._end_copy()
        self._opened.close()
