"""A database of a server as a publisher."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.replication.postgres import changes, published, slots, tables
from pgrepl.replication.postgres.link import Link
from pgrepl.replication.publisher import RemoteTable, SlotLag, TableCopy
from pgrepl.replication.senders import Sender
from pgrepl.replication.sending.wire import Row, WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.senders import Sender

_COPY_SLOT = "pgrepl_copy_{}"  # by the process of the server that serves us


class PostgresPublisher:
    """An open connection."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def used_password(self) -> bool:
        return self._link.used_password

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

    def copy(self, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
        """The rows are read while they are asked for, in the snapshot of a slot that lives as long."""
        link = self._link
        slot = _COPY_SLOT.format(link.backend)
        lsn = slots.create_for_snapshot(link, slot, temporary=True)
        rows = published.published_rows(link, schema, name, publications)
        relation = tables.copied_relation(rows, schema, name)
        query = tables.selection(link, rows, schema, name)
        return TableCopy(relation, lsn, self._rows(slot, query, len(rows.columns)))

    def _rows(self, slot: str, query: str, width: int) -> Iterator[Row]:
        link = self._link
        yield from tables.copied_rows(link, query, width)
        link.rows("COMMIT")
        slots.drop(link, slot)

    def close(self) -> None:
        self._link.close()
