"""Retention of histories: what ended longer ago than pgrepl.history_retention leaves a log (catalog/facts/history.py).

Versions that are still valid, or were within that time, are kept, however old. What is left begins the history anew:
the update that brought such a version becomes a copy, as what it replaced is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import history
from pgrepl.catalog.facts.history import COPY, OLD
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_class
from pgrepl.replication.wire.pgoutput import now
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.types import oids
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def logs(session: Session) -> Iterator[Relation]:
    """The logs of the database whose tables are there."""
    for row in rows(session, pg_class, datid=session.database_oid, relkind="r"):
        if "_history" in row.relname:
            found = relation(session, row.oid)
            if history.is_log(found) and history.table_of(session, found) is not None:
                yield found


def trim(session: Session, log: Relation) -> None:
    """Remove what is older than the retention; holding the write lock."""
    seconds = int(session.settings.value("pgrepl.history_retention"))
    table = history.table_of(session, log) if history.is_log(log) else None
    if not seconds or table is None:
        return
    session.transaction.require_write()
    since = quote_literal(write_text(now() - seconds * 1_000_000, oids.TIMESTAMPTZ, session.text_style))
    name = quote_qualified(log.schema, log.name)
    keys, _ = history.key_names(session, table)
    forgotten = ", ".join(f"{quote_identifier(OLD + key)} = NULL" for key in keys)
    ended = history.versions_sql(session, table, log, places=True)
    statements = [
        f"DELETE FROM {name} WHERE committed_at < {since} AND (operation IN ('delete', 'truncate')"
        f" OR (lsn, change) IN (SELECT lsn, change FROM ({ended}) AS v WHERE valid_to < {since}))",
        f"UPDATE {name} SET operation = '{COPY}', {forgotten} WHERE committed_at < {since} AND operation = 'update'",
    ]
    with session.acting_as(log.owner):
        session.define(statements)
