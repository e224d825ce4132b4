"""The triggers that fire after a statement or once before it (AfterTriggerSaveEvent, fireBSTriggers), INSTEAD OF
triggers, and PostgreSQL's own.

Statements that the actions of foreign keys run belong to the statement that fires them: on one table, triggers FOR
EACH STATEMENT fire once for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.rows.changes import ModifiedRow, ModifyKind, Row, next_snapshot
from pgrepl.rows.checks_table import converter
from pgrepl.rows.triggers import (
    Captured,
    RelationTriggers,
    TriggerCall,
    TriggerData,
    TriggerEvent,
    TriggerLevel,
    TriggerWhen,
    relation_triggers,
)
from pgrepl.rows.unwritten import Materialize
from pgrepl.types.values import same_image

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.rows.checks import RowChecks

Subject = tuple[int, TriggerEvent]  # a relation, and what is done with its rows


def before_statement(
    session: Session, rel: Relation, event: TriggerEvent, columns: frozenset[int], begun: set[Subject]
) -> None:
    """Fire the BEFORE triggers of a statement, unless they have been fired."""
    if (rel.oid, event) in begun:
        return
    begun.add((rel.oid, event))
    triggers = relation_triggers(session, rel)
    if triggers is None:
        return
    updated = triggers.updated(columns) if event is TriggerEvent.UPDATE else None
    for firing in triggers.of(TriggerWhen.BEFORE, TriggerLevel.STATEMENT, event):
        if firing.admits(None, None, updated):
            firing.call(session, event)
            next_snapshot(session)


class TriggerEvents:
    """The calls of triggers that a statement, with the actions of foreign keys, makes necessary."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.begun: set[Subject] = set()  # statements whose BEFORE triggers have fired
        self._triggers: dict[int, RelationTriggers | None] = {}
        self._captured: dict[Subject, Captured] = {}
        self._ended: dict[Subject, list[TriggerCall]] = {}
        self._columns: dict[tuple[int, frozenset[int]], frozenset[int]] = {}

    def triggers(self, relid: int) -> RelationTriggers | None:
        if relid not in self._triggers:
            self._triggers[relid] = relation_triggers(self.session, relation(self.session, relid))
        return self._triggers[relid]

    # --- rows ---------------------------------------------------------------------------------------------------------

    def of_rows(
        self, checks: RowChecks, changes: Sequence[ModifiedRow]
    ) -> Callable[[ModifiedRow], list[TriggerCall]] | None:
        """A function for the calls that one changed row makes necessary; None: there are none. It has to be asked for
        each row, as it captures transition tables."""
        tables = {table for change in changes for table in (change.table, change.to or change.table)}
        if not any(self.triggers(table) is not None for table in (*tables, checks.relation.oid)):
            return None
        return lambda change: list(self._of_row(checks, change))

    def _of_row(self, checks: RowChecks, change: ModifiedRow) -> Iterator[TriggerCall]:
        old, new, event = change.old, change.new, event_of(change)
        captured = self._capture(checks, event, change)
        if old is not None and new is not None and change.to != change.table:
            yield from self._calls(change.table, TriggerEvent.DELETE, old, None, None)
            yield from self._calls(change.to, TriggerEvent.INSERT, None, new, None)
            return
        table = change.table if new is None else change.to
        updated = checks.set_columns(relation(self.session, table)) if event is TriggerEvent.UPDATE else None
        yield from self._calls(table, event, old, new, updated, captured)

    def _calls(
        self,
        table: int,
        event: TriggerEvent,
        old: Row | None,
        new: Row | None,
        updated: frozenset[int] | None,
        captured: Captured | None = None,
    ) -> list[TriggerCall]:
        triggers = self.triggers(table)
        return [] if triggers is None else _calls(triggers, event, old, new, updated, captured)

    def _capture(self, checks: RowChecks, event: TriggerEvent, change: ModifiedRow) -> Captured | None:
        """Note the row in the transition tables of the relation that the statement names."""
        named = checks.relation
        triggers = self.triggers(named.oid)
        if triggers is None or not _captures(triggers, event):
            return None
        captured = self._tables(named, event)
        session = self.session
        if change.old is not None:
            captured.old.append(converter(relation(session, change.table), named)(change.old))
        if change.new is not None:
            captured.new.append(converter(relation(session, change.to), named)(change.new))
        return captured

    def _tables(self, named: Relation, event: TriggerEvent) -> Captured:
        captured = self._captured.get((named.oid, event))
        if captured is None or captured.seen:
            captured = self._captured[named.oid, event] = Captured(named)
        return captured

    # --- statements ---------------------------------------------------------------------------------------------------

    def begin(self, rel: Relation, event: TriggerEvent, columns: frozenset[int] = frozenset()) -> None:
        before_statement(self.session, rel, event, columns, self.begun)

    def of_statement(self, checks: RowChecks) -> tuple[list[TriggerCall], list[TriggerCall]]:
        """The calls at the end of a statement, and earlier ones that they replace (cancel_prior_stmt_triggers)."""
        calls: list[TriggerCall] = []
        replaced: list[TriggerCall] = []
        for event in events_of(checks):
            added = self.at_end(checks.relation, event, checks.set_columns(checks.relation))
            replaced += self._ended.get((checks.relation.oid, event), [])
            self._ended[checks.relation.oid, event] = added
            calls += added
        return calls, replaced

    def at_end(self, rel: Relation, event: TriggerEvent, columns: frozenset[int] = frozenset()) -> list[TriggerCall]:
        triggers = self.triggers(rel.oid)
        if triggers is None:
            return []
        updated = triggers.updated(columns) if event is TriggerEvent.UPDATE else None
        captured = self._tables(rel, event) if _captures(triggers, event) else None
        return [
            TriggerCall(firing, event, captured=captured)
            for firing in triggers.of(TriggerWhen.AFTER, TriggerLevel.STATEMENT, event)
            if firing.admits(None, None, updated)
        ]


def calls_of_row(triggers: RelationTriggers, change: ModifiedRow, columns: frozenset[int] | None) -> list[TriggerCall]:
    """The AFTER triggers to call for a row of one table, which see no transition tables."""
    return _calls(triggers, event_of(change), change.old, change.new, columns)


def _calls(
    triggers: RelationTriggers,
    event: TriggerEvent,
    old: Row | None,
    new: Row | None,
    updated: frozenset[int] | None,
    captured: Captured | None = None,
) -> list[TriggerCall]:
    columns = None if updated is None else triggers.updated(updated)
    return [
        TriggerCall(firing, event, old, new, captured)
        for firing in triggers.of(TriggerWhen.AFTER, TriggerLevel.ROW, event)
        if firing.admits(old, new, columns)
    ]


def events_of(checks: RowChecks) -> list[TriggerEvent]:
    """The events of a statement, in the order of their AFTER triggers: ON CONFLICT DO UPDATE is an UPDATE, too."""
    if checks.kind is ModifyKind.INSERT and checks.updates:
        return [TriggerEvent.UPDATE, TriggerEvent.INSERT]
    return list(reversed(checks.events))


def event_of(change: ModifiedRow) -> TriggerEvent:
    if change.old is None:
        return TriggerEvent.INSERT
    return TriggerEvent.DELETE if change.new is None else TriggerEvent.UPDATE


def _captures(triggers: RelationTriggers, event: TriggerEvent) -> bool:
    return any(
        firing.trigger.old_table is not None or firing.trigger.new_table is not None
        for level in TriggerLevel
        for firing in triggers.of(TriggerWhen.AFTER, level, event)
    )


# --- instead ----------------------------------------------------------------------------------------------------------


def fire_instead(session: Session, checks: RowChecks, changes: Iterable[ModifiedRow]) -> list[ModifiedRow]:
    """Fire the triggers for each row. Returns the rows that count as changed, as the triggers give them back."""
    source = Materialize(changes)
    session.unsettled.append(source)
    try:
        return [change for _, change in instead_one_by_one(session, checks, source)]
    finally:
        session.unsettled.remove(source)
        if not session.unsettled:
            session.touched.clear()


def instead_one_by_one(
    session: Session, checks: RowChecks, changes: Iterable[ModifiedRow]
) -> Iterator[tuple[int, ModifiedRow]]:
    """Fire the triggers for each row before the next is looked at; gives the rows with the numbers of their changes."""
    view = checks.relation
    triggers = relation_triggers(session, view)
    for number, change in enumerate(changes):
        checks.failed = number
        row = change.new if change.new is not None else change.old
        if triggers is not None:
            row = triggers.instead(event_of(change), change.old, change.new)
        if row is not None:
            checks.take_written([number])
            yield number, replace(change, new=row if change.new is not None else None, to=view.oid)
    checks.failed = None


# --- trigger builtin --------------------------------------------------------------------------------------------------


_SUPPRESS = "suppress_redundant_updates_trigger"


def call_builtin(source: str, data: TriggerData) -> Row | None:
    """Call the function with this pg_proc.prosrc."""
    if source == _SUPPRESS:
        return _suppress_redundant_updates(data)
    raise unsupported(f"function {source}()")


def _suppress_redundant_updates(data: TriggerData) -> Row | None:
    """No row, if its new version is the same to the byte (suppress_redundant_updates_trigger). Generated columns have
    not been computed yet."""
    for is_so, how in (
        (data.event is TriggerEvent.UPDATE, "on update"),
        (data.when is TriggerWhen.BEFORE, "before update"),
        (data.level is TriggerLevel.ROW, "for each row"),
    ):
        if not is_so:
            raise PgError("39P01", f"{_SUPPRESS}: must be called {how}")
    assert data.old is not None and data.new is not None
    for column in data.relation.columns:
        if not column.generated and not same_image(data.old[column.num - 1], data.new[column.num - 1]):
            return data.new
    return None
