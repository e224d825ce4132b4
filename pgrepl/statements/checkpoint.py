"""CHECKPOINT: writes committed changes from the log into catalog.db, and syncs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.disk import sync_log
from pgrepl.catalog.roles import has_privs_of_role as may_act_as
from pgrepl.catalog.roles import role_or_none
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CheckPointStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def checkpoint(stmt: CheckPointStmt, session: Session) -> Result:
    allowed = role_or_none(session, "pg_checkpoint")
    if allowed is None or not may_act_as(session, session.role, allowed.oid):
        raise PgError(
            "42501",
            "permission denied to execute CHECKPOINT command",
            detail='Only roles with privileges of the "pg_checkpoint" role may execute this command.',
        )
    catalog = session.catalog
    if catalog.path is not None:  # a server does so by itself
        sync_log(catalog.path)
        link = catalog.connect()
        try:
            link.execute("PRAGMA wal_checkpoint(PASSIVE)")  # pages that other connections need stay in the log
        finally:
            link.close()
    return Result("CHECKPOINT")
