"""The publications of a database of an instance, and their tables, as they are now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import has_table_privilege
from pgrepl.catalog.facts.publication import permanent_sequences, published_tables
from pgrepl.catalog.facts.publication import publications as known_publications
from pgrepl.catalog.facts.relation import find_relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import inheritors, partition_ancestors
from pgrepl.catalog.facts.sequences import definition_of, sequence_row
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.replication.publisher.lake.connection import LakeConnection
from pgrepl.replication.publisher.lake.copies import copyable
from pgrepl.replication.publisher.protocol import Published, PublisherCatalog, RemoteSequence, RemoteTable
from pgrepl.replication.publisher.tables import RemoteAttribute, RemoteDefinition
from pgrepl.replication.wire.messages import OPERATIONS
from pgrepl.sql.nodes.expr import RangeVar

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.definitions import ToldTable


class LakeCatalog(PublisherCatalog):
    def __init__(self, connection: LakeConnection) -> None:
        self._connection = connection

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        with self._connection.asked() as session:
            return {row.pubname for row in known_publications(session)}.intersection(names)

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        with self._connection.asked() as session:
            there = [row.pubname for row in known_publications(session) if row.pubname in names]
            remote_tables: dict[RemoteTable, None] = {}
            for table in published_tables(session, there):
                published = relation(session, table.relid)
                remote_tables[RemoteTable(published.schema, published.name, table.attrs)] = None
            return list(remote_tables)

    @property
    def has_sequences(self) -> bool:
        return True

    def published_sequences(self, names: Sequence[str]) -> list[tuple[str, str]]:
        with self._connection.asked() as session:
            if not any(row.puballsequences for row in known_publications(session) if row.pubname in names):
                return []
            sequences = [relation(session, oid) for oid in permanent_sequences(session)]
            return sorted((sequence.schema, sequence.name) for sequence in sequences)

    def sequences(self, names: Sequence[tuple[str, str]]) -> list[RemoteSequence]:
        with self._connection.asked() as session:
            sequences = [_sequence(session, schema, name) for schema, name in names]
            return [sequence for sequence in sequences if sequence is not None]

    def sequences_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        with self._connection.asked() as session:
            written = [relation(session, oid) for oid in _subscribed_relations(session)]
            if all(table.kind != "S" or (table.schema, table.name) in known for table in written):
                return []
            rows_of_all = [row.pubname for row in known_publications(session) if row.puballsequences]
            return sorted(set(rows_of_all).intersection(names))

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        from pgrepl.expr.print.deparse import expression_text
        from pgrepl.replication.publisher.plan import send_plan

        with self._connection.asked() as session:
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

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        from pgrepl.replication.publisher.lake.schema import attributes

        with self._connection.asked() as session:
            return attributes(session.at(lsn), relid)

    def older_value(self, relid: int, attnum: int, lsn: int) -> str | None:
        from pgrepl.replication.publisher.lake.schema import older_value

        with self._connection.asked() as session:
            return older_value(session, relid, attnum, lsn)

    def definitions(self, schema: str, name: str, publications: Sequence[str]) -> list[RemoteDefinition]:
        from pgrepl.replication.publisher.lake.schema import definitions

        with copyable(), self._connection.asked() as session:
            return definitions(session, schema, name, publications)

    def told_table(self, relid: int, lsn: int | None, publications: Sequence[str]) -> ToldTable | None:
        from pgrepl.replication.publisher.lake.definitions import told_table

        with self._connection.asked() as session:
            return told_table(session if lsn is None else session.at(lsn), relid, publications)

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        with self._connection.asked() as session:
            written = _subscribed_relations(session)
            publications = []
            for publication in sorted(row.pubname for row in known_publications(session) if row.pubname in names):
                for table in published_tables(session, [publication]):
                    published = relation(session, table.relid)
                    if table.relid in written and (published.schema, published.name) not in known:
                        publications.append(publication)
                        break
            return publications


def _sequence(session: Session, schema: str, name: str) -> RemoteSequence | None:
    sequence = find_relation(session, RangeVar(name, schema), missing_ok=True)
    row = None if sequence is None or sequence.kind != "S" else sequence_row(session, sequence.oid)
    if sequence is None or row is None:
        return None
    readable = has_table_privilege(session, sequence, "SELECT")
    return RemoteSequence(
        schema,
        name,
        (row.last_value, bool(row.is_called)) if readable else None,
        current_lsn(session),
        definition_of(row),
    )


def _subscribed_relations(session: Session) -> set[int]:
    """The tables and sequences of this database's subscriptions, with their partitions and ancestors."""
    oids: set[int] = set()
    for subscription in rows(session, tables.pg_subscription, subdbid=session.database_oid):
        for row in rows(session, tables.pg_subscription_rel, srsubid=subscription.oid):
            oids.add(row.srrelid)
            target = relation_or_none(session, row.srrelid)
            if target is not None and target.is_partition:
                oids.update(partition_ancestors(session, row.srrelid))
            if target is not None and target.kind == "p":
                oids.update(inheritors(session, row.srrelid))
    return oids
