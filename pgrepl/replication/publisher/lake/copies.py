"""The copies of a lake's tables: their rows, and the number of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from pgrepl.catalog.facts.relation import find_relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.replication.publisher.lake.connection import LakeConnection
from pgrepl.replication.publisher.protocol import TableCopies
from pgrepl.replication.publisher.tables import TableCopy
from pgrepl.replication.wire.messages import Row
from pgrepl.sql.nodes.expr import RangeVar


class LakeCopies(TableCopies):
    def __init__(self, connection: LakeConnection) -> None:
        self._connection = connection

    def copy(self, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
        from pgrepl.replication.publisher.lake.copy import published_copy

        connection = self._connection
        with copyable(), ExitStack() as stack:
            copied = published_copy(stack.enter_context(connection.asked()), schema, name, publications)
            connection.flush()
            connection.copying = transaction = stack.pop_all()
        return replace(copied, rows=self._taken(copied.rows, transaction))

    def _taken(self, rows: Iterator[Row], transaction: ExitStack) -> Iterator[Row]:
        with transaction:
            yield from rows
        self._connection.copying = None

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        from pgrepl.replication.publisher.lake.copy import published_count

        with copyable(), self._connection.asked() as session:
            return published_count(session, schema, name, publications)

    def rows_in(self, names: Iterable[tuple[str, str]]) -> int:
        """Reads no file."""
        from pgrepl.lake.read.files import estimate
        from pgrepl.lake.table import lake_table

        count = 0
        with self._connection.asked() as session:
            for schema, name in names:
                table = find_relation(session, RangeVar(name, schema), missing_ok=True)
                leaves = [] if table is None else inheritors(session, table.oid) if table.kind == "p" else [table.oid]
                for leaf in leaves:
                    if relation(session, leaf).kind == "r":
                        count += estimate(session, lake_table(session, leaf))
        return count


@contextmanager
def copyable() -> Iterator[None]:
    """A subscriber raises what is wrong with a table for itself."""
    from pgrepl.replication.publisher.lake.copy import Uncopyable

    try:
        yield
    except Uncopyable as wrong:
        raise wrong.error from None
