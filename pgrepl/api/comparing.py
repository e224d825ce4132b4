"""Comparing and repairing a subscription's tables: what `pgrepl.compare()`, `pgrepl.repair()` and the commands of these
names do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pgrepl.api.replication import Catalog, at_work
from pgrepl.api.rounds import server_log, undisturbed
from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.session.context import in_recovery
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_subscription
from pgrepl.ground.errors import PgError
from pgrepl.replication.comparison.compare import Comparer, Options
from pgrepl.replication.comparison.found import Progress
from pgrepl.replication.comparison.repair import Repairer

if TYPE_CHECKING:
    from pgrepl.api.opened import OpenedSession
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.comparison.compare import Comparison
    from pgrepl.replication.comparison.repair import Repaired

    Kind = TypeVar("Kind", bound=Comparer)


@contextmanager
def comparer(
    session: Session,
    name: str,
    options: Options,
    progress: Progress,
    log_file: Path | None,
    *,
    everywhere: bool,
    kind: type[Kind],
) -> Iterator[Kind]:
    """Who compares, or repairs, the subscription of this name: one of the session's database, or of any."""
    found = _subscription(session, name, everywhere=everywhere)
    there = session.elsewhere(found.subdbid, session.role, apart=True)
    there.settings.take_client(session.settings)
    opened = kind(there, found.oid, server_log(log_file), options, progress)
    try:
        yield opened
    finally:
        with undisturbed():
            opened.close()
            there.close()


@contextmanager
def _made(opened: OpenedSession, name: str, options: Options, dbname: str | None, kind: type[Kind]) -> Iterator[Kind]:
    with comparer(
        opened.session, name, options, Progress(), Path(os.devnull), everywhere=dbname is None, kind=kind
    ) as made:
        yield made


def _subscription(session: Session, name: str, *, everywhere: bool) -> pg_subscription:
    with reading(session):
        if in_recovery(session):
            raise PgError("55000", "recovery is in progress", hint="Compare the primary.")
        where = {} if everywhere else {"subdbid": session.database_oid}
        named = rows(session, pg_subscription, subname=name, **where)
        if not named:
            raise PgError("42704", f'subscription "{name}" does not exist')
        if len(named) > 1:
            raise PgError("42725", f'several databases have a subscription "{name}"', hint="Name one with -d.")
        if not is_superuser(session, session.role) and not has_privs_of_role(session, session.role, named[0].subowner):
            raise PgError("42501", f"must be owner of subscription {name}")
    return named[0]


# --- for programs -----------------------------------------------------------------------------------------------------


def compare(
    catalog: Catalog = None,
    *,
    subscription: str,
    tables: Sequence[str] = (),
    limit: int | None = None,
    max_connections: int = 2,
    rows_per_second: int | None = None,
    timeout: float = 60.0,
    dbname: str | None = None,
    user: str | None = None,
) -> Comparison:
    """Compare the rows of a subscription's tables with its publisher's, at one LSN; `limit`: differences of a table."""
    options = Options(tuple(tables), limit, max_connections, rows_per_second, timeout)
    with at_work(catalog, dbname, user, None) as opened, _made(opened, subscription, options, dbname, Comparer) as made:
        return made.compare()


def repair(
    catalog: Catalog = None,
    *,
    subscription: str,
    tables: Sequence[str] = (),
    max_connections: int = 2,
    rows_per_second: int | None = None,
    timeout: float = 60.0,
    dbname: str | None = None,
    user: str | None = None,
) -> Repaired | None:
    """Repair what such a comparison finds, in one commit; None: both sides are equal."""
    options = Options(tuple(tables), None, max_connections, rows_per_second, timeout)
    with at_work(catalog, dbname, user, None) as opened, _made(opened, subscription, options, dbname, Repairer) as made:
        found = made.look()
        return made.repair(found) if made.new_slot is not None or not found.is_equal else None
