"""The columns that a subscribed table had at its publisher when it was followed last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog import store, tables
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.wire.messages import SentRelation


@frozen
class KnownColumn:
    num: int  # 0: not known
    name: str
    type: int
    typmod: int
    here: str  # the type that takes its values here
    is_sent: bool  # not sent: it has left the publications' column lists


@frozen
class KnownTable:
    """`is_settled`: the table here has these columns. Before that they are only known."""

    relid: int  # the publisher's; 0: not known
    columns: tuple[KnownColumn, ...]
    is_settled: bool

    def is_as(self, sent: SentRelation) -> bool:
        """Is the table here as the stream describes it?"""
        if not self.is_settled or self.relid != sent.relid:
            return False
        ours = [column for column in self.columns if column.is_sent]
        return len(ours) == len(sent.columns) and all(
            (one.name, one.type, one.typmod) == (other.name, other.sent_as, other.sent_typmod)
            and (one.num == other.attnum or not other.attnum)
            for one, other in zip(ours, sent.columns, strict=True)
        )


def known_table(session: Session, subid: int, relid: int) -> KnownTable | None:
    """The table as it is known at its publisher; None: nothing is known yet."""
    row = store.one(session, tables.pgrepl_subscription_schema, srsubid=subid, srrelid=relid)
    if row is None:
        return None
    columns = tuple([KnownColumn(*values) for values in row.remote_columns])
    return KnownTable(row.remote_relid, columns, bool(row.is_settled))


def remember(session: Session, subid: int, relid: int, known: KnownTable) -> None:
    store.delete(session, tables.pgrepl_subscription_schema, srsubid=subid, srrelid=relid)
    store.insert(
        session,
        tables.pgrepl_subscription_schema,
        srsubid=subid,
        srrelid=relid,
        remote_relid=known.relid,
        remote_columns=_stored(known.columns),
        is_settled=known.is_settled,
    )


def _stored(columns: Sequence[KnownColumn]) -> list[list[object]]:
    return [[each.num, each.name, each.type, each.typmod, each.here, each.is_sent] for each in columns]
