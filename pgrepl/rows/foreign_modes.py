"""SET CONSTRAINTS: which deferrable constraints wait for the commit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pgrepl.catalog.constraint import constraint_row
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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
