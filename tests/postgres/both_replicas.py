"""What a test says to both, a real server's two databases and ours, must be answered the same."""

from __future__ import annotations

import re
from functools import cached_property

from tests.postgres.replicas import Answer, Failure, RealReplicas, Rows
from tests.postgres.replicas_ours import OurReplicas

Replicas = RealReplicas | OurReplicas
TABLES = (
    "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind IN ('r', 'p') AND nspname IN ('public', 's1') ORDER BY 1"
)
STATES = (
    "SELECT subname, srrelid::regclass::text, CASE srsubstate WHEN 's' THEN 'r' ELSE srsubstate END "
    "FROM pg_subscription_rel JOIN pg_subscription s ON s.oid = srsubid ORDER BY 1, 2"
)


class Both:
    def __init__(self, real: RealReplicas, ours: Replicas) -> None:
        self.real, self.ours = real, ours
        self.played: list[str] = []
        self.subscriptions: list[str] = []
        self._finish: dict[Replicas, str | None] = {}

    def equal(self, ours: object, theirs: object) -> None:
        assert ours == theirs, "\n".join([*self.played, f"-- ours:   {ours}", f"-- theirs: {theirs}"])

    @cached_property
    def release(self) -> int:
        ((version,),) = self.real.rows("sub", "SHOW server_version_num")
        return int(version) // 10000

    def violated(self, index: str, conflict: str) -> str:
        """What a worker says of a unique violation in `t`: since 18 it names the kind of the conflict."""
        if self.release < 18:
            return f'duplicate key value violates unique constraint "{index}"'
        return f'conflict detected on relation "public.t": conflict={conflict}'

    # --- statements ---------------------------------------------------------------------------------------------------

    def say(self, where: str, text: str) -> Answer:
        """What both answer."""
        self.played.append(f"{where}: {text}")
        theirs, ours = self.real.run(where, text), self.ours.run(where, text)
        self.equal(_in_any_order(ours), _in_any_order(theirs))
        return theirs

    def done(self, where: str, *texts: str) -> None:
        for text in texts:
            assert self.say(where, text)[0] == "done", self.played

    def pub(self, *texts: str) -> None:
        self.done("pub", *texts)

    def sub(self, *texts: str) -> None:
        self.done("sub", *texts)

    def each(self, *texts: str) -> None:
        """The same at the publisher and at the subscriber."""
        for text in texts:
            self.done("pub", text)
            self.done("sub", text)

    def refused(self, where: str, text: str) -> str:
        """The message of a statement that fails."""
        kind, _, message, *_ = self.say(where, text)
        assert kind == "error", self.played
        return str(message)

    def rows(self, text: str, where: str = "sub") -> Rows:
        """The rows of a query, in no order."""
        theirs, ours = (sorted(one.rows(where, text), key=repr) for one in (self.real, self.ours))
        self.equal((text, ours), (text, theirs))
        return theirs

    def same(self) -> None:
        """All tables, and where the copies of the subscriber's stand."""
        for where in ("pub", "sub"):
            for (table,) in self.rows(TABLES, where):
                self.rows(f"SELECT tableoid::regclass::text, * FROM {table}", where)
        self.rows(STATES)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def create(self, name: str, publications: str, options: str = "", source: str = "pub", at: str = "sub") -> Answer:
        """CREATE SUBSCRIPTION with a slot that is made before; it is left enabled."""
        self.say(source, f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
        text = (
            f"CREATE SUBSCRIPTION {name} CONNECTION '{{}}' PUBLICATION {publications} "
            f"WITH (create_slot = false, slot_name = {name}, disable_on_error{options and ', '}{options})"
        )
        self.played.append(f"{at}: {text}")
        theirs, ours = (one.run(at, text.format(one.conninfo(source))) for one in (self.real, self.ours))
        self.equal(_in_any_order(ours), _in_any_order(theirs))
        if theirs[0] == "done":
            self.subscriptions.append(name)
        return theirs

    def subscribe(
        self, publications: str = "p", options: str = "", name: str = "s", source: str = "pub", at: str = "sub"
    ) -> list[Failure]:
        """CREATE SUBSCRIPTION, and its initial copy."""
        assert self.create(name, publications, options, source, at)[0] == "done", self.played
        return self.rest(name, at)

    def catch_up(self, name: str = "s", at: str = "sub") -> list[Failure]:
        """Enabled until it has everything or fails: then what was wrong."""
        self.done(at, f"ALTER SUBSCRIPTION {name} ENABLE")
        return self.rest(name, at)

    def rest(self, name: str = "s", at: str = "sub") -> list[Failure]:
        """Wait for an enabled subscription, and disable it."""
        self.played.append("-- catch up")
        met = [(one, one.catch_up(name, at)) for one in (self.real, self.ours)]
        self._finish = {one: failures[-1].finish if failures else None for one, failures in met}
        theirs, ours = ([f._replace(finish=None) for f in failures] for _, failures in met)
        self.equal(ours, theirs)
        self.done(at, f"ALTER SUBSCRIPTION {name} DISABLE")
        self.real.quiet()
        self.same()
        return theirs

    def at_finish(self, text: str) -> None:
        """A statement of the subscriber about the transaction that failed: {} is its finish LSN."""
        self.played.append(f"sub: {text}")
        theirs, ours = (one.run("sub", text.format(self._finish[one])) for one in (self.real, self.ours))
        self.equal(ours, theirs)


def _in_any_order(answer: Answer) -> Answer:
    """Of several faulty tables a publisher may name any, of several duplicates an index too."""
    if answer[0] == "error" and answer[2].startswith("could not create unique index"):
        return answer[:3]
    return tuple([re.sub(r'column lists for table "[^"]*"', "column lists", part) if part else part for part in answer])
