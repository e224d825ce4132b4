"""The role that applies changes, the tables that a TRUNCATE empties, and triggers that are enabled for replicas.

Transactions that fire triggers are applied with the write lock, change by change. What is applied in memory is
written before a trigger's function reads or writes the same tables (Session.settle).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import check_table_privilege
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors, is_active
from pgrepl.catalog.facts.roles import member_can_set_role, role_name
from pgrepl.catalog.facts.sequences import check_sequences_owner
from pgrepl.catalog.facts.triggers import INSERT, constraint_triggers, is_enabled, triggers_of
from pgrepl.catalog.session.context import RESTRICTED_OPERATION
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.apply.target import target_or_none
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage, WireTransaction
from pgrepl.rows.in_use import refuse_referenced
from pgrepl.rows.triggers import RelationTriggers, enabled_triggers, relation_triggers

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Unsettled
    from pgrepl.catalog.store import tables

_AS_IT_IS = nullcontext()


def acting_for(session: Session, subscription: tables.pg_subscription, table: Relation) -> AbstractContextManager[None]:
    """Act as the role that applies changes to the table. The subscription's owner must be able to SET ROLE to the
    table's owner (SwitchToUntrustedUser)."""
    if subscription.subrunasowner or session.role == table.owner:
        return _AS_IT_IS
    if not member_can_set_role(session, session.role, table.owner):
        ours, theirs = role_name(session, session.role), role_name(session, table.owner)
        raise PgError("42501", f'role "{ours}" cannot SET ROLE to "{theirs}"')
    return session.acting_as(table.owner, RESTRICTED_OPERATION)


def check_target_privilege(session: Session, table: Relation, privilege: str) -> None:
    """Check the current role's privilege, and that row-level security is not active (TargetPrivilegesCheck)."""
    check_table_privilege(session, table, privilege)
    if is_active(session, table):
        raise PgError(
            "0A000",
            f'user "{role_name(session, session.role)}" cannot replicate into relation with row-level security '
            f'enabled: "{table.name}"',
        )


def emptied_by(session: Session, targets: Iterable[Relation], *, restart_identity: bool) -> list[Relation]:
    """These tables with their partitions, each once, after all checks. It never cascades further than at the
    publisher."""
    emptied: dict[int, Relation] = {}
    for target in targets:
        for oid in inheritors(session, target.oid) if target.kind == "p" else [target.oid]:
            if oid not in emptied:
                table = relation(session, oid)
                check_target_privilege(session, table, "TRUNCATE")
                emptied[oid] = table
    refuse_referenced(session, list(emptied))
    if restart_identity:
        check_sequences_owner(session, list(emptied))
    return list(emptied.values())


# --- triggers ---------------------------------------------------------------------------------------------------------


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
    tables = inheritors(session, relid) if has_others else [relid]
    return any(enabled_triggers(session, oid) or _checks_keys(session, oid) for oid in tables)


def applied_triggers(session: Session, table: Relation) -> RelationTriggers | None:
    """The triggers that fire for replicated rows of a table. None: there are none, also of foreign keys."""
    found = relation_triggers(session, table)
    if found is None and _checks_keys(session, table.oid):
        found = RelationTriggers(session, table, ())
    return found


def _checks_keys(session: Session, relid: int) -> bool:
    """Whether triggers of a table's constraints are enabled for replicas."""
    return any(is_enabled(trigger, "replica") for trigger in constraint_triggers(session, relid))


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
