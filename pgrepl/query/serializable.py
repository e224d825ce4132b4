"""The reads of a SERIALIZABLE transaction: it may write only if no other transaction has changed rows that it has read
since its snapshot.

PostgreSQL fails if such dependencies form a dangerous structure; here a single one is enough. If a table is read by
values of a unique column, only the rows with these values count, otherwise the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import relation
from pgrepl.errors import PgError
from pgrepl.rows.members import Member

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.ctid import RowPlace

_MOST_KEYS = 1000


class Reads:
    """The reads of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables: set[int] = set()
        self._keys: dict[int, set[tuple[int, Any]]] = {}  # by table: columns and values

    def add(self, member: Member, bounds: Sequence[Bound]) -> None:
        oid = member.relation.oid
        if oid in self._tables:
            return
        unique = _unique_columns(self._session, oid)
        for bound in member.bounds(bounds):
            known = self._keys.setdefault(oid, set())
            values = bound.counted
            if bound.attnum in unique and values is not None and len(known) + len(values) <= _MOST_KEYS:
                known.update((bound.attnum, value) for value in values if value is not None)
                return
        self._tables.add(oid)

    def check(self, snapshot: int) -> None:
        """Check before the commit, holding the catalog's write lock."""
        from pgrepl.lake.prepared import tables_of_serializable
        from pgrepl.lake.table import lake_table

        read = {*self._tables, *self._keys}
        if not read.isdisjoint(tables_of_serializable(self._session)):
            raise _dangerous()  # a prepared transaction cannot fail any more
        changed = self._changed(snapshot)
        for oid in read:
            table = lake_table(self._session, oid).table_id
            if table in changed and (oid in self._tables or self._is_changed(oid, snapshot)):
                raise _dangerous()

    def _changed(self, snapshot: int) -> set[int]:
        """The tables whose rows other transactions have changed since the snapshot."""
        from pgrepl.lake.history import ROW_CHANGES, changes_after

        return {table for word, table in changes_after(self._session, snapshot) if word in ROW_CHANGES}

    def _is_changed(self, oid: int, snapshot: int) -> bool:
        from pgrepl.lake.files import last_snapshot
        from pgrepl.lake.overlay import own_rows
        from pgrepl.lake.table import lake_table
        from pgrepl.lake.versions import begun_after

        session = self._session
        table = lake_table(session, oid)
        mine = own_rows(session, table.table_id)
        for attnum, value in self._keys[oid]:
            before, now = (
                {row: place for row, place in self._places(oid, attnum, value, at).items() if row not in mine}
                for at in (snapshot, last_snapshot(session))
            )
            if before != now or begun_after(session, table, list(now.values()), snapshot):
                return True
        return False

    def _places(self, oid: int, attnum: int, value: Any, snapshot: int) -> dict[int, RowPlace]:
        from pgrepl.lake import local
        from pgrepl.lake.table import lake_table

        table = lake_table(self._session, oid)
        found = local.lookup(self._session, table, [attnum], [(value,)], snapshot=snapshot)
        return {row[-1].row: row[-1] for _, row in found}


def _dangerous() -> PgError:
    return PgError(
        "40001",
        "could not serialize access due to read/write dependencies among transactions",
        detail="Reason code: Canceled on identification as a pivot, during commit attempt.",
        hint="The transaction might succeed if retried.",
    )


def _unique_columns(session: Session, oid: int) -> frozenset[int]:
    """The columns with a unique index of their own."""
    if not relation(session, oid).has_index:
        return frozenset()
    from pgrepl.expr.index_info import index_infos

    infos = index_infos(session, oid)
    return frozenset(
        info.columns[0]
        for info in infos
        if info.unique and info.key_count == 1 and not info.exprs and info.predicate is None
    )


def note_reads(session: Session, scanned: Sequence[Member], bounds: Sequence[Bound]) -> None:
    """Note the tables that a query is going to read."""
    transaction = session.transaction
    if not session.in_block or session.settings.get("transaction_isolation") != "serializable":
        return
    if transaction.reads is None:
        transaction.reads = Reads(session)
    reads = transaction.reads
    assert isinstance(reads, Reads)
    for member in scanned:
        reads.add(member, bounds)
