"""The error that has stopped a subscription, the last one of its workers, and the way to go on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog import tables
from pgrepl.catalog.relation import relation_or_none
from pgrepl.catalog.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.store import rows
from pgrepl.errors import PgError, Report
from pgrepl.frozen import frozen
from pgrepl.replication.libpq.conninfo import FILES, parse_conninfo
from pgrepl.replication.subscriber import state
from pgrepl.replication.subscriber.advice import SKIP_LOSES, Advice, Failure, advice
from pgrepl.sql.quote import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.lsn import parse_lsn

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
        found = [(self.advice.text, self.advice.statements)]
        found += [(SKIP_LOSES, (self.skip,))] if self.skip is not None else []
        found += [("Then enable it again.", (self.enable,))] if self.enable is not None else []
        return found

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
    errors = state.errors(session, row.oid)
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
    is_new = state.remember_error(session, row.oid, relid, error)
    told: list[Report] = []
    if counts:
        state.count_error(session, row.oid, apply=not relid)
    if counts and row.subdisableonerr:
        state.disable(session, row.oid)
        row = row._replace(subenabled=False)
        told.append(Report("LOG", "00000", f'subscription "{row.subname}" has been disabled because of an error'))
    if is_new:
        (stored,) = [each for each in state.errors(session, row.oid) if each.relid == relid]
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
        row.subtwophasestate != catalog.TWO_PHASE_DISABLED,
        FILES in parse_conninfo(row.subconninfo),
    )
    return Stop(
        failure,
        bool(row.subenabled),
        last.happened,
        lsn,
        uncopied,
        len(state.table_states(session, row.oid)),
        bool(row.subdisableonerr),
    )


def stops(session: Session) -> list[Stop]:
    """The errors that have stopped the subscriptions of the session's database, as far as its role may know them. One
    that its owner has disabled is not stopped by an error."""
    found = []
    for row in sorted(rows(session, tables.pg_subscription, subdbid=session.database_oid), key=lambda row: row.oid):
        if is_superuser(session) or has_privs_of_role(session, session.role, row.subowner):
            stop = stop_of(session, row) if row.subenabled or row.subdisableonerr else None
            found += [stop] if stop is not None else []
    return found
