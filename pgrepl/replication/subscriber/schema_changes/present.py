"""Definitions that a server's stream does not tell, as no event triggers write them (schema_changes = all): its catalog
is asked, which is ahead of the stream.

What lets more rows in is followed at once, as such rows are perhaps still to come: NOT NULL is dropped. All else waits
until the stream has come to the position at which the catalog was read, as rows before it may lack what they have then:

    INSERT a = NULL    UPDATE a = 1    SET NOT NULL    ← the catalog is read here: a NOT NULL
    ↑ the stream is here                                 a gets NOT NULL when the stream is there

Columns come from the stream alone: a table with other columns than it has described waits for its next row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import relation_or_none
from pgrepl.catalog.store import store, tables
from pgrepl.ground.frozen import frozen
from pgrepl.replication.publisher.definitions import Told, ToldEnum
from pgrepl.replication.publisher.protocol import Publisher
from pgrepl.replication.subscriber import state
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.lease import asking, working
from pgrepl.replication.subscriber.schema_changes.follow import Following

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_LOOK = 1.0  # seconds between two looks of a follower
_TRIES, _PAUSE = 10, 0.1  # seconds; until the server has written what its catalog has


@frozen
class _Pending:
    """What is to be followed when the stream has come to `lsn`."""

    lsn: int
    told: Told


class PresentDefinitions:
    """The definitions that a worker asks for."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._pending: _Pending | None = None
        self._seen: dict[int, str] = {}  # the versions of tables that are followed as they are
        self._looked_at = 0.0
        self._owes = False  # it was put off

    def puts_off(self, *, at_once: bool) -> bool:
        """Whether to ask later, when it `is_owed`. A follower asks now and then, and not before it has followed what it
        was told; another worker asks each time."""
        self._owes = not at_once and (self._pending is not None or not self._is_rested)
        return self._owes

    @property
    def is_owed(self) -> bool:
        return self._owes and self._is_rested

    @property
    def _is_rested(self) -> bool:
        return time.monotonic() - self._looked_at >= _LOOK

    def ask(self, subscription: tables.pg_subscription, publisher: Publisher, enums: Sequence[ToldEnum]) -> bool:
        """Whether something is to be followed at once (`loosen`). `enums`: those with other labels."""
        session = self._context.session
        self._looked_at, self._pending = time.monotonic(), None
        known = _known(session, subscription)
        versions = publisher.catalog.table_versions([oid for oid, *_ in known])
        if versions is None:
            return False
        asked = [table for table in known if versions.get(table[0]) != self._seen.get(table[0], "")]
        if not asked and not enums:
            return False
        # of enums alone the position is needed
        present = publisher.catalog.present_tables(asked or known[:1], subscription.subpublications)
        following = self._following(subscription, publisher)
        differing = tuple([table for table in present.tables if following.differs_now(table, has_columns=False)])
        self._seen = {oid: version for oid, version in versions.items() if all(table.oid != oid for table in differing)}
        if differing or present.dropped or enums:
            self._pending = _Pending(present.lsn, Told(differing, tuple(enums), present.dropped))
        return any(following.loosens(table) for table in differing)

    def loosen(self, subscription: tables.pg_subscription, publisher: Publisher) -> None:
        """Follow what lets more rows in; holding the write lock, as the subscription's owner."""
        if self._pending is not None:
            following = self._following(subscription, publisher)
            for table in self._pending.told.tables:
                following.loosen(table)

    def follow(self, catch_up: Callable[[], bool], *, at_once: bool) -> None:
        """Follow the rest, if the stream has come so far. `at_once`: `catch_up` with that first, as long as it can."""
        if self._pending is None:
            return
        tries = _TRIES if at_once else 0
        while not self._has_come(self._pending):
            if not tries:
                return
            tries -= 1
            time.sleep(_PAUSE)
            if not catch_up():
                return
        self._follow(self._pending)
        self._pending = None

    def _has_come(self, pending: _Pending) -> bool:
        with self._context.transaction() as subscription:
            return state.position(self._context.session, subscription.oid) >= pending.lsn

    def _follow(self, pending: _Pending) -> None:
        session = self._context.session
        with self._context.transaction() as subscription:
            publisher = self._context.connection.publisher(subscription)
            following = self._following(subscription, publisher)
            ready = [table for table in pending.told.tables if following.differs_now(table, has_columns=True)]
            if not (ready or pending.told.enums or pending.told.dropped):
                return
            with asking():
                following.ask_present(ready, pending.lsn)
            self._context.lock(subscription, state.position(session, subscription.oid))
            with session.acting_as(subscription.subowner), working():
                for table in ready:
                    following.follow_present(table, pending.lsn)
                following.follow_told(replace(pending.told, tables=()), 0, pending.lsn)

    def _following(self, subscription: tables.pg_subscription, publisher: Publisher) -> Following:
        return Following(self._context.session, subscription, publisher, self._context.log, set())


def _known(session: Session, subscription: tables.pg_subscription) -> list[tuple[int, str, str]]:
    """The tables that are followed: their numbers at the publisher, and their names here."""
    states = state.table_states(session, subscription.oid)
    followed = []
    for row in store.rows(session, tables.pgrepl_subscription_schema, srsubid=subscription.oid):
        here = relation_or_none(session, row.srrelid)
        is_ready = states.get(row.srrelid, ("", 0))[0] == subscriptions.READY
        if here is not None and is_ready and row.is_settled and row.remote_relid:
            followed.append((row.remote_relid, here.schema, here.name))
    return followed
