"""LISTEN, UNLISTEN and NOTIFY."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.notifications import notifications
from pgrepl.catalog.recovery import refuse_in_recovery
from pgrepl.query.result import Result

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.sql.nodes import ListenStmt, NotifyStmt, UnlistenStmt


def listen(stmt: ListenStmt, session: Session) -> Result:
    refuse_in_recovery(session, "LISTEN")
    notifications(session).listen(stmt.channel)
    return Result("LISTEN")


def unlisten(stmt: UnlistenStmt, session: Session) -> Result:
    if session.transaction.notifications is not None:
        session.transaction.notifications.unlisten(stmt.channel)
    return Result("UNLISTEN")


def notify(stmt: NotifyStmt, session: Session) -> Result:
    refuse_in_recovery(session, "NOTIFY")
    notifications(session).notify(stmt.channel, stmt.payload)
    return Result("NOTIFY")


__all__ = ["listen", "notify", "unlisten"]
