"""The state of a subscription in the catalog, as its workers read and change it, the error that has stopped it among
it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import relation_or_none
from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, one, rows, update
from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.frozen import frozen
from pgrepl.replication.conninfo import FILES, parse_conninfo
from pgrepl.replication.origins import advance_origin, origin_progress
from pgrepl.replication.publisher.protocol import StreamRequest
from pgrepl.replication.subscriber.advice import SKIP_LOSES, Advice, Failure, advice
from pgrepl.replication.subscriber.copying import ranges
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.plain import parse_lsn

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def enabled_subscriptions(session: Session) -> list[tables.pg_subscription]:
    """The enabled subscriptions of the session's database that have a slot, in the order of their creation."""
    subscriptions_here = rows(session, tables.pg_subscription, subdbid=session.database_oid)
    return sorted((row for row in subscriptions_here if row.subenabled and row.subslotname), key=lambda row: row.oid)


def request(subscription: tables.pg_subscription, slot: str, start: int, end: int) -> StreamRequest:
    """The transactions between two LSNs that a slot sends to the subscription."""
    local_only = bool(subscription.suborigin.lower() == "none")
    tells = subscription.subschemachanges == subscriptions.ALL
    return StreamRequest(slot, tuple(subscription.subpublications), start, end, local_only, tells)


def position(session: Session, subid: int, only: int = 0) -> int:
    """The LSN from which the main stream goes on, or that of one table; 0: it has not begun."""
    return origin_progress(session, subscriptions.origin_name(subid, only)) or 0


def move(session: Session, subid: int, lsn: int, only: int = 0) -> None:
    advance_origin(
        session, subscriptions.origin_name(subid, only), lsn, session.transaction.numbering.last_snapshot() + 1
    )


def caught_up(session: Session, subid: int, moment: str) -> None:
    """Note that all changes have been applied that the publisher had at a moment."""
    update(session, tables.pg_replication_origin, {"roname": subscriptions.origin_name(subid)}, caught_up=moment)


def table_states(session: Session, subid: int) -> dict[int, tuple[str, int]]:
    """The state (srsubstate) and the LSN (srsublsn, or 0) of each table."""
    listed = subscriptions.subscription_relations(session, subid)
    return {row.srrelid: (row.srsubstate, row.srsublsn or 0) for row in listed}


def all_ready(session: Session, subid: int) -> bool:
    """Are all tables copied, and all sequences synchronized?"""
    return all(
        row.srsubstate == subscriptions.READY for row in rows(session, tables.pg_subscription_rel, srsubid=subid)
    )


def states_for(session: Session, subid: int, only: int) -> dict[int, tuple[str, int]]:
    """The states by which changes are applied: for a table's own stream (`only`) those of this table alone are."""
    return {only: (subscriptions.READY, 0)} if only else table_states(session, subid)


def table_state(session: Session, subid: int, relid: int) -> str:
    """The state of one table; empty: the table is not subscribed."""
    row = one(session, tables.pg_subscription_rel, srsubid=subid, srrelid=relid)
    return "" if row is None else row.srsubstate


def applies_from(states: Mapping[int, tuple[str, int]], relid: int) -> int | None:
    """The finish LSN from which on transactions are applied to a table: its copy has those before
    (should_apply_changes_for_rel). None: none is applied yet."""
    current, since = states.get(relid, ("", 0))
    if current == subscriptions.READY:
        return 0
    return since if current == subscriptions.SYNC_DONE else None


def set_table_state(session: Session, subid: int, relid: int, state: str, lsn: int | None) -> None:
    update(session, tables.pg_subscription_rel, {"srsubid": subid, "srrelid": relid}, srsubstate=state, srsublsn=lsn)


def unsettled(session: Session, subid: int, lsn: int, besides: Collection[int]) -> dict[int, int]:
    """The copied tables that become ready at this position, `besides` some, and their LSNs."""
    states = table_states(session, subid).items()
    return {
        relid: since
        for relid, (state, since) in states
        if state == subscriptions.SYNC_DONE and since <= lsn and relid not in besides
    }


def settle_tables(session: Session, subid: int, lsn: int, besides: Collection[int]) -> None:
    """Set copied tables that the main stream has caught up with to ready."""
    for relid, since in unsettled(session, subid, lsn, besides).items():
        set_table_state(session, subid, relid, subscriptions.READY, since)
        ranges.forget(session, subid, relid)


def two_phase_can_begin(session: Session, subscription: tables.pg_subscription) -> bool:
    """Whether two_phase is requested but not yet enabled, and all tables are ready (AllTablesyncsReady)."""
    if subscription.subtwophasestate != subscriptions.TWO_PHASE_PENDING:
        return False
    states = table_states(session, subscription.oid)
    return bool(states) and all(current == subscriptions.READY for current, _ in states.values())


def enable_two_phase(session: Session, subid: int) -> None:
    update(session, tables.pg_subscription, {"oid": subid}, subtwophasestate=subscriptions.TWO_PHASE_ENABLED)


def renew_two_phase(session: Session, subscription: tables.pg_subscription) -> None:
    """Have two_phase, if it is enabled, be enabled once more, for a new slot."""
    if subscription.subtwophasestate == subscriptions.TWO_PHASE_ENABLED:
        oid = {"oid": subscription.oid}
        update(session, tables.pg_subscription, oid, subtwophasestate=subscriptions.TWO_PHASE_PENDING)


def clear_skip(session: Session, subid: int) -> None:
    update(session, tables.pg_subscription, {"oid": subid}, subskiplsn=0)


def _remember_error(session: Session, subid: int, relid: int, error: PgError) -> bool:
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


def stored_errors(session: Session, subid: int) -> list[tables.pgrepl_subscription_error]:
    """The errors that ended its workers, without those of workers that have succeeded since."""
    return rows(session, tables.pgrepl_subscription_error, subid=subid)


def forget_errors(session: Session, subid: int, relid: int) -> None:
    delete(session, tables.pgrepl_subscription_error, subid=subid, relid=relid)


# --- stopped ----------------------------------------------------------------------------------------------------------


_FINISHED = re.compile(r"finished at ([0-9A-F]+/[0-9A-F]+)")


@frozen
class Stop:
    """The error of a subscription's worker. `lsn`: where the transaction that failed ends, which SKIP takes;
    `uncopied`: how many of its `tables` could not be copied; `disables`: do errors disable it?"""

    failure: Failure
    enabled: bool
    happened: str
    lsn: str | None = None
    uncopied: int = 0
    tables: int = 0
    disables: bool = True

    @property
    def headline(self) -> str:
        """What has become of the subscription."""
        name = f'subscription "{self.failure.subscription}"'
        if not self.enabled:
            return f"{name} is disabled by an error" if self.disables else f"{name} is disabled"
        if self.failure.waits:
            return f"{name} waits for its publisher"
        if self.failure.table is not None:
            what = f"{self.uncopied} of {self.tables} tables" if self.uncopied > 1 else f"table {self.failure.table}"
            return f"{name} could not copy {what}"
        return f"{name} is stopped by an error"

    @property
    def advice(self) -> Advice:
        return advice(self.failure)

    @property
    def skip(self) -> str | None:
        """The statement that skips the transaction, if it failed in one."""
        if self.lsn is None:
            return None
        return (
            f"ALTER SUBSCRIPTION {quote_identifier(self.failure.subscription)} SKIP (lsn = {quote_literal(self.lsn)});"
        )

    @property
    def enable(self) -> str | None:
        """The statement that enables the subscription again, if it is disabled."""
        return None if self.enabled else f"ALTER SUBSCRIPTION {quote_identifier(self.failure.subscription)} ENABLE;"

    @property
    def steps(self) -> list[tuple[str, tuple[str, ...]]]:
        """What to do, in words, each with the statements to type; what loses something comes last."""
        steps = [(self.advice.text, self.advice.statements)]
        steps += [(SKIP_LOSES, (self.skip,))] if self.skip is not None else []
        steps += [("Then enable it again.", (self.enable,))] if self.enable is not None else []
        return steps

    def report(self, severity: str) -> Report:
        """The stop as a message of a shell; or of the log, which has the error itself."""
        failure = self.failure
        about = f"{failure.table}: " if self.uncopied > 1 else ""
        detail = about + failure.message + ("" if failure.detail is None else f": {failure.detail}")
        words = [] if failure.hint is None else [failure.hint]
        words += [" ".join([text, *statements]) for text, statements in self.steps]
        is_logged = severity == "LOG"
        return Report(severity, failure.sqlstate, self.headline, None if is_logged else detail, " ".join(words))


def stop_of(session: Session, row: tables.pg_subscription) -> Stop | None:
    """The last error of the subscription's workers; None: there is none, or they have succeeded since. Of copies that
    have failed, the first table's."""
    errors = stored_errors(session, row.oid)
    if not errors:
        return None
    last = max(errors, key=lambda error: str(error.happened))
    copies = [error for error in errors if error.relid]
    return _stop(session, row, min(copies, key=lambda error: error.relid) if last.relid else last, len(copies))


def remember(
    session: Session, row: tables.pg_subscription, relid: int, error: PgError, *, counts: bool
) -> list[Report]:
    """Store the error that ended the worker of the main stream (`relid` 0) or of a table. `counts`: count it, and
    disable the subscription if it asks for that. Returns what the log has to tell: of an error that comes again,
    nothing."""
    is_new = _remember_error(session, row.oid, relid, error)
    told: list[Report] = []
    counted = one(session, tables.pg_stat_subscription_stats, subid=row.oid) if counts else None
    if counted is not None:
        column = "sync_error_count" if relid else "apply_error_count"
        counter = {column: getattr(counted, column) + 1}
        update(session, tables.pg_stat_subscription_stats, {"subid": row.oid}, **counter)
    if counts and row.subdisableonerr:
        update(session, tables.pg_subscription, {"oid": row.oid}, subenabled=False)
        row = row._replace(subenabled=False)
        told.append(Report("LOG", "00000", f'subscription "{row.subname}" has been disabled because of an error'))
    if is_new:
        (stored,) = [stop for stop in stored_errors(session, row.oid) if stop.relid == relid]
        told.append(_stop(session, row, stored, 1).report("LOG"))
    return told


def _stop(session: Session, row: tables.pg_subscription, last: tables.pgrepl_subscription_error, uncopied: int) -> Stop:
    table = relation_or_none(session, last.relid) if last.relid else None
    finished = _FINISHED.search(last.context or "")
    lsn = finished[1] if finished is not None and not last.relid else None
    if lsn is not None and row.subskiplsn == parse_lsn(lsn):
        lsn = None  # it will be skipped
    failure = Failure(
        row.subname,
        last.sqlstate,
        last.message,
        last.detail,
        last.hint,
        last.context,
        None if table is None else quote_qualified(table.schema, table.name),
        row.subschemachanges,
        row.subtwophasestate != subscriptions.TWO_PHASE_DISABLED,
        FILES in parse_conninfo(row.subconninfo),
    )
    return Stop(
        failure,
        bool(row.subenabled),
        last.happened,
        lsn,
        uncopied,
        len(table_states(session, row.oid)),
        bool(row.subdisableonerr),
    )


def stops(session: Session) -> list[Stop]:
    """The errors that have stopped the subscriptions of the session's database, as far as its role may know them. One
    that its owner has disabled is not stopped by an error."""
    stopped = []
    for row in sorted(rows(session, tables.pg_subscription, subdbid=session.database_oid), key=lambda row: row.oid):
        if is_superuser(session) or has_privs_of_role(session, session.role, row.subowner):
            stop = stop_of(session, row) if row.subenabled or row.subdisableonerr else None
            stopped += [stop] if stop is not None else []
    return stopped
