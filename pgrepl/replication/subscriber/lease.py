"""The lease of a subscription: one worker at a time.

A lease is a row of the subscriber's catalog. A worker takes it, and cannot while its holder is alive; a commit of a
worker that has lost its lease fails. Beside it each table that is being copied has a row, for pg_stat_subscription.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.catalog import copies, processes, statistics, tables
from pgrepl.catalog.copies import Copying
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.store import delete, insert, one, rows, update
from pgrepl.errors import PgError
from pgrepl.replication.subscriber import meeting

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

APPLY = 0  # in place of a table: the worker of the main stream


@dataclass
class HeldLease:
    """The lease while a worker holds it. The subscription as it was then tells whether the worker may go on with it as
    it is now (maybe_reread_subscription)."""

    token: str
    subscription: tables.pg_subscription
    of_superuser: bool  # was its owner a superuser then?

    def must_restart(self, session: Session, now: tables.pg_subscription) -> bool:
        """Has the subscription changed so that the worker must restart? Not by ALTER SUBSCRIPTION … SKIP."""
        return not self._is_as(now) or (self.of_superuser and not is_superuser(session, now.subowner))

    def _is_as(self, now: tables.pg_subscription) -> bool:
        return now._replace(subskiplsn=0) == self.subscription._replace(subskiplsn=0)

    def farewell(self, now: tables.pg_subscription | None) -> str:
        """The log message about the end of the worker, which cannot go on."""
        worker = f'logical replication worker for subscription "{self.subscription.subname}"'
        if now is None:
            return f"{worker} will stop because the subscription was removed"
        if not now.subenabled:
            return f"{worker} will stop because the subscription was disabled"
        if self._is_as(now):
            return f"{worker} will restart because the subscription owner's superuser privileges have been revoked"
        return f"{worker} will restart because of a parameter change"


class LeaseHeld(Exception):
    """Another worker is at work."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"the lease is held by PID {pid}")
        self.pid = pid


def holder(session: Session, subid: int) -> tables.pgrepl_worker | None:
    """The worker that has the lease, if it is alive."""
    row = one(session, tables.pgrepl_worker, subid=subid, relid=APPLY)
    return row if row is not None and is_alive(row) else None


def is_alive(row: tables.pgrepl_worker) -> bool:
    return processes.is_at_work(row.pid, row.host, row.token, row.beat)


def take(session: Session, subid: int, token: str) -> None:
    """Take the lease, in a write transaction; an error where no more workers may run (logicalrep_worker_launch)."""
    row = holder(session, subid)
    if row is not None and row.token != token:
        raise LeaseHeld(row.pid)
    delete(session, tables.pgrepl_worker, subid=subid)
    meeting.forget_ended(session, subid)
    others = [row for row in rows(session, tables.pgrepl_worker, relid=APPLY) if is_alive(row)]
    if len(others) >= int(session.settings.get("max_logical_replication_workers")):
        raise PgError(
            "53400",
            "out of logical replication worker slots",
            hint='You might need to increase "max_logical_replication_workers".',
        )
    begin(session, subid, APPLY, token)


def begin(session: Session, subid: int, relid: int, token: str) -> None:
    """Enter the worker of a table, or of the main stream (relid APPLY)."""
    delete(session, tables.pgrepl_worker, subid=subid, relid=relid)
    insert(
        session,
        tables.pgrepl_worker,
        subid=subid,
        relid=relid,
        token=token,
        pid=processes.worker_pid(),
        host=processes.machine(),
        since=statistics.now(),
        beat=processes.now(),
        received_lsn=0,
        last_msg_send_time=None,
        last_msg_receipt_time=None,
        latest_end_lsn=0,
        latest_end_time=None,
    )


def end(session: Session, subid: int, relid: int, token: str) -> None:
    """Remove the row of a table's worker; that of the main stream is removed with those of all tables."""
    if relid == APPLY:
        delete(session, tables.pgrepl_worker, subid=subid, token=token)
        copies.ended(session, token)
    else:
        delete(session, tables.pgrepl_worker, subid=subid, relid=relid, token=token)
        copies.ended(session, token, relid)


def is_held(session: Session, subid: int, token: str) -> bool:
    row = one(session, tables.pgrepl_worker, subid=subid, relid=APPLY)
    return row is not None and row.token == token


def received(session: Session, subid: int, token: str, lsn: int, *, sent: str | None = None) -> None:
    """Enter that the worker has received all changes before an LSN."""
    moment = statistics.now()
    update(
        session,
        tables.pgrepl_worker,
        {"subid": subid, "relid": APPLY, "token": token},
        received_lsn=lsn,
        last_msg_send_time=sent or moment,
        last_msg_receipt_time=moment,
        latest_end_lsn=lsn,
        latest_end_time=sent or moment,
        beat=processes.now(),
    )


def beat(session: Session, token: str, copying: Iterable[Copying]) -> None:
    """Enter a heartbeat, with the progress of copies."""
    update(session, tables.pgrepl_worker, {"token": token}, beat=processes.now())
    for each in copying:
        if one(session, tables.pgrepl_worker, token=token, relid=each.relid) is not None:  # it has not ended meanwhile
            copies.report(session, token, each)


def workers(session: Session, subid: int) -> list[tables.pgrepl_worker]:
    """The living workers of a subscription, that of the main stream first."""
    listed = [row for row in rows(session, tables.pgrepl_worker, subid=subid) if is_alive(row)]
    return sorted(listed, key=lambda row: row.relid)
