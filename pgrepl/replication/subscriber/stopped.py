"""The error that has stopped a subscription, the last one of its workers, and the way to go on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.relation import relation_or_none
from pgrepl.catalog.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.store import rows
from pgrepl.frozen import frozen
from pgrepl.replication.subscriber import state
from pgrepl.sql.quote import quote_identifier, quote_literal
from pgrepl.types.lsn import parse_lsn

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_FINISHED = re.compile(r"finished at ([0-9A-F]+/[0-9A-F]+)")


@frozen
class Stop:
    """The error of a subscription's worker. `table`: the one whose copy failed; `lsn`: where the transaction that
    failed ends, which SKIP takes."""

    subscription: str
    enabled: bool
    happened: str
    sqlstate: str
    message: str
    detail: str | None
    context: str | None
    table: str | None
    lsn: str | None

    @property
    def advice(self) -> str:
        """The way to go on, in words."""
        if self.lsn is not None:
            key = ", such as the row with this key" if (self.detail or "").startswith("Key (") else ""
            return f"Fix what is in its way here{key}, or skip the transaction."
        if self.table is not None:
            return f"Fix what is in the way of table {self.table}; it is copied again."
        return "Remove the cause; it is tried again."

    @property
    def statements(self) -> list[str]:
        """The statements to type next."""
        name = quote_identifier(self.subscription)
        found = []
        if self.lsn is not None:
            found.append(f"ALTER SUBSCRIPTION {name} SKIP (lsn = {quote_literal(self.lsn)});")
        if not self.enabled:
            found.append(f"ALTER SUBSCRIPTION {name} ENABLE;")
        return found


def stop_of(session: Session, row: tables.pg_subscription) -> Stop | None:
    """The last error of the subscription's workers; None: there is none, or they have succeeded since."""
    last = max(state.errors(session, row.oid), key=lambda error: str(error.happened), default=None)
    if last is None:
        return None
    table = relation_or_none(session, last.relid) if last.relid else None
    finished = _FINISHED.search(last.context or "")
    lsn = finished[1] if finished is not None and not last.relid else None
    if lsn is not None and row.subskiplsn == parse_lsn(lsn):
        lsn = None  # it will be skipped
    return Stop(
        row.subname,
        bool(row.subenabled),
        last.happened,
        last.sqlstate,
        last.message,
        last.detail,
        last.context,
        None if table is None else table.qualified_name,
        lsn,
    )


def stops(session: Session) -> list[Stop]:
    """The errors that have stopped the subscriptions of the session's database, as far as its role may know them."""
    found = []
    for row in sorted(rows(session, tables.pg_subscription, subdbid=session.database_oid), key=lambda row: row.oid):
        if is_superuser(session) or has_privs_of_role(session, session.role, row.subowner):
            stop = stop_of(session, row)
            found += [stop] if stop is not None else []
    return found
