"""A database of an instance as a publisher: of this instance, or of one in another folder.

In the same instance everything happens in the caller's transaction, seen from the other database; another instance has
its own catalog, and each operation is a transaction there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.inheritance import inheritors, partition_ancestors
from pgrepl.catalog.publication import publications, published_tables
from pgrepl.catalog.relation import relation, relation_or_none
from pgrepl.catalog.store import rows
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.replication import slots
from pgrepl.replication.publisher import PublisherError, RemoteTable, TableCopy, refused, server_text
from pgrepl.replication.sending.wire import WireTransaction
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class LakePublisher:
    """`session` is in the publishing database, as the role of the connection."""

    def __init__(self, session: Session, *, used_password: bool, own_instance: bool) -> None:
        self._session = session
        self._used_password = used_password
        self._own_instance = own_instance

    @property
    def used_password(self) -> bool:
        return self._used_password

    @contextmanager
    def _asked(self) -> Iterator[Session]:
        try:
            with reading(self._session):
                yield self._session
        except PgError as error:
            raise refused(error) from error

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
        """What subscriptions of this database write to, with the partitions above and below."""
        found: set[int] = set()
        for subscription in rows(session, tables.pg_subscription, subdbid=session.database.oid):
            for row in rows(session, tables.pg_subscription_rel, srsubid=subscription.oid):
                found.add(row.srrelid)
                target = relation_or_none(session, row.srrelid)
                if target is not None and target.is_partition:
                    found.update(partition_ancestors(session, row.srrelid))
                if target is not None and target.kind == "p":
                    found.update(inheritors(session, row.srrelid))
        return found

    def create_slot(self, name: str, *, two_phase: bool, failover: bool) -> int:
        with self._asked() as session:
            slots.check_decoding_requirements(session)
            made = slots.create_slot(session, name, two_phase=two_phase, failover=failover)
            return int(made.confirmed_flush_lsn)

    def alter_slot(self, name: str, *, failover: bool) -> None:
        with self._asked() as session:
            slots.alter_slot(session, name, failover=failover)

    def drop_slot(self, name: str) -> None:
        with self._asked() as session:
            slots.drop_slot(session, name)

    def current_lsn(self) -> int:
        with self._asked() as session:
            return slots.current_lsn(session)

    def start(self, slot: str, lsn: int) -> int:
        with self._asked() as session:
            row = slots.acquire(session, slot)
            slots.check_usable(row)
            return max(int(row.confirmed_flush_lsn), lsn)

    def transactions(
        self, slot: str, publications: Sequence[str], start: int, end: int, *, local_only: bool
    ) -> Iterator[WireTransaction]:
        from pgrepl.replication.sending.stream import ChangeError, Stream

        with self._asked() as session:
            try:
                yield from Stream(session, publications, local_only=local_only).transactions(start, end)
            except ChangeError as failure:
                context = (
                    f'slot "{slot}", output plugin "pgoutput", in the change callback, '
                    f"associated LSN {lsn_text(failure.lsn)}"
                )
                text = f"{server_text(failure.error)}\nCONTEXT:  {context}"
                raise PublisherError(failure.error.sqlstate, text) from failure.error

    def confirm(self, slot: str, lsn: int) -> None:
        with self._asked() as session:
            slots.confirm(session, slot, lsn)

    def copy(self, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
        from pgrepl.replication.sending.copy import published_copy

        with self._asked() as session:
            return published_copy(session, schema, name, publications)

    def close(self) -> None:
        if not self._own_instance:
            self._session.close()
            self._session.catalog.close()
