"""Whether the triggers of constraints fire, and SET CONSTRAINTS: which deferrable ones wait for the commit, for the
rest of the transaction."""

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
    """What a transaction has said: of all, of single constraints (by OID) later than that."""

    every: bool | None = None
    single: tuple[tuple[int, bool], ...] = ()
    fired: frozenset[int] = frozenset()  # the events (by id) that waited and have been fired since


_modes: WeakKeyDictionary[Session, Modes] = WeakKeyDictionary()
_NONE = Modes()


def fires(session: Session) -> bool:
    """The triggers of foreign keys and of deferrable unique constraints are of the kind that a replica leaves out."""
    return session.settings.get("session_replication_role") != "replica"


def modes(session: Session) -> Modes:
    return _modes.get(session, _NONE)


def set_modes(session: Session, now: Modes) -> None:
    """For the rest of the transaction, or until a savepoint before it is rolled back to."""
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
    """Whether a constraint is looked at when the transaction commits."""
    row = constraint_row(session, constraint)
    if not row.condeferrable:
        return False
    said = modes(session)
    known = dict(said.single)
    if constraint in known:
        return known[constraint]
    return bool(row.condeferred) if said.every is None else said.every


def note_fired(session: Session, events: frozenset[int]) -> None:
    said = modes(session)
    set_modes(session, replace(said, fired=said.fired | events))
