"""The relation that COPY names: finding it, and whether it is of a kind that can be copied."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, find_relation
from pgrepl.catalog.store import one
from pgrepl.catalog.tables import pg_class
from pgrepl.errors import PgError
from pgrepl.lake import sql
from pgrepl.rows.trigger_data import TriggerEvent
from pgrepl.rows.triggers import has_instead_trigger

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.sql.nodes import RangeVar

_WORDS = {"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "p": "partitioned table"}


def open_relation(session: Session, name: RangeVar) -> Relation:
    """As table_openrv: without a place in the text, and no index."""
    found = find_relation(session, replace(name, location=-1))
    if found.kind in ("i", "I"):
        raise PgError(
            "42809",
            f'cannot open relation "{found.name}"',
            detail="This operation is not supported for "
            + ("indexes." if found.kind == "i" else "partitioned indexes."),
        )
    return found


def check_source(found: Relation) -> None:
    """COPY TO reads tables only."""
    if found.kind == "r":
        return
    what = f'{_WORDS.get(found.kind, "non-table relation")} "{found.name}"'
    hint = "Try the COPY (SELECT ...) TO variant." if found.kind in "vmfp" else None
    raise PgError("42809", f"cannot copy from {what}", hint=hint)


def check_target(session: Session, found: Relation) -> None:
    """COPY FROM fills tables only; a partitioned one hands its rows on, as do INSTEAD OF triggers of a view."""
    if found.kind in ("r", "p", "f"):
        return
    if found.kind == "v" and has_instead_trigger(session, found.oid, TriggerEvent.INSERT):
        return
    what = f'{_WORDS.get(found.kind, "non-table relation")} "{found.name}"'
    hint = "To enable copying to a view, provide an INSTEAD OF INSERT trigger." if found.kind == "v" else None
    raise PgError("42809", f"cannot copy to {what}", hint=hint)


def check_freeze(session: Session, found: Relation) -> None:
    """FREEZE is for tables that no other transaction can have seen yet."""
    if found.kind == "p":
        raise PgError("0A000", "cannot perform COPY FREEZE on a partitioned table")
    if not _is_new(session, found):
        raise PgError(
            "55000",
            "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction",
        )


def _is_new(session: Session, found: Relation) -> bool:
    """Whether this transaction created or truncated the table."""
    first = session.transaction.numbering.first_snapshot
    if first is None:
        return False
    link = session.link
    row = one(session, pg_class, oid=found.oid)
    assert row is not None
    begun = link.execute(sql.TABLE_BEGUN, (row.table_id,))[0][0]
    if begun is None or int(begun) >= first:
        return True
    noted = [json.loads(extra or "{}") for (extra,) in link.execute(sql.EXTRA_INFO_FROM, (first,))]
    return any(found.oid in extra.get("truncate", {}).get("tables", ()) for extra in noted)
