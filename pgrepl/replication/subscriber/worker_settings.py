"""The settings of a worker's session: those of its owner and database, of the command that it works for, and of all
workers (InitializeLogRepWorker).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.login import admit, apply_stored_settings
from pgrepl.catalog.roles import role_name
from pgrepl.catalog.settings import Settings
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.subscriber.failures import WorkerFailed

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_OF_WORKERS = (
    ("search_path", ""),
    ("session_replication_role", "replica"),
    ("client_min_messages", "debug5"),  # messages go to the log, which filters by log_min_messages
)


@frozen
class WorkerSettings:
    """The settings that a worker has been started with."""

    command: Settings
    patience: float | None  # the seconds that it waits for the catalog's write lock, if not the usual ones

    def begin(self, session: Session) -> None:
        """Apply them before the subscription is known."""
        session.settings.take_command(self.command)
        if self.patience is not None:
            session.settings.set_default("lock_timeout", f"{int(self.patience * 1000)}ms", complain=False)

    def admit(self, session: Session, subscription: tables.pg_subscription) -> None:
        """Connect as the subscription's owner, who needs the usual privileges (InitializeApplyWorker), with the present
        settings."""
        try:
            admit(session, role_name(session, subscription.subowner), session.database.name)
        except PgError as error:
            raise WorkerFailed(error, began=False) from None
        session.authenticated_user = subscription.subowner
        session.act_as(BOOTSTRAP_SUPERUSER)  # for the worker's own reads and writes
        session.settings.forget_stored()
        apply_stored_settings(session, subscription.subowner, session.database_oid)
        self.begin(session)
        for name, value in (*_OF_WORKERS, ("synchronous_commit", subscription.subsynccommit)):
            session.settings.set_default(name, value, complain=False, source="override")
