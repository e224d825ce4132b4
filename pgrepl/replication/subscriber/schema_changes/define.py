"""Carries out statements that define, for a worker that holds the catalog's write lock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.transaction import LockNeeded
from pgrepl.lake.commit import LockedByOthers
from pgrepl.replication.log import ServerLog

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def define(session: Session, subscription: tables.pg_subscription, statements: Iterable[str], log: ServerLog) -> None:
    """Carry out statements, which the log names. LockedByOthers: others use the table."""
    for statement in statements:
        try:
            session.define([statement])
        except LockNeeded as needed:
            raise LockedByOthers(needed.wanted) from None
        worker = f'logical replication worker for subscription "{subscription.subname}"'
        log.log(f"{worker} follows its publisher: {_on_one_line(statement)}")


def _on_one_line(statement: str) -> str:
    return " ".join(line.strip() for line in statement.rstrip(";").splitlines())
