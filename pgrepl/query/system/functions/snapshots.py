"""pg_export_snapshot() (snapmgr.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.exported_snapshots import export_snapshot
from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.lake.snapshot_pins import pin

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

implements = Family()


@implements("pg_export_snapshot", context=True)
def pg_export_snapshot(call: Call) -> str:
    """The transaction's snapshot without what it has written itself, as that is not committed."""
    session = call.session
    numbering = session.transaction.numbering
    own = numbering.first_snapshot
    return export(session, numbering.committed_snapshot() if own is None else own - 1)


def export(session: Session, snapshot: int) -> str:
    """Export a snapshot, and keep its files."""
    if session.transaction.savepoints:
        raise PgError("25001", "cannot export a snapshot from a subtransaction")
    pin(session, snapshot)
    return export_snapshot(session, snapshot)


__all__ = ["export", "implements"]
