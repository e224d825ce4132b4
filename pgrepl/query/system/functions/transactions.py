"""Transaction IDs: txid_current(), pg_current_xact_id() and the functions about snapshots (xid8funcs.c).

A transaction's ID is the number of its first snapshot. It is assigned by these functions or by the first write; from
then on the transaction holds the catalog's write lock, so that at most one transaction has an ID while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.recovery import in_recovery
from pgrepl.errors import PgError
from pgrepl.expr.functions.registry import Family
from pgrepl.types.snapshots import PgSnapshot, parse_snapshot

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Call

implements = Family()


@implements("pg_current_xact_id", context=True)
def pg_current_xact_id(call: Call) -> int:
    session = call.session
    if in_recovery(session):
        raise PgError("25006", "cannot execute pg_current_xact_id() during recovery")
    numbering = session.transaction.numbering
    if numbering.first_snapshot is None:
        session.snapshot()
    assert numbering.first_snapshot is not None
    return numbering.first_snapshot


@implements("pg_current_xact_id_if_assigned", context=True)
def pg_current_xact_id_if_assigned(call: Call) -> int | None:
    return call.session.transaction.numbering.first_snapshot


@implements("pg_current_snapshot", context=True)
def pg_current_snapshot(call: Call) -> str:
    following = _next_xid(call.session)
    return str(PgSnapshot(following, following))


_FIRST_NORMAL = 3  # FirstNormalTransactionId


def _next_xid(session: Session) -> int:
    """The first ID whose transaction has not ended: this transaction's, or the next one's."""
    numbering = session.transaction.numbering
    own = numbering.first_snapshot
    return numbering.last_snapshot() + 1 if own is None else own


@implements("pg_snapshot_xmin")
def pg_snapshot_xmin(snapshot: str) -> int:
    return parse_snapshot(snapshot).xmin


@implements("pg_snapshot_xmax")
def pg_snapshot_xmax(snapshot: str) -> int:
    return parse_snapshot(snapshot).xmax


@implements("pg_snapshot_xip")
def pg_snapshot_xip(snapshot: str) -> Iterator[int]:
    return iter(parse_snapshot(snapshot).xip)


@implements("pg_visible_in_snapshot")
def pg_visible_in_snapshot(xid: int, snapshot: str) -> bool:
    return parse_snapshot(snapshot).sees(xid)


@implements("xid_age", context=True)
def xid_age(call: Call, xid: int) -> int:
    return _next_xid(call.session) - xid if xid >= _FIRST_NORMAL else 2**31 - 1


@implements("pg_xact_status", context=True)
def pg_xact_status(call: Call, xid: int) -> str | None:
    """The status of a transaction; NULL if its snapshot has expired."""
    session = call.session
    following = _next_xid(session)
    own = session.transaction.numbering.first_snapshot
    if own is not None and xid == own:
        return "in progress"
    if xid >= following:
        raise PgError("22023", f"transaction ID {xid} is in the future")
    from pgrepl.lake import sql

    found = session.link.execute(sql.IS_SNAPSHOT, (xid,))
    return "committed" if found and xid > 0 else None
