"""Recovery: an instance that follows another (a standby) is read-only until it is promoted.

Where PostgreSQL has a file `standby.signal`, the catalog has a row in pgrepl_setting. Every session reads it again
after another session's commit, so that connected sessions notice a promotion. The session that replays the primary's
changes (`session.replays`) may write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection
    from pgrepl.catalog.context import CatalogSession

STANDBY = "in_hot_standby"  # the row's name, and the setting that shows it


def is_standby(link: CatalogConnection) -> bool:
    """Is the instance a standby, by the catalog as it is now?"""
    return bool(link.execute("SELECT 1 FROM pgrepl_setting WHERE name = ?", (STANDBY,)))


def in_recovery(session: CatalogSession) -> bool:
    """As RecoveryInProgress."""
    session.transaction.require_read()
    return session.transaction.in_recovery


def refuse_in_recovery(session: CatalogSession, what: str) -> None:
    """As PreventCommandDuringRecovery."""
    if in_recovery(session):
        raise PgError("25006", f"cannot execute {what} during recovery")


def require_recovery(session: CatalogSession) -> None:
    if not in_recovery(session):
        raise PgError(
            "55000",
            "recovery is not in progress",
            hint="Recovery control functions can only be executed during recovery.",
        )


def control_functions_refused() -> PgError:
    """The error of functions that ask for the end of WAL, which a standby only replays."""
    return PgError("55000", "recovery is in progress", hint="WAL control functions cannot be executed during recovery.")
