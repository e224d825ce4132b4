"""An idle session without its process: the next process resumes it (connection_process.py).

A session that has more than this is never released: a transaction, a cursor, temporary relations, channels that it
listens to, locks, a replication origin, the seed of its random numbers, a Spark of its own, TLS.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pgrepl import jobs
from pgrepl.catalog import sequence_positions
from pgrepl.catalog.context import Block
from pgrepl.catalog.session import Session, SessionIdentity
from pgrepl.expr.functions.random import is_seeded

if TYPE_CHECKING:
    from pgrepl.catalog.connection import Catalog
    from pgrepl.statements.plan_cache import PreparedStatement


@dataclass(frozen=True)
class IdleSession:
    """A session, and what its client knows of it."""

    database: int
    authenticated_user: int
    settings: tuple[Any, ...]
    prepared: dict[str, Any]
    sequences: tuple[dict[int, int], int | None]  # currval and lastval
    unnamed: PreparedStatement | None  # by the protocol
    told: dict[str, str]  # the settings that the client has been told
    about: Mapping[str, Any]  # what stays the same in pg_stat_activity

    def dumped(self) -> bytes:
        return pickle.dumps(self)

    @staticmethod
    def loaded(data: bytes) -> IdleSession:
        found = pickle.loads(data)
        assert isinstance(found, IdleSession)
        return found

    def session(self, hooks: Any, catalog: Catalog) -> Session:
        """The session, which was let in long ago."""
        session = Session(hooks, catalog, SessionIdentity(self.database, self.authenticated_user))
        session.settings.take_kept(self.settings)
        session.prepared.update(self.prepared)
        used = sequence_positions.used(session)
        used.values, used.last = dict(self.sequences[0]), self.sequences[1]
        return session


def may_be_released(session: Session) -> bool:
    """Is there nothing in the session that only its process has?"""
    transaction = session.transaction
    return (
        transaction.block is Block.NONE
        and not transaction.portals
        and not (transaction.notifications is not None and transaction.notifications.channels)
        and not transaction.locks.of_session
        and not session.temporary_schema
        and not session.at_close
        and session.origin is None
        and not is_seeded(session)
        and (jobs.is_shared() or not jobs.started())
    )


def idle_session_of(
    session: Session, unnamed: PreparedStatement | None, told: dict[str, str], about: Mapping[str, Any]
) -> IdleSession:
    used = sequence_positions.used(session)
    sequences, settings = (used.values, used.last), session.settings.kept()
    who = session.database_oid, session.authenticated_user
    prepared = {name: replace(each, valid=None) for name, each in session.prepared.items()}
    unnamed = None if unnamed is None else replace(unnamed, valid=None)
    return IdleSession(*who, settings, prepared, sequences, unnamed, told, about)
