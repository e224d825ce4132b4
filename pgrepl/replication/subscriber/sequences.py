"""The sequences of a subscription: their values are fetched from the publisher (sequencesync.c).

A sequence that a publication FOR ALL SEQUENCES publishes is fetched once: when it is new in the subscription (state i
in pg_subscription_rel), and again after REFRESH SEQUENCES. With the parameter `sequences` all sequences follow that
publisher and subscriber both have, published or not: their values are fetched behind the changes of a round, so that
they are never behind the rows.

What cannot be synchronized is told as PostgreSQL 19 tells it, and stops neither the changes nor other sequences.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.acl import has_table_privilege
from pgrepl.catalog.facts.publication import permanent_sequences
from pgrepl.catalog.facts.relation import Relation, relation, relation_or_none
from pgrepl.catalog.facts.sequences import definition_of
from pgrepl.catalog.session import statistics
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, update
from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.frozen import frozen
from pgrepl.replication.publisher.protocol import PublisherCatalog, RemoteSequence
from pgrepl.replication.subscriber import state
from pgrepl.replication.subscriber.apply.triggers import acting_for
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.lease import SubscriptionChanged, WorkerFailed, asking

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_LOOK = 1.0  # seconds between two looks of a follower at sequences that follow, while rows come


@frozen
class _Local:
    """A sequence here, and whether its value is awaited."""

    relation: Relation
    row: tables.pg_sequence
    is_listed: bool  # in pg_subscription_rel
    waits: bool

    @property
    def name(self) -> tuple[str, str]:
        return self.relation.schema, self.relation.name

    def differs(self, there: RemoteSequence) -> bool:
        return there.value is not None and there.value != (self.row.last_value, bool(self.row.is_called))


def sequences_on_both_sides(session: Session, publisher: PublisherCatalog) -> list[Relation]:
    """The sequences here that the publisher has, too."""
    sequences = [relation(session, oid) for oid in permanent_sequences(session)]
    here = {(sequence.schema, sequence.name): sequence for sequence in sequences}
    there = publisher.sequences(sorted(here)) if here else []
    return [here[sequence.schema, sequence.name] for sequence in there]


class SequenceSync:
    """The synchronization of a worker's subscription."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._failed_at: float | None = None
        self._told: tuple[str, ...] = ()  # what was last told of the failure
        self._looked_at = 0.0
        self._follows = False  # does the subscription have the parameter `sequences`?
        self._owes = False  # changes were applied since

    @property
    def is_due(self) -> bool:
        """Is there anything to do that was put off?"""
        if self._failed_at is not None:
            pause = int(self._context.session.settings.value("wal_retrieve_retry_interval")) / 1000
            return time.monotonic() - self._failed_at >= pause
        return self._follows and self._is_rested

    def has_news(self) -> bool:
        """Does the subscription follow sequences of which one has another value now?"""
        with self._context.transaction() as subscription:
            if not subscription.subsequences:
                return False
            local = self._local(subscription)
            there = self._ask(subscription, local)
        known = {sequence.name: sequence for sequence in local}
        return any(known[s.schema, s.name].differs(s) for s in there)

    def synchronize(self, *, moved: bool, at_once: bool) -> PgError | None:
        """Bring the sequences up; the error, if some could not be. `moved`: changes were applied before. Unless
        `at_once`, a follower puts off what it has just done."""
        session = self._context.session
        self._owes = self._owes or moved
        with self._context.transaction() as subscription:
            waiting = any(row.srsubstate != subscriptions.READY for row in _listed(session, subscription))
        self._follows = subscription.subsequences
        follows = self._follows and (at_once or self._is_rested)
        if not (waiting or follows) or (not at_once and self._failed_at is not None and not self.is_due):
            return None
        worker = f'logical replication sequence synchronization worker for subscription "{subscription.subname}"'
        if waiting and self._failed_at is None:
            self._context.log.log(f"{worker} has started")
        self._owes, self._looked_at = False, time.monotonic()
        try:
            faults = self._bring_up()
        except WorkerFailed as failure:
            return self._fails(failure.error)
        if faults.found:
            return self._fails(faults.error(), faults)
        self._failed_at, self._told = None, ()
        if waiting:
            self._context.log.log(f"{worker} has finished")
        return None

    def _bring_up(self) -> _Faults:
        with self._context.transaction() as subscription:
            local = [sequence for sequence in self._local(subscription) if sequence.waits or subscription.subsequences]
            there = self._ask(subscription, local)
            faults = _Faults(subscription)
            wanted = self._wanted(subscription, local, there, faults)
            if wanted or faults.found or self._failed_at is not None:
                self._context.lock(subscription)
                _store(self._context.session, subscription, wanted)
                self._forget_errors(subscription, faults)
        return faults

    @property
    def _is_rested(self) -> bool:
        """A sequence moves without any row that is sent, too: then a follower looks as often as it tells its publisher
        how far it is."""
        rested = time.monotonic() - self._looked_at
        if self._owes:
            return rested >= _LOOK
        return 0 < int(self._context.session.settings.value("wal_receiver_status_interval")) <= rested

    def _local(self, subscription: tables.pg_subscription) -> list[_Local]:
        session = self._context.session
        states = {row.srrelid: row.srsubstate for row in _listed(session, subscription)}
        oids = set(permanent_sequences(session)) if subscription.subsequences else set()
        local = []
        for oid in sorted(oids.union(states)):
            there, row = relation_or_none(session, oid), one(session, tables.pg_sequence, seqrelid=oid)
            if there is not None and row is not None:
                local.append(
                    _Local(there, row, oid in states, states.get(oid, subscriptions.READY) != subscriptions.READY)
                )
        return local

    def _ask(self, subscription: tables.pg_subscription, local: Sequence[_Local]) -> list[RemoteSequence]:
        publisher = self._context.connection.publisher(subscription)
        with asking():
            return publisher.catalog.sequences([sequence.name for sequence in local]) if local else []

    def _wanted(
        self,
        subscription: tables.pg_subscription,
        local: Sequence[_Local],
        there: Iterable[RemoteSequence],
        faults: _Faults,
    ) -> list[tuple[_Local, RemoteSequence]]:
        """The sequences whose values or states change."""
        remotes = {(sequence.schema, sequence.name): sequence for sequence in there}
        wanted = []
        for own in local:
            remote = remotes.get(own.name)
            if remote is None:
                if own.waits:
                    faults.missing.append(own)
            elif remote.value is None:
                faults.unreadable.append(own)
            elif remote.definition != definition_of(own.row):
                faults.mismatched.append(own)
            elif not self._may_set(subscription, own.relation):
                faults.forbidden.append(own)
            elif own.waits or own.differs(remote):
                wanted.append((own, remote))
        return wanted

    def _may_set(self, subscription: tables.pg_subscription, sequence: Relation) -> bool:
        """Has who applies changes the privilege? That is the sequence's owner, or with run_as_owner the
        subscription's."""
        session = self._context.session
        with session.acting_as(subscription.subowner):
            try:
                with acting_for(session, subscription, sequence):
                    return has_table_privilege(session, sequence, "UPDATE")
            except PgError as error:
                raise WorkerFailed(error) from error

    def _forget_errors(self, subscription: tables.pg_subscription, faults: _Faults) -> None:
        failing = {sequence.relation.oid for sequence in faults.all}
        for row in state.stored_errors(self._context.session, subscription.oid):
            table = relation_or_none(self._context.session, row.relid) if row.relid else None
            if table is not None and table.kind == "S" and row.relid not in failing:
                state.forget_errors(self._context.session, subscription.oid, row.relid)

    def _fails(self, error: PgError, faults: _Faults | None = None) -> PgError:
        """Tell the error and its faults, unless they were told, and store it with a sequence."""
        self._context.check_stopped()
        self._failed_at = time.monotonic()
        warnings = [] if faults is None else faults.found
        told = (error.message, *(text for text, _ in warnings))
        if told == self._told:
            return error
        self._told = told
        for text, hint in warnings:
            self._context.log.report(Report("WARNING", "55000", text, hint=hint))
        self._context.log.error(error)
        reports: list[Report] = []
        with suppress(SubscriptionChanged), self._context.transaction() as subscription:
            session = self._context.session
            session.transaction.require_write()
            local = self._local(subscription) if faults is None else faults.all
            if local:
                reports = state.remember(session, subscription, local[0].relation.oid, error, counts=True)
                statistics.count(session, statistics.SUBSCRIPTION, subscription.oid, sync_seq_error_count=1)
        for report in reports:
            self._context.log.report(report)
        return error


class _Faults:
    """The sequences that cannot be synchronized, by what is wrong (report_sequence_errors)."""

    def __init__(self, subscription: tables.pg_subscription) -> None:
        self._subscription = subscription
        self.mismatched: list[_Local] = []
        self.forbidden: list[_Local] = []
        self.unreadable: list[_Local] = []
        self.missing: list[_Local] = []

    @property
    def all(self) -> list[_Local]:
        return [*self.mismatched, *self.forbidden, *self.unreadable, *self.missing]

    @property
    def found(self) -> list[tuple[str, str | None]]:
        """PostgreSQL's warnings, with their hints."""
        texts = []
        for which, text, hint in (
            (self.mismatched, "mismatched or renamed sequence{s} on subscriber ({names})", None),
            (
                self.forbidden,
                "insufficient privileges on subscriber sequence{s} ({names})",
                "Grant UPDATE on the sequence{s} to the subscription owner on the subscriber."
                if self._subscription.subrunasowner
                else None,
            ),
            (
                self.unreadable,
                "insufficient privileges on publisher sequence{s} ({names})",
                "Grant SELECT on the sequence{s} to the role used for the replication connection on the publisher.",
            ),
            (self.missing, "missing sequence{s} on publisher ({names})", None),
        ):
            if which:
                names = ", ".join(f'"{sequence.relation.qualified_name}"' for sequence in which)
                many = {"s": "s" if len(which) > 1 else "", "names": names}
                texts.append((text.format(**many), None if hint is None else hint.format(**many)))
        return texts

    def error(self) -> PgError:
        name = self._subscription.subname
        return PgError("55000", f'logical replication sequence synchronization failed for subscription "{name}"')


def _listed(session: Session, subscription: tables.pg_subscription) -> list[tables.pg_subscription_rel]:
    return subscriptions.subscription_sequences(session, subscription.oid)


def _store(
    session: Session, subscription: tables.pg_subscription, wanted: Iterable[tuple[_Local, RemoteSequence]]
) -> None:
    """Set the values and states, in the worker's transaction: a failed commit leaves the sequences as they were."""
    for sequence, remote in wanted:
        oid = sequence.relation.oid
        assert remote.value is not None
        last_value, is_called = remote.value
        if not sequence.is_listed:
            subscriptions.add_subscription_relation(
                session, subscription.oid, oid, subscriptions.READY, is_sequence=True
            )
        update(session, tables.pg_sequence, {"seqrelid": oid}, last_value=last_value, is_called=is_called)
        state.set_table_state(session, subscription.oid, oid, subscriptions.READY, remote.lsn)
