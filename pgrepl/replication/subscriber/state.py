"""The state of a subscription in the catalog, as its workers read and change it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog import tables
from pgrepl.catalog.store import delete, insert, one, rows, update
from pgrepl.errors import PgError
from pgrepl.replication.origins import advance_origin, origin_progress
from pgrepl.replication.publisher.protocol import StreamRequest
from pgrepl.replication.subscriber import ranges

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def enabled_subscriptions(session: Session) -> list[tables.pg_subscription]:
    """The enabled subscriptions of the session's database that have a slot, in the order of their creation."""
    found = rows(session, tables.pg_subscription, subdbid=session.database_oid)
    return sorted((row for row in found if row.subenabled and row.subslotname), key=lambda row: row.oid)


def request(subscription: tables.pg_subscription, slot: str, start: int, end: int) -> StreamRequest:
    """The transactions between two LSNs that a slot sends to the subscription."""
    local_only = bool(subscription.suborigin.lower() == "none")
    return StreamRequest(slot, tuple(subscription.subpublications), start, end, local_only)


def position(session: Session, subid: int, only: int = 0) -> int:
    """The LSN from which the main stream goes on, or that of one table; 0: it has not begun."""
    return origin_progress(session, catalog.origin_name(subid, only)) or 0


def move(session: Session, subid: int, lsn: int, only: int = 0) -> None:
    advance_origin(session, catalog.origin_name(subid, only), lsn, session.transaction.numbering.last_snapshot() + 1)


def caught_up(session: Session, subid: int, moment: str) -> None:
    """Note that all changes have been applied that the publisher had at a moment."""
    update(session, tables.pg_replication_origin, {"roname": catalog.origin_name(subid)}, caught_up=moment)


def table_states(session: Session, subid: int) -> dict[int, tuple[str, int]]:
    """The state (srsubstate) and the LSN (srsublsn, or 0) of each table."""
    listed = rows(session, tables.pg_subscription_rel, srsubid=subid)
    return {row.srrelid: (row.srsubstate, row.srsublsn or 0) for row in listed}


def states_for(session: Session, subid: int, only: int) -> dict[int, tuple[str, int]]:
    """The states by which changes are applied: for a table's own stream (`only`) those of this table alone are."""
    return {only: (catalog.READY, 0)} if only else table_states(session, subid)


def table_state(session: Session, subid: int, relid: int) -> str:
    """The state of one table; empty: the table is not subscribed."""
    row = one(session, tables.pg_subscription_rel, srsubid=subid, srrelid=relid)
    return "" if row is None else row.srsubstate


def applies_from(states: Mapping[int, tuple[str, int]], relid: int) -> int | None:
    """The finish LSN from which on transactions are applied to a table: its copy has those before
    (should_apply_changes_for_rel). None: none is applied yet."""
    current, since = states.get(relid, ("", 0))
    if current == catalog.READY:
        return 0
    return since if current == catalog.SYNC_DONE else None


def set_table_state(session: Session, subid: int, relid: int, state: str, lsn: int | None) -> None:
    update(session, tables.pg_subscription_rel, {"srsubid": subid, "srrelid": relid}, srsubstate=state, srsublsn=lsn)


def unsettled(session: Session, subid: int, lsn: int, besides: Collection[int]) -> dict[int, int]:
    """The copied tables that become ready at this position, `besides` some, and their LSNs."""
    states = table_states(session, subid).items()
    return {
        relid: since
        for relid, (state, since) in states
        if state == catalog.SYNC_DONE and since <= lsn and relid not in besides
    }


def settle_tables(session: Session, subid: int, lsn: int, besides: Collection[int]) -> None:
    """Set copied tables that the main stream has caught up with to ready."""
    for relid, since in unsettled(session, subid, lsn, besides).items():
        set_table_state(session, subid, relid, catalog.READY, since)
        ranges.forget(session, subid, relid)


def two_phase_can_begin(session: Session, subscription: tables.pg_subscription) -> bool:
    """Whether two_phase is requested but not yet enabled, and all tables are ready (AllTablesyncsReady)."""
    if subscription.subtwophasestate != catalog.TWO_PHASE_PENDING:
        return False
    states = table_states(session, subscription.oid)
    return bool(states) and all(current == catalog.READY for current, _ in states.values())


def enable_two_phase(session: Session, subid: int) -> None:
    update(session, tables.pg_subscription, {"oid": subid}, subtwophasestate=catalog.TWO_PHASE_ENABLED)


def clear_skip(session: Session, subid: int) -> None:
    update(session, tables.pg_subscription, {"oid": subid}, subskiplsn=0)


def disable(session: Session, subid: int) -> None:
    update(session, tables.pg_subscription, {"oid": subid}, subenabled=False)


def count_error(session: Session, subid: int, *, apply: bool) -> None:
    row = one(session, tables.pg_stat_subscription_stats, subid=subid)
    if row is None:
        return
    column = "apply_error_count" if apply else "sync_error_count"
    update(session, tables.pg_stat_subscription_stats, {"subid": subid}, **{column: getattr(row, column) + 1})


def remember_error(session: Session, subid: int, relid: int, error: PgError) -> bool:
    """Store the error that ended the worker of the main stream (`relid` 0) or of a table. True: it is another one than
    before."""
    known = one(session, tables.pgrepl_subscription_error, subid=subid, relid=relid)
    delete(session, tables.pgrepl_subscription_error, subid=subid, relid=relid)
    insert(
        session,
        tables.pgrepl_subscription_error,
        subid=subid,
        relid=relid,
        happened=datetime.now(timezone.utc).isoformat(sep=" "),
        sqlstate=error.sqlstate,
        message=error.message,
        detail=error.report.detail,
        hint=error.report.hint,
        context=error.report.context,
    )
    said = (error.sqlstate, error.message, error.report.detail)
    return known is None or (known.sqlstate, known.message, known.detail) != said


def errors(session: Session, subid: int) -> list[tables.pgrepl_subscription_error]:
    """The errors that ended its workers, without those of workers that have succeeded since."""
    return rows(session, tables.pgrepl_subscription_error, subid=subid)


def forget_errors(session: Session, subid: int, relid: int) -> None:
    delete(session, tables.pgrepl_subscription_error, subid=subid, relid=relid)
