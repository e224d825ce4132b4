"""Definitions of subscriptions to files of changes are checked when they are given: a worker would tell it late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.replication.libpq.conninfo import FILES, parse_conninfo
from pgrepl.replication.libpq.endpoints import ConnectionFailure
from pgrepl.replication.subscriber.connection import files_options

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def check_files_options(session: Session, conninfo: str, *, two_phase: bool, failover: bool) -> None:
    """Raise for what no subscription to files may have. Neither the files nor the database are looked for."""
    options = parse_conninfo(conninfo)
    if FILES not in options:
        return
    for name, is_on in (("two_phase", two_phase), ("failover", failover)):
        if is_on:
            raise PgError("0A000", f"{name} is not supported for files of changes")
    try:
        files_options(session, options)
    except ConnectionFailure as failure:
        raise PgError("22023", str(failure)) from None
