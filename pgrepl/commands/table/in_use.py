"""Tables that cannot change while the transaction has still to look at rows of them (CheckTableNotInUse)."""

from __future__ import annotations

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError


def check_not_in_use(session: Session, rel: Relation, what: str) -> None:
    """`what`: ALTER TABLE, DROP TABLE …"""
    if not session.transaction.before_commit:
        return
    from pgrepl.commands.dml.foreign import pending

    if pending(session, rel.oid):
        raise PgError("55006", f'cannot {what} "{rel.name}" because it has pending trigger events')
