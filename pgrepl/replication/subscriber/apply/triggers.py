"""Triggers that are enabled for replicas, where transactions are applied: which tables have some, and the run of them.

Such a transaction is applied with the write lock, change by change, each with its triggers. What is applied to rows in
memory is written before a function that a trigger calls reads or writes the same tables (Session.settle).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.triggers import INSERT, constraint_triggers, is_enabled, triggers_of
from pgrepl.replication.subscriber.apply.target import target_or_none
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage, WireTransaction
from pgrepl.rows.triggers import enabled_triggers

if TYPE_CHECKING:
    from pgrepl.catalog.session import Unsettled


@dataclass(slots=True)
class AppliedOrigin:
    """The origin of what triggers write while a transaction is applied. Applying itself moves its position."""

    name: str
    remote_lsn: int

    def advance(self, session: Session) -> None:
        pass


@contextmanager
def calling(session: Session, player: Unsettled, origin: AppliedOrigin) -> Iterator[None]:
    """Triggers may be called inside."""
    before, session.origin = session.origin, origin
    session.unsettled.append(player)
    try:
        yield
    finally:
        session.unsettled.remove(player)
        session.touched.clear()
        session.origin = before


class TriggeredTables:
    """The tables of a batch that have triggers which fire here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[SentRelation, bool] = {}

    def first_run(self, transactions: Sequence[WireTransaction]) -> tuple[int, int] | None:
        """The first run of transactions that change them: its start and its end. Transactions that are applied with the
        lock in any case are not looked at."""
        concerned = (not each.is_large and self.concern(each) for each in transactions)
        start = next((number for number, found in enumerate(concerned) if found), None)
        if start is None:
            return None
        return start, next(
            (number for number, found in enumerate(concerned, start + 1) if not found), len(transactions)
        )

    def concern(self, transaction: WireTransaction) -> bool:
        return any(self._is_one(sent) for sent in _relations(transaction))

    def _is_one(self, sent: SentRelation) -> bool:
        known = self._known.get(sent)
        if known is None:
            target = target_or_none(self._session, sent)
            known = self._known[sent] = target is not None and has_triggers(self._session, target.oid)
        return known


def has_triggers(session: Session, relid: int) -> bool:
    """Whether a table, or one below it, has triggers that fire here."""
    table = relation(session, relid)
    has_others = table.kind == "p" or table.has_subclass
    return any(enabled_triggers(session, oid) for oid in (inheritors(session, relid) if has_others else [relid]))


def fire_in_pieces(session: Session, relid: int) -> bool:
    """Whether the triggers of a table that fire here when rows are inserted do so for one row after the other, however
    many come in a transaction: those of statements, transition tables, and what is checked when all rows are there are
    asked about the whole copy."""
    role = session.settings.get("session_replication_role")
    return not any(
        is_enabled(trigger, role)
        and trigger.type & INSERT
        and (trigger.constraint or not trigger.is_row or trigger.new_table is not None)
        for trigger in [*triggers_of(session, relid), *constraint_triggers(session, relid)]
    )


def _relations(transaction: WireTransaction) -> Iterable[SentRelation]:
    for message in transaction.messages:
        if isinstance(message, TruncateMessage):
            yield from message.relations
        else:
            yield message.relation
