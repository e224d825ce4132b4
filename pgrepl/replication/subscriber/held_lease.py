"""The lease of a worker while it is held, and the subscription as it was then: whether the worker may go on with the
subscription as it is now (maybe_reread_subscription).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.roles import is_superuser

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.subscriber.heartbeat import Heartbeat


@dataclass
class HeldLease:
    """The lease, which the workers of its tables share."""

    token: str
    subscription: tables.pg_subscription
    of_superuser: bool  # was its owner a superuser then?
    heartbeat: Heartbeat | None = None

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
