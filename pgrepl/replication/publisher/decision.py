"""What of a change is put on the wire, as pgoutput_change and pgoutput_truncate decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgrepl.expr.context import Context
from pgrepl.replication.publisher.filters import any_true
from pgrepl.replication.publisher.plan import SendPlan
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    TRUNCATE,
    UPDATE,
    Message,
    Row,
    SentColumn,
    SentRelation,
    TruncateMessage,
)
from pgrepl.rows.routing import converter


class Sender:
    """The messages of one table's changes under one plan."""

    def __init__(self, plan: SendPlan) -> None:
        self.plan = plan
        self.relation = describe(plan)
        self._numbers = [plan.from_attnums[column.num - 1] for column in plan.columns]
        self._key = plan.identity
        context = Context()
        self._filters = {operation: any_true(exprs, context) for operation, exprs in plan.filters.items()}
        self._as_sent_table = converter(plan.table, plan.sent_as)

    def insert(self, new: Row) -> Message | None:
        if INSERT not in self.plan.operations or not self._passes(INSERT, new):
            return None
        return Message(INSERT, self.relation, new=self._sent(new))

    def delete(self, old: Row) -> Message | None:
        if DELETE not in self.plan.operations:
            return None
        known = self._old_image(old)
        if known is None or not self._passes(DELETE, known):
            return None
        return self._delete(known)

    def update(self, old: Row, new: Row) -> Message | None:
        if UPDATE not in self.plan.operations:
            return None
        known = self._old_image(old) if self.plan.whole_old_rows or self._key_changed(old, new) else None
        if UPDATE not in self._filters:
            return self._update(known, new)
        if known is None:
            return self._update(None, new) if self._passes(UPDATE, new) else None
        before, after = self._passes(UPDATE, known), self._passes(UPDATE, new)
        if before and after:
            return self._update(known, new)
        if after:
            return Message(INSERT, self.relation, new=self._sent(new))
        return self._delete(known) if before else None

    def _update(self, old: Row | None, new: Row) -> Message:
        known = None if old is None else self._sent(old)
        return Message(UPDATE, self.relation, known, self._sent(new), whole_old=self.plan.whole_old_rows)

    def _delete(self, old: Row) -> Message:
        return Message(DELETE, self.relation, self._sent(old), whole_old=self.plan.whole_old_rows)

    def _old_image(self, old: Row) -> Row | None:
        """What the publisher's log knows of an old row (ExtractReplicaIdentity)."""
        if self.plan.whole_old_rows:
            return old
        if not self._key:
            return None
        return tuple([value if number in self._key else None for number, value in enumerate(old, 1)])

    def _key_changed(self, old: Row, new: Row) -> bool:
        return any(old[number - 1] != new[number - 1] for number in self._key)

    def _passes(self, operation: str, row: Row) -> bool:
        test = self._filters.get(operation)
        return test is None or test(self._as_sent_table(row))

    def _sent(self, row: Row) -> Row:
        return tuple([row[number - 1] if number else None for number in self._numbers])


def describe(plan: SendPlan) -> SentRelation:
    """As logicalrep_write_rel: the table's columns under the name it is sent as."""
    table, sent_as = plan.table, plan.sent_as
    columns = []
    for column in plan.columns:
        is_key = plan.whole_old_rows or plan.from_attnums[column.num - 1] in plan.identity
        columns.append(SentColumn(column.name, column.type, column.typmod, is_key))
    return SentRelation(sent_as.oid, sent_as.schema, sent_as.name, table.replident, tuple(columns))


def truncated(plans: Iterable[SendPlan | None], *, cascade: bool, restart_identity: bool) -> TruncateMessage | None:
    """The tables of one TRUNCATE that are sent, or None (pgoutput_truncate)."""
    sent = tuple(_truncated_relations(plans))
    return TruncateMessage(sent, cascade, restart_identity) if sent else None


def _truncated_relations(plans: Iterable[SendPlan | None]) -> Iterator[SentRelation]:
    for plan in plans:
        if plan is None or TRUNCATE not in plan.operations:
            continue
        if plan.table.is_partition and plan.sent_as.oid != plan.table.oid:
            continue  # the root is sent, or nothing
        yield describe(plan)
