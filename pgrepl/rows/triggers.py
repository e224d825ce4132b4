"""The triggers of a relation, ready to be called: which fire for an event, whether WHEN lets them, and their calls
(TriggerData).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import triggers
from pgrepl.catalog.facts.relation import Relation, TransitionTable, relation
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.catalog.facts.triggers import Trigger, is_enabled, triggers_of
from pgrepl.expr import stored
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMN_NAMES, TABLEOID
from pgrepl.expr.catalog_trees import default_of
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_queries import column_of, whole_row
from pgrepl.expr.rewrite.virtual import of_rows
from pgrepl.expr.tree import Const, Expr, Var
from pgrepl.expr.walk import rewrite, var_attnums
from pgrepl.ground.errors import Declined, PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.ground.memory import TriggerCalls
from pgrepl.rows.changes import Row, next_snapshot
from pgrepl.rows.checks_table import TableChecks
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


class TriggerEvent(Enum):
    """TG_OP."""

    __hash__ = object.__hash__  # a member is one object, and is looked up for each row

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"


class TriggerWhen(Enum):
    """TG_WHEN."""

    __hash__ = object.__hash__

    BEFORE = "BEFORE"
    AFTER = "AFTER"
    INSTEAD_OF = "INSTEAD OF"


class TriggerLevel(Enum):
    """TG_LEVEL."""

    __hash__ = object.__hash__

    ROW = "ROW"
    STATEMENT = "STATEMENT"


@frozen
class TriggerData:
    """`relation` is the table or view on which the trigger fires: of a partitioned table the leaf, in whose layout the
    rows are (column n stands at n - 1). A statement's trigger has no rows, an INSERT no old one, a DELETE no new one.
    In BEFORE triggers the generated columns of `new` are NULL.

    A language's `call_trigger` returns the row that a BEFORE or INSTEAD OF row trigger gives back, in the same layout;
    of a DELETE any row; None: nothing is to be done with the row. What other triggers return is not looked at.
    """

    relation: Relation
    name: str
    event: TriggerEvent
    when: TriggerWhen
    level: TriggerLevel
    args: tuple[str, ...] = ()
    old: Row | None = None
    new: Row | None = None
    old_table: TransitionTable | None = None
    new_table: TransitionTable | None = None


Key = tuple[TriggerWhen, TriggerLevel, TriggerEvent]
_BITS = {
    TriggerEvent.INSERT: triggers.INSERT, TriggerEvent.UPDATE: triggers.UPDATE,
    TriggerEvent.DELETE: triggers.DELETE, TriggerEvent.TRUNCATE: triggers.TRUNCATE,
}  # fmt: skip
_NO_TABLES = (None, None)
_NOTHING: Mapping[str, TransitionTable] = {}
_OLD = 1  # the varno of OLD in WHEN; NEW has the next


@frozen
class Firing:
    """A trigger of a relation, ready to be called."""

    trigger: Trigger
    relation: Relation
    when: TriggerWhen
    level: TriggerLevel
    condition: Callable[[Row], Any] | None  # of the old row followed by the new one

    def admits(self, old: Row | None, new: Row | None, updated: frozenset[int] | None) -> bool:
        """Whether UPDATE OF and WHEN let the trigger fire (TriggerEnabled). `updated`: the columns that an UPDATE
        sets."""
        columns = self.trigger.columns
        if columns and updated is not None and updated.isdisjoint(columns):
            return False
        if self.condition is None:
            return True
        nothing = (None,) * len(self.relation.attributes)
        return self.condition((*(old or nothing), *(new or nothing))) is True

    def call(
        self,
        session: Session,
        event: TriggerEvent,
        old: Row | None = None,
        new: Row | None = None,
        tables: tuple[TransitionTable | None, TransitionTable | None] = _NO_TABLES,
    ) -> Row | None:
        """Call the function (ExecCallTriggerFunc)."""
        trigger = self.trigger
        data = TriggerData(self.relation, trigger.name, event, self.when, self.level, trigger.args, old, new, *tables)
        instruments = session.instruments if not session.trigger_depth else None
        before = session.transition_tables
        session.transition_tables = _named(tables) if tables is not _NO_TABLES else _NOTHING
        session.trigger_depth += 1
        session.triggered.append(self.relation.oid)
        try:
            if instruments is None:
                return session.call_trigger(trigger.function, data)
            about = TriggerCalls(self.relation.oid, self.relation.name, trigger.name, bool(trigger.constraint))
            return instruments.call_trigger(trigger.oid, about, lambda: session.call_trigger(trigger.function, data))
        finally:
            session.triggered.pop()
            session.trigger_depth -= 1
            session.transition_tables = before


def _named(tables: Iterable[TransitionTable | None]) -> Mapping[str, TransitionTable]:
    return {table.name: table for table in tables if table is not None}


class RelationTriggers:
    """The triggers of one relation that are enabled for this session, in their order, by what they fire for."""

    def __init__(self, session: Session, rel: Relation, enabled: Iterable[Trigger]) -> None:
        self.relation = rel
        self._session = session
        self._by_key: dict[Key, list[Firing]] = {}
        self._generated: dict[frozenset[int], frozenset[int]] = {}
        self._computed = [column.num - 1 for column in rel.columns if column.generated]
        for trigger in enabled:
            firing = _ready(session, rel, trigger)
            for event, bit in _BITS.items():
                if trigger.type & bit:
                    self._by_key.setdefault((firing.when, firing.level, event), []).append(firing)

    def of(self, when: TriggerWhen, level: TriggerLevel, event: TriggerEvent) -> Sequence[Firing]:
        return self._by_key.get((when, level, event), ())

    def updated(self, columns: frozenset[int]) -> frozenset[int]:
        """The columns that an UPDATE of these changes: generated columns, too (ExecGetAllUpdatedCols). After a BEFORE
        trigger all of them are computed again."""
        known = self._generated.get(columns)
        if known is None:
            known = self._generated[columns] = columns | frozenset(self._generated_of(columns))
        return known

    def _generated_of(self, columns: frozenset[int]) -> Iterable[int]:
        every = bool(self.of(TriggerWhen.BEFORE, TriggerLevel.ROW, TriggerEvent.UPDATE))
        for column in self.relation.columns:
            if not column.generated:
                continue
            expr = default_of(self._session, self.relation.oid, column.num)
            if every or (expr is not None and columns & var_attnums(expr)):
                yield column.num

    def before(
        self, event: TriggerEvent, old: Row | None, new: Row | None, updated: frozenset[int] | None = None
    ) -> Row | None:
        """Fire the BEFORE triggers of a row (ExecBRInsertTriggers and its like). Returns the row that they give back,
        of a DELETE the old one; None: nothing is to be done with the row."""
        columns = self.updated(updated) if updated is not None else None
        result = new if new is not None else old
        for firing in self.of(TriggerWhen.BEFORE, TriggerLevel.ROW, event):
            if not firing.admits(old, new, columns):
                continue
            result = firing.call(self._session, event, old, self._ungenerated(new))
            if result is None:
                return None
            if new is not None:
                given, new = new, result
                if event is TriggerEvent.INSERT and firing.trigger.parent and given != new:
                    self._check_partition(firing.trigger, new)
        return result if new is None else new

    def _ungenerated(self, row: Row | None) -> Row | None:
        """The new row as BEFORE triggers see it: its generated columns are computed later."""
        if row is None or not self._computed:
            return row
        values = list(row)
        for place in self._computed:
            values[place] = None
        return tuple(values)

    def _check_partition(self, trigger: Trigger, row: Row) -> None:
        """A trigger of the partitioned table must leave the row in its partition."""
        rel = self.relation
        if TableChecks(self._session, rel, rel, frozenset()).in_bound(row):
            return
        detail = f'Before executing trigger "{trigger.name}", the row was to be in partition "{rel.qualified_name}".'
        message = "moving row to another partition during a BEFORE FOR EACH ROW trigger is not supported"
        raise PgError("0A000", message, detail=detail)

    def instead(self, event: TriggerEvent, old: Row | None, new: Row | None) -> Row | None:
        """Fire the INSTEAD OF triggers of a view's row. None: the row does not count as changed."""
        result = new if new is not None else old
        for firing in self.of(TriggerWhen.INSTEAD_OF, TriggerLevel.ROW, event):
            result = firing.call(self._session, event, old, new)
            if result is None:
                return None
            if new is not None:
                new = result
        return result


def relation_triggers(session: Session, rel: Relation) -> RelationTriggers | None:
    """The triggers of a relation that fire in this session; None: there are none."""
    enabled = enabled_triggers(session, rel.oid)
    return RelationTriggers(session, rel, enabled) if enabled else None


def enabled_triggers(session: Session, relid: int) -> list[Trigger]:
    """The triggers of CREATE TRIGGER that session_replication_role lets fire."""
    triggers = triggers_of(session, relid)
    if not triggers:
        return triggers
    role = session.settings.get("session_replication_role")
    return [trigger for trigger in triggers if is_enabled(trigger, role)]


def inserts_one_by_one(session: Session, rel: Relation) -> bool:
    """Whether PostgreSQL's COPY inserts each row before it reads the next, because of a BEFORE trigger, enabled or not,
    or one with a transition table of a partitioned table (CopyFrom); so that errors of keys come with the line's
    text."""
    wanted = triggers.BEFORE | triggers.ROW | triggers.INSERT
    return any(
        trigger.type & wanted == wanted
        or (rel.kind == "p" and trigger.type & triggers.INSERT and trigger.new_table is not None)
        for trigger in triggers_of(session, rel.oid)
    )


def has_instead_trigger(session: Session, view: int, event: TriggerEvent) -> bool:
    """Whether a view has an INSTEAD OF trigger for an event, enabled or not (view_has_instead_trigger)."""
    wanted = triggers.INSTEAD | _BITS[event]
    return any(trigger.type & wanted == wanted for trigger in triggers_of(session, view))


def refuse_triggers(session: Session, relid: int, *events: TriggerEvent) -> None:
    """Declined if a trigger fires when rows of this table, or of one below it, are changed so: each row is done by
    itself then."""
    bits = sum(_BITS[event] for event in events)
    for oid in inheritors(session, relid):
        if any(trigger.type & bits for trigger in enabled_triggers(session, oid)):
            raise Declined(f'table "{relation(session, oid).name}" has triggers')


def _ready(session: Session, rel: Relation, trigger: Trigger) -> Firing:
    when = TriggerWhen.AFTER
    if trigger.type & triggers.BEFORE:
        when = TriggerWhen.BEFORE
    elif trigger.type & triggers.INSTEAD:
        when = TriggerWhen.INSTEAD_OF
    level = TriggerLevel.ROW if trigger.is_row else TriggerLevel.STATEMENT
    condition = None
    if trigger.when is not None:
        expr = of_rows(session, stored.from_json(trigger.when, session), rel, (_OLD, _OLD + 1))
        condition = compile(_over_both(session, rel, expr), Context(session))
    return Firing(trigger, rel, when, level, condition)


def _over_both(session: Session, rel: Relation, when: Expr) -> Expr:
    """The condition over one row: the old one followed by the new one."""
    width = len(rel.attributes)

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Var):
            return None
        shift = 0 if node.varno == _OLD else width
        if node.attnum > 0:
            return replace(node, varno=1, attnum=node.attnum + shift)
        if node.attnum == 0:
            return whole_row(session, rel, lambda n: replace(column_of(rel, n, 0), attnum=n + shift))
        if node.attnum == TABLEOID:
            return Const(oids.OID, value=rel.oid)
        raise unsupported(f'system column "{SYSTEM_COLUMN_NAMES[node.attnum]}" in WHEN')

    return rewrite(when, visit)


# --- trigger calls ----------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Captured:
    """The rows of the transition tables of one relation and event, in its layout."""

    relation: Relation
    old: list[Row] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)
    seen: bool = False  # by a trigger: later rows go into other tables


@dataclass(eq=False, slots=True)
class TriggerCall:
    """A trigger to call after the statement."""

    firing: Firing
    event: TriggerEvent
    old: Row | None = None
    new: Row | None = None
    captured: Captured | None = None

    @property
    def table(self) -> int:
        return self.firing.relation.oid

    @property
    def name(self) -> bytes:
        return self.firing.trigger.name.encode()

    def make(self, session: Session) -> None:
        trigger, captured = self.firing.trigger, self.captured
        next_snapshot(session)
        if captured is None:
            self.firing.call(session, self.event, self.old, self.new)
            return
        captured.seen = True
        old_table = new_table = None
        if trigger.old_table is not None:
            old_table = TransitionTable(trigger.old_table, captured.relation, captured.old)
        if trigger.new_table is not None:
            new_table = TransitionTable(trigger.new_table, captured.relation, captured.new)
        self.firing.call(session, self.event, self.old, self.new, (old_table, new_table))
