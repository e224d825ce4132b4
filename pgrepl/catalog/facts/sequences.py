"""Positions of sequences, what a session has got from them, and the columns that own them.

nextval and setval move a sequence for good, so that no number is given out twice. ALTER SEQUENCE and RESTART IDENTITY
belong to their transaction, and so does every move behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from pgrepl.catalog.facts.acl import check_owner
from pgrepl.catalog.facts.depend import Dependency, dependencies_of
from pgrepl.catalog.facts.relation import relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import partition_ancestors
from pgrepl.catalog.store import store
from pgrepl.catalog.store.store import one, remember, update
from pgrepl.catalog.store.system import PG_CLASS, ObjectAddress
from pgrepl.catalog.store.tables import pg_depend, pg_sequence
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_KEEP_TIMEOUT = 1.0  # seconds: a number given twice is better than a session that hangs


class _Position(NamedTuple):
    """The last move of a sequence in one of its files."""

    value: int
    is_called: bool


class _Undo(NamedTuple):
    """An action in a transaction's undo list. A rollback that has run the action has removed it from there."""

    actions: list[Callable[[], object]]
    place: int
    action: Callable[[], object]

    def is_open(self) -> bool:
        return self.place < len(self.actions) and self.actions[self.place] is self.action


class _NewFile(NamedTuple):
    """A new file for the sequence, by ALTER SEQUENCE or RESTART IDENTITY."""

    undo: _Undo


@dataclass
class Used:
    """A session's use of sequences."""

    values: dict[int, int] = field(default_factory=dict)  # currval
    last: int | None = None  # lastval's sequence
    actions: list[Callable[[], object]] | None = None  # the undo list of the transaction of `steps` and `undos`
    steps: dict[int, list[_Position | _NewFile]] = field(default_factory=dict)
    undos: dict[int, _Undo] = field(default_factory=dict)


_sessions: WeakKeyDictionary[Session, Used] = WeakKeyDictionary()


def used(session: Session) -> Used:
    return _sessions.setdefault(session, Used())


def discard(session: Session) -> None:
    """Forget currval and lastval (DISCARD SEQUENCES)."""
    mine = used(session)
    mine.values.clear()
    mine.last = None


def move(session: Session, oid: int, value: int, is_called: bool) -> None:
    """Move a sequence; a rollback does not undo this (the WAL record of nextval belongs to no transaction). A
    transaction with pending changes moves it at once, on the session's second connection."""
    if session.transaction.keeps_pending:
        _set(session.beside.write(), oid, value, is_called)
        session.forget(pg_sequence)
        return
    _set(session, oid, value, is_called)
    mine, steps = _steps(session, oid)
    if steps and isinstance(steps[-1], _Position):
        steps.pop()
    steps.append(_Position(value, is_called))
    savepoints = session.transaction.savepoints
    known = mine.undos.get(oid)
    if known is None or not known.is_open() or (savepoints and known.place < savepoints[-1].undo):
        mine.undos[oid] = _on_rollback(session, oid)


def take_back_moves(session: Session) -> None:
    """Have a rollback of the running transaction undo its moves, too: it holds the write lock, so that nobody has seen
    the numbers."""
    mine = used(session)
    mine.steps.clear()
    mine.undos.clear()


def position(session: Session, oid: int) -> pg_sequence | None:
    """The sequence's newest row, for nextval and setval."""
    transaction = session.transaction
    return one(session.beside.write() if transaction.keeps_pending else session, pg_sequence, seqrelid=oid)


def _set(session: Session, oid: int, value: int, is_called: bool) -> None:
    row = one(session, pg_sequence, seqrelid=oid)
    update(session, pg_sequence, {"seqrelid": oid}, last_value=value, is_called=is_called)
    if row is not None:
        remember(session, pg_sequence, row._replace(last_value=value, is_called=is_called), seqrelid=oid)


def new_relfilenumber(session: Session, oid: int) -> None:
    """Bind later moves to the transaction; called before ALTER SEQUENCE and RESTART IDENTITY change the sequence."""
    _, steps = _steps(session, oid)
    steps.append(_NewFile(_on_rollback(session, oid)))


def created(session: Session, oid: int) -> None:
    """Bind the moves of a new sequence to the transaction, and currval and lastval: a rollback frees its OID, which
    may then be another session's sequence."""
    new_relfilenumber(session, oid)
    mine = used(session)

    def forget() -> None:
        mine.values.pop(oid, None)
        if mine.last == oid:
            mine.last = None

    session.transaction.undo.append(forget)


def _steps(session: Session, oid: int) -> tuple[Used, list[_Position | _NewFile]]:
    """The running transaction's moves of a sequence."""
    mine = used(session)
    if mine.actions is not session.transaction.undo:
        mine.actions = session.transaction.undo
        mine.steps.clear()
        mine.undos.clear()
    return mine, mine.steps.setdefault(oid, [])


def _on_rollback(session: Session, oid: int) -> _Undo:
    actions = session.transaction.undo
    actions.append(partial(_return, session, oid))
    return _Undo(actions, len(actions) - 1, actions[-1])


def _return(session: Session, oid: int) -> None:
    """Set the sequence, after a rollback, to its last position in the newest file that is left."""
    _, steps = _steps(session, oid)
    for place, step in enumerate(steps):
        if isinstance(step, _NewFile) and not step.undo.is_open():
            del steps[place:]
            break
    if not steps or not isinstance(steps[-1], _Position):
        return
    position = steps[-1]
    if session.transaction.is_writing:
        if one(session, pg_sequence, seqrelid=oid) is not None:
            move(session, oid, *position)
        return
    link = session.link
    with suppress(PgError):
        link.begin(write=True, lock_timeout=_KEEP_TIMEOUT)
        link.execute(
            "UPDATE pg_sequence SET last_value = ?, is_called = ? WHERE seqrelid = ?",
            (position.value, position.is_called, oid),
        )
        link.commit()
    session.forget(pg_sequence)


# --- sequences --------------------------------------------------------------------------------------------------------


def sequence_row(session: Session, oid: int) -> pg_sequence:
    row = store.one(session, pg_sequence, seqrelid=oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for sequence {oid}")
    return row


def definition_of(row: pg_sequence) -> tuple[int, int, int, int, int, bool]:
    """What has to be the same of a sequence whose value follows another's."""
    return row.seqtypid, row.seqstart, row.seqincrement, row.seqmin, row.seqmax, bool(row.seqcycle)


def owner_column(session: Session, sequence: int, kind: Dependency) -> tuple[int, int] | None:
    """The table and column a sequence belongs to (sequenceIsOwned): AUTO for serial, INTERNAL for identity."""
    for row in dependencies_of(session, ObjectAddress(PG_CLASS, sequence)):
        if row.refclassid == PG_CLASS and row.deptype == kind.value and row.refobjsubid:
            return row.refobjid, row.refobjsubid
    return None


def sequences_of(session: Session, relid: int) -> list[tuple[int, int, str]]:
    """The sequences that belong to columns of a table: (sequence, column, kind of dependency)."""
    sequences = []
    for row in store.rows(
        session, pg_depend, datid=session.database_oid, refclassid=PG_CLASS, refobjid=relid, classid=PG_CLASS
    ):
        if row.refobjsubid and not row.objsubid and row.deptype in ("a", "i"):
            rel = relation_or_none(session, row.objid)
            if rel is not None and rel.kind == "S":
                sequences.append((row.objid, row.refobjsubid, row.deptype))
    return sorted(sequences)


def identity_sequence(session: Session, relid: int, attnum: int) -> int:
    """The sequence of an identity column, 0 if there is none. Partitions share that of their topmost table
    (getIdentitySequence)."""
    rel = relation(session, relid)
    if rel.is_partition:
        attribute = rel.attribute_by_number(attnum)
        ancestors = partition_ancestors(session, relid)
        if attribute is not None and ancestors:
            top = relation(session, ancestors[-1])
            same = top.attribute(attribute.name)
            relid, attnum = top.oid, same.num if same is not None else 0
    for sequence, column, kind in sequences_of(session, relid):
        if column == attnum and kind == "i":
            return sequence
    return 0


def check_sequences_owner(session: Session, relids: Iterable[int]) -> None:
    """An error unless the role owns the sequences of the tables' columns (ExecuteTruncateGuts)."""
    for relid in relids:
        for oid, _, _ in sequences_of(session, relid):
            sequence = relation(session, oid)
            check_owner(session, "sequence", sequence.name, sequence.owner)


def restart_sequences(session: Session, relids: Iterable[int]) -> None:
    """Restart the sequences of the tables' columns (RESTART IDENTITY)."""
    for relid in relids:
        for oid, _, _ in sequences_of(session, relid):
            start = sequence_row(session, oid).seqstart
            new_relfilenumber(session, oid)
            store.update(session, pg_sequence, {"seqrelid": oid}, last_value=start, is_called=False)
