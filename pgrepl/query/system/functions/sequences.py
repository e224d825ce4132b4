"""nextval, currval, setval, lastval.

A transaction that holds the catalog's write lock moves a sequence itself, so that other writers wait; but a rollback
leaves the sequence where it was moved to (catalog/sequence_positions.py). CACHE has no effect. The values of currval
and lastval live as long as the session.
"""

from __future__ import annotations

from typing import Any

from pgrepl.catalog import acl
from pgrepl.catalog.relation import Relation, relation, relation_or_none
from pgrepl.catalog.sequence_positions import move, position, used
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one
from pgrepl.catalog.tables import pg_sequence
from pgrepl.catalog.transaction import require_writable
from pgrepl.errors import PgError, unsupported
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family

implements = Family()

_KINDS = {
    "r": "tables", "p": "partitioned tables", "v": "views", "m": "materialized views", "i": "indexes",
    "I": "partitioned indexes", "t": "TOAST tables", "c": "composite types", "f": "foreign tables",
}  # fmt: skip


def _sequence(session: Session, oid: int, *privileges: str) -> tuple[Relation, Any]:
    found = relation_or_none(session, oid)
    if found is None:
        raise PgError("XX000", f"could not open relation with OID {oid}")
    if found.kind != "S":
        detail = f"This operation is not supported for {_KINDS[found.kind]}."
        raise PgError("42809", f'cannot open relation "{found.name}"', detail=detail)
    masks = [acl.mask_of(privilege) for privilege in privileges]
    if not any(acl.relation_mask(session, found, session.role, mask) == mask for mask in masks):
        raise PgError("42501", f"permission denied for sequence {found.name}")
    return found, one(session, pg_sequence, seqrelid=oid)


def _require_writable(session: Session, sequence: Relation, what: str) -> None:
    """A transaction that only reads may still move the session's own temporary sequences."""
    if sequence.persistence != "t":
        require_writable(session, what)


@implements("nextval_oid", context=True)
def nextval(call: Call, oid: int) -> int:
    return _next(call.session, oid, *_sequence(call.session, oid, "USAGE", "UPDATE"))


@implements("nextval_identity", context=True)
def nextval_identity(call: Call, oid: int) -> int:
    """nextval for an identity column, which needs only the privilege to insert the row (NextValueExpr)."""
    return _next(call.session, oid, relation(call.session, oid), one(call.session, pg_sequence, seqrelid=oid))


def _next(session: Session, oid: int, found: Relation, row: pg_sequence | None) -> int:
    _require_writable(session, found, "nextval()")
    if session.transaction.keeps_pending:
        row = position(session, oid)
    assert row is not None
    value = row.seqstart if row.last_value is None else row.last_value
    if row.is_called:
        value += row.seqincrement
        up = row.seqincrement > 0
        if value > row.seqmax if up else value < row.seqmin:
            if not row.seqcycle:
                raise _exhausted(found, row)
            value = row.seqmin if up else row.seqmax
    move(session, oid, value, True)
    mine = used(session)
    mine.values[oid], mine.last = value, oid
    return value


def reserve(session: Session, oid: int, count: int) -> tuple[int, int]:
    """The next `count` numbers at once: the first, and the step to the next. A session that does not hold the write
    lock takes it for just this."""
    if not session.transaction.is_writing:
        apart = session.elsewhere(session.database_oid, session.role, apart=True)
        try:
            apart.transaction.begin_statement(writes=True)
            reserved = reserve(apart, oid, count)
            apart.transaction.end_statement()
        finally:
            apart.close()
        session.forget(pg_sequence)
        first, step = reserved
        mine = used(session)
        mine.values[oid], mine.last = first + step * (count - 1), oid
        return reserved
    found, row = relation(session, oid), one(session, pg_sequence, seqrelid=oid)
    assert row is not None
    first = row.seqstart if row.last_value is None else row.last_value
    if row.is_called:
        first += row.seqincrement
    last = first + row.seqincrement * (count - 1)
    if last > row.seqmax if row.seqincrement > 0 else last < row.seqmin:
        if row.seqcycle:
            raise unsupported(f'sequence "{found.name}" going round within one statement of Spark\'s')
        raise _exhausted(found, row)
    move(session, oid, last, True)
    mine = used(session)
    mine.values[oid], mine.last = last, oid
    return first, row.seqincrement


def _exhausted(found: Relation, row: pg_sequence) -> PgError:
    edge, limit = ("maximum", row.seqmax) if row.seqincrement > 0 else ("minimum", row.seqmin)
    return PgError("2200H", f'nextval: reached {edge} value of sequence "{found.name}" ({limit})')


@implements("currval_oid", context=True)
def currval(call: Call, oid: int) -> int:
    found, _ = _sequence(call.session, oid, "SELECT", "USAGE")
    value = used(call.session).values.get(oid)
    if value is None:
        raise PgError("55000", f'currval of sequence "{found.name}" is not yet defined in this session')
    return value


@implements("lastval", context=True)
def lastval(call: Call) -> int:
    mine = used(call.session)
    if mine.last is None or relation_or_none(call.session, mine.last) is None:
        raise PgError("55000", "lastval is not yet defined in this session")
    _sequence(call.session, mine.last, "SELECT", "USAGE")
    return mine.values[mine.last]


@implements("setval_oid", "setval3_oid", context=True)
def setval(call: Call, oid: int, value: int, is_called: bool = True) -> int:
    session = call.session
    found, row = _sequence(session, oid, "UPDATE")
    _require_writable(session, found, "setval()")
    if not row.seqmin <= value <= row.seqmax:
        bounds = f"({row.seqmin}..{row.seqmax})"
        raise PgError("22003", f'setval: value {value} is out of bounds for sequence "{found.name}" {bounds}')
    move(session, oid, value, is_called)
    if is_called:
        used(session).values[oid] = value
    return value
