"""The rows of a lake's tables as of an LSN, which the lake still knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation_parts import hides_rows, identity_key_columns
from pgrepl.ground.errors import Declined
from pgrepl.lake.read.local import pin
from pgrepl.replication.publisher.lake.copies import copyable
from pgrepl.replication.publisher.lake.copy import LakeRows, copied_rows, copy_plan, has_dimensions
from pgrepl.replication.publisher.tables import Comparing, Limits, TableAtLsn, TablesAtLsn
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.replication.wire.values import wire_style
from pgrepl.types.oids import TEXT
from pgrepl.types.text import writer

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.run_kernels import KernelSource
    from pgrepl.replication.publisher.lake.connection import LakeConnection, LakeSlots


class LakeComparing(Comparing):
    knows_past = True

    def __init__(self, connection: LakeConnection, slots: LakeSlots) -> None:
        self._connection = connection
        self._slots = slots

    def begin(self, lsn: int, limits: Limits, slot: str = "") -> LakeTables:
        if slot:
            lsn = self._slots.create(slot, two_phase=False, failover=False)
        return LakeTables(self._connection, lsn)


class LakeTables(TablesAtLsn):
    def __init__(self, connection: LakeConnection, lsn: int) -> None:
        self.lsn = lsn
        self._transaction = ExitStack()
        self._session = self._transaction.enter_context(connection.asked())
        pin(self._session, lsn - 1)

    def table(self, schema: str, name: str, publications: Sequence[str]) -> LakeTableAtLsn:
        with copyable():
            return LakeTableAtLsn(self._session, schema, name, publications, self.lsn - 1)

    def close(self) -> None:
        self._transaction.close()


class LakeTableAtLsn(TableAtLsn):
    """A table (TableAtLsn). `sent`: the relation with the types of its columns."""

    server = None

    def __init__(self, session: Session, schema: str, name: str, publications: Sequence[str], snapshot: int) -> None:
        self._session, self._snapshot = session, snapshot
        self._plan = plan = copy_plan(session, schema, name, publications)
        table, taken = plan.table, set(plan.columns)
        columns = tuple(
            [SentColumn(a.name, a.type, a.typmod, False, attnum=a.num) for a in table.columns if a.num in taken]
        )
        self.sent = SentRelation(table.oid, schema, name, table.replident, columns)
        texts = tuple([SentColumn(c.name, TEXT, -1, False, c.type, c.typmod) for c in columns])
        self.relation = SentRelation(table.oid, schema, name, table.replident, texts)
        key = identity_key_columns(session, table)
        self.key = tuple([column.name for column in table.columns if column.num in key])
        self._rows = LakeRows(session, plan, snapshot)
        self._hidden = hides_rows(session, table, session.role)
        self.estimate = self._rows.estimate

    def sources(self) -> list[KernelSource]:
        if self._hidden:
            return []
        if has_dimensions(self._session, self._plan.table):
            raise Declined("arrays of several dimensions")
        return self._rows.sources()

    def texts(self) -> Iterator[tuple[str | None, ...]]:
        if self._hidden:
            return
        style = wire_style(self._session)
        write = [writer(column.type) for column in self.sent.columns]
        for row in copied_rows(self._session, self._plan, self._snapshot):
            yield tuple([None if v is None else to_text(v, style) for to_text, v in zip(write, row, strict=True)])
