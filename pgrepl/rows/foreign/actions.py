"""CASCADE, SET NULL and SET DEFAULT: changes of the rows that reference a deleted or updated key; and SET
CONSTRAINTS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pgrepl.catalog.facts.acl import has_table_privilege, permission_denied
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_row
from pgrepl.catalog.session.context import LOCAL_USERID_CHANGE
from pgrepl.expr.catalog_trees import default_of
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.row_filter_checks import check_replica_identity
from pgrepl.ground.frozen import frozen
from pgrepl.rows.changes import ModifiedRow, ModifyKind, Row, next_snapshot, write_changes
from pgrepl.rows.checks import RowChecks, prepare
from pgrepl.rows.foreign import lookup
from pgrepl.rows.foreign.key import CASCADE, SET_NULL, ForeignKey, key_values
from pgrepl.rows.foreign.statements import action_statement, in_statement
from pgrepl.rows.locking import Standing, lock_changes
from pgrepl.rows.trigger_events import TriggerEvents
from pgrepl.rows.triggers import TriggerEvent
from pgrepl.rows.unwritten import Event, EventKind

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.rows.foreign.lookup import Referencing


@frozen
class Modes:
    """The settings of SET CONSTRAINTS in this transaction: for ALL, and since then for single constraints by OID."""

    every: bool | None = None
    single: tuple[tuple[int, bool], ...] = ()
    fired: frozenset[int] = frozenset()  # the events (by id) that waited and have been fired since


_modes: WeakKeyDictionary[Session, Modes] = WeakKeyDictionary()
_NONE = Modes()


def modes(session: Session) -> Modes:
    return _modes.get(session, _NONE)


def set_modes(session: Session, now: Modes) -> None:
    """Set the modes until the transaction ends, or rolls back to a savepoint before."""
    before = modes(session)
    if session not in _modes:
        session.on_commit(lambda: _forget(session))
    session.transaction.undo.append(lambda: _restore(session, before))
    _modes[session] = now


def _forget(session: Session) -> None:
    _modes.pop(session, None)


def _restore(session: Session, before: Modes) -> None:
    if before == _NONE:
        _forget(session)
    else:
        _modes[session] = before


def is_deferred(session: Session, constraint: int) -> bool:
    """Whether a constraint is checked when the transaction commits."""
    row = constraint_row(session, constraint)
    if not row.condeferrable:
        return False
    current = modes(session)
    known = dict(current.single)
    if constraint in known:
        return known[constraint]
    return bool(row.condeferred) if current.every is None else current.every


def note_fired(session: Session, events: frozenset[int]) -> None:
    current = modes(session)
    set_modes(session, replace(current, fired=current.fired | events))


def act(session: Session, events: Sequence[Event], calls: TriggerEvents) -> tuple[RowChecks, list[ModifiedRow]]:
    """Change the rows that reference the events' keys, with the rights of their table's owner. Returns the checks of
    this statement on that table, and the changes. `calls` knows whether BEFORE triggers of such a statement have
    fired."""
    key, delete = events[0].key, events[0].kind is EventKind.DELETE
    rel = relation(session, key.referencing)
    action = key.on_delete if delete else key.on_update
    remove = delete and action == CASCADE
    columns = set_columns(key, action, delete)
    kind = ModifyKind.DELETE if remove else ModifyKind.UPDATE
    checks = prepare(session, rel, kind, frozenset(columns))
    with (
        as_owner(session, rel),
        in_statement(action_statement, session, key, rel, action, delete, columns),
        in_trigger(session),
    ):
        may_change(session, rel, kind)
        calls.begin(rel, TriggerEvent(kind.value), frozenset(columns))
        if session.transaction.locks_rows:  # the keys are locked: transactions that reference them have committed
            session.beside.wait_for_writers()
            session.transaction.refresh()
        keys = [key_values(event.row, key.referenced_columns) for event in events]
        change: Callable[[Referencing], Row | None] = _removed
        if not remove:
            change = _updated(session, key, rel, events, action, columns)
        references = lookup.referencing(session, key, keys)
        changes = [
            ModifiedRow(reference.relation.oid, reference.place, reference.row, change(reference))
            for reference in references
        ]
        if not changes:
            return checks, []
        if session.transaction.locks_rows:
            changes = _locked(session, references, changes, change)
        changes = checks.local(changes)
        next_snapshot(session)
        write_changes(session, changes[checks.written :])
    return checks, changes


def _locked(
    session: Session,
    references: Sequence[Referencing],
    changes: Sequence[ModifiedRow],
    change: Callable[[Referencing], Row | None],
) -> list[ModifiedRow]:
    """The changes of rows that still exist once they are locked, and reference the same key."""
    rows = [Standing(modified.table, modified.place) for modified in changes if modified.place is not None]
    removes = any(modified.new is None for modified in changes)
    changed = lock_changes(session, changes, "deleting" if removes else "updating")
    left = []
    for reference, known, row in zip(references, changes, rows, strict=True):
        newer = changed.get(row)
        if row not in changed:
            left.append(known)
        elif newer is not None and reference.still(newer.row):
            again = replace(reference, place=newer.place, row=newer.row)
            left.append(ModifiedRow(row.table, newer.place, newer.row, change(again)))
    return left


def may_change(session: Session, rel: Relation, kind: ModifyKind) -> None:
    """Check the owner's privilege on the table, and its replica identity where it is published."""
    if not has_table_privilege(session, rel, kind.value):
        raise permission_denied(rel)
    for member in lookup.tables_of(session, rel.oid):
        check_replica_identity(session, member.relation, kind.value)


def set_columns(key: ForeignKey, action: str, delete: bool) -> tuple[int, ...]:
    if delete and action != CASCADE and key.delete_set:
        return key.delete_set
    return key.columns


def _removed(reference: Referencing) -> None:
    return None


def _updated(
    session: Session, key: ForeignKey, rel: Relation, events: Sequence[Event], action: str, columns: Sequence[int]
) -> Callable[[Referencing], Row]:
    """A function that gives a referencing row's new version."""
    values = _values(session, key, rel, action, columns)

    def updated(reference: Referencing) -> Row:
        new = list(reference.row)
        for name, value in values(events[reference.number]).items():
            attribute = reference.relation.attribute(name)
            assert attribute is not None
            new[attribute.num - 1] = value
        return tuple(new)

    return updated


def _values(
    session: Session, key: ForeignKey, rel: Relation, action: str, columns: Sequence[int]
) -> Callable[[Event], dict[str, Any]]:
    """The new values of the columns, by name."""
    names = [rel.attributes[number - 1].name for number in columns]
    if action == SET_NULL:
        return lambda event: dict.fromkeys(names)
    if action == CASCADE:
        own, other = lookup.column_types(session, key)
        typmods = [rel.attributes[number - 1].typmod for number in key.columns]
        convert = [
            lookup.assigned(session, source, target, typmod)
            for source, target, typmod in zip(other, own, typmods, strict=True)
        ]

        def cascaded(event: Event) -> dict[str, Any]:
            assert event.new is not None
            new: Row = key_values(event.new, key.referenced_columns)
            return {name: one(value) for name, one, value in zip(names, convert, new, strict=True)}

        return cascaded
    context = Context(session)
    defaults = {}
    for number, name in zip(columns, names, strict=True):
        expr = default_of(session, rel.oid, number) if rel.attributes[number - 1].has_default else None
        defaults[name] = None if expr is None else compile(expr, context)
    return lambda event: {name: None if value is None else value(()) for name, value in defaults.items()}


@contextmanager
def in_trigger(session: Session) -> Iterator[None]:
    """The statement is one that a trigger of PostgreSQL's runs (pg_trigger_depth)."""
    session.trigger_depth += 1
    try:
        yield
    finally:
        session.trigger_depth -= 1


def as_owner(session: Session, rel: Relation) -> AbstractContextManager[None]:
    return session.acting_as(rel.owner, LOCAL_USERID_CHANGE)
