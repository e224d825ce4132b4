"""The decisions of the main stream: no server, no catalog."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrepl.ground.errors import PgError
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.subscriber.apply_loop import (
    BATCH,
    Apply,
    AskUnsettled,
    Bounds,
    Columns,
    Commit,
    CommitColumns,
    Confirm,
    EndStream,
    FindNews,
    FindTriggers,
    Follow,
    Receive,
    ReceiveColumns,
    Received,
    Settle,
    Way,
    apply_batch,
    carry_out,
    is_astray,
)
from pgrepl.replication.subscriber.lease import Applied, Streamed
from pgrepl.replication.subscriber.schema_changes.follow import NewRelations
from pgrepl.replication.wire.messages import Phase, WireTransaction


class Sent(NamedTuple):
    """A transaction of the publisher."""

    size: int = 1
    is_large: bool = False
    is_prepared: bool = False
    fires: bool = False  # triggers
    news: str = ""  # before, within: new definitions
    fails: bool = False


@dataclass
class Large:
    size: int


class Killed(Exception):
    pass


REFUSED = PublisherError("XX000", "ERROR:  out of order")


def transaction(number: int, sent: Sent) -> WireTransaction:
    messages: Any = Large(sent.size) if sent.is_large else (None,) * sent.size
    phase = Phase("PREPARE", "g", 0, 0) if sent.is_prepared else None
    return WireTransaction(number, 10 * number + 5, 10 * number + 9, 0, messages, phase=phase)


@dataclass
class Lake:
    """What is committed."""

    origin: int = 0
    applied: list[tuple[int, Way | None]] = field(default_factory=list)  # None: by columns
    followed: set[int] = field(default_factory=set)


@dataclass
class World:
    """A publisher and a subscriber, in memory."""

    sent: Sequence[Sent]
    shares_catalog: bool = False
    by_columns: bool = False
    refuses: int | None = None  # the number of the transaction that the publisher cannot send
    kills: set[int] = field(default_factory=set)  # steps before which the worker is killed
    lake: Lake = field(default_factory=Lake)
    slot: int = 0
    steps: list[Any] = field(default_factory=list)

    @property
    def end(self) -> int:
        return 10 * len(self.sent)

    def batch(self, limit: int | None = None) -> Streamed:
        committed, slot = deepcopy(self.lake), self.slot
        try:
            return carry_out(
                apply_batch(self.bounds(), limit), {kind: self.counted(do) for kind, do in self.work.items()}
            )
        except Killed:
            if not self.is_committed:
                self.lake, self.slot = committed, slot
            raise

    @property
    def is_committed(self) -> bool:
        """Has the step before this one committed?"""
        return len(self.steps) > 1 and isinstance(self.steps[-2], Commit)

    def bounds(self) -> Bounds:
        assert not is_astray(self.lake.origin, self.slot, self.end)
        return Bounds(self.lake.origin, max(self.lake.origin, self.slot), self.end, self.end, self.shares_catalog)

    def counted(self, do: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def done(step: Any) -> Any:
            self.steps.append(step)
            if len(self.steps) in self.kills:
                raise Killed
            return do(step)

        return done

    @property
    def work(self) -> dict[type, Callable[[Any], Any]]:
        return {
            ReceiveColumns: self.receive_columns,
            CommitColumns: self.commit_columns,
            Receive: lambda step: Received.of(self.stream(), step.most),
            FindNews: lambda step: self.find_news(step.transactions),
            FindTriggers: lambda step: self.first_run([self.sent[each.xid].fires for each in step.transactions]),
            Follow: lambda step: self.lake.followed.add(step.news.xid),
            Apply: self.apply,
            EndStream: lambda step: self.end,
            AskUnsettled: lambda step: False,
            Settle: self.settle,
            Commit: lambda step: None,
            Confirm: self.confirm,
        }

    def left(self) -> list[WireTransaction]:
        return [transaction(n, each) for n, each in enumerate(self.sent) if 10 * n + 5 >= self.bounds().start]

    def stream(self) -> Generator[WireTransaction, None, None]:
        for each in self.left():
            if each.xid == self.refuses:
                raise REFUSED
            yield each

    def find_news(self, transactions: Sequence[WireTransaction]) -> tuple[int, NewRelations | None]:
        for number, each in enumerate(transactions):
            news = self.sent[each.xid].news
            if news and each.xid not in self.lake.followed:
                return number, NewRelations((), each.xid, each.finish_lsn, news == "within", False)
        return len(transactions), None

    @staticmethod
    def first_run(fires: list[bool]) -> tuple[int, int] | None:
        if True not in fires:
            return None
        start = fires.index(True)
        return start, (fires + [False]).index(False, start)

    def receive_columns(self, _: ReceiveColumns) -> Columns | None:
        left = self.left()
        if not self.by_columns or any(
            each.xid == self.refuses or self.sent[each.xid].news == "within" for each in left
        ):
            return None
        number, news = self.find_news(left)
        cut = left[:number]
        return Columns(
            sum(each.size for each in left), len(cut), self.end, len(cut) == len(left), None if number else news
        )

    def commit_columns(self, _: CommitColumns) -> Applied | None:
        left = self.left()
        clean = left[: self.find_news(left)[0]]
        odd = (each.xid for each in clean if any(self.sent[each.xid]._replace(size=0, news="")))
        clean = clean[: next((number - clean[0].xid for number in odd), len(clean))]
        if not clean:
            return None
        self.lake.applied += [(each.xid, None) for each in clean]
        self.lake.origin = clean[-1].end_lsn
        return Applied(len(clean), sum(each.size for each in clean), clean[-1].end_lsn)

    def apply(self, step: Apply) -> Applied:
        done = [each.xid for each in step.transactions]
        failing = next((number for number, xid in enumerate(done) if self.sent[xid].fails), None)
        done = done[:failing]
        self.lake.applied += [(xid, step.way) for xid in done]
        if done:
            self.lake.origin = step.transactions[len(done) - 1].end_lsn
        error = None if failing is None else PgError("23505", "duplicate key")
        return Applied(len(done), sum(self.sent[xid].size for xid in done), self.lake.origin, error)

    def settle(self, step: Settle) -> None:
        if step.moves_origin:
            self.lake.origin = step.lsn
        assert self.lake.origin == step.lsn
        assert step.caught_up == (step.lsn >= self.end)

    def confirm(self, step: Confirm) -> None:
        assert (step.within, step.within) == (self.shares_catalog, not self.is_committed)
        assert step.lsn == self.lake.origin
        self.slot = step.lsn


SENT = [
    *[Sent(1), Sent(2), Sent(4)] * 3,
    *[Sent(n, is_large=large, news=news) for n, large in ((1, False), (5, True)) for news in ("", "before", "within")],
    *[Sent(2, fires=True), Sent(1, fires=True, news="before"), Sent(3, is_large=True, fires=True)],
    *[Sent(2, is_prepared=True), Sent(1, is_prepared=True, news="before"), Sent(1, fails=True)],
]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(SENT), max_size=12),
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(0, 12),
    st.sets(st.integers(1, 60)),
    st.none() | st.integers(1, 9),
)
def test_each_transaction_is_applied_once_and_in_order_whatever_is_killed(
    sent: list[Sent], shares: bool, by_columns: bool, refuses: int | None, kills: set[int], limit: int | None
) -> None:
    world = World(sent, shares, by_columns, refuses, kills)
    while True:
        before = len(world.lake.applied)
        try:
            streamed = world.batch(limit)
        except Killed:
            continue
        new = sum(sent[xid].size for xid, _ in world.lake.applied[before:])
        assert limit is None or new <= limit or len(world.lake.applied) == before + 1
        assert world.slot <= world.lake.origin
        if streamed.finished:
            break
    fails = next((number for number, each in enumerate(sent) if each.fails or number == refuses), None)
    assert [xid for xid, _ in world.lake.applied] == list(range(len(sent)))[:fails]
    assert (streamed.applied.error is not None) == (fails is not None)
    assert fails is not None or world.lake.origin == world.end
    assert kills or world.slot == world.lake.origin
    for xid, way in world.lake.applied:
        one = sent[xid]
        stepped = one.is_large or one.fires or one.news == "within"
        assert way is Way.PHASES if one.is_prepared else (way is Way.STEPPED) == stepped
        assert one.news != "before" or xid in world.lake.followed


def kinds(world: World) -> list[str]:
    return [type(step).__name__ for step in world.steps]


RECEIVED = ["ReceiveColumns", "Receive", "FindNews"]


def test_where_nothing_has_come_nothing_is_written() -> None:
    world = World([])
    assert world.batch() == Streamed(0, 0, 0, Applied(0, 0, 0))
    assert kinds(world) == [*RECEIVED, "EndStream", "AskUnsettled", "Commit"]


def test_a_server_is_told_when_the_commit_is_done_a_lake_in_it() -> None:
    world = World([Sent()])
    assert world.batch() == Streamed(0, 10, 10, Applied(1, 1, 9))
    applied = [*RECEIVED, "FindTriggers", "Apply", "EndStream", "Settle"]
    assert kinds(world) == [*applied, "Commit", "Confirm"]
    assert world.steps[-3] == Settle(10, moves_origin=True, caught_up=True)
    world = World([Sent()], shares_catalog=True)
    world.batch()
    assert kinds(world) == [*applied, "Confirm", "Commit"]


def test_a_limited_batch_goes_row_by_row_and_takes_a_larger_transaction_alone() -> None:
    world = World([Sent(2), Sent(3), Sent(1)], by_columns=True)
    assert [world.batch(2).reached for _ in range(3)] == [9, 19, 30]
    assert kinds(world)[0] == "Receive"
    assert [step.most for step in world.steps if isinstance(step, Receive)] == [2, 2, 2]
    settled = [step for step in world.steps if isinstance(step, Settle)]
    assert settled == [Settle(9, False, False), Settle(19, False, False), Settle(30, True, True)]
    world = World([Sent()])
    world.batch(BATCH + 1)
    assert world.steps[0] == Receive(BATCH)


def test_what_is_wanted_may_have_been_reached_before() -> None:
    world = World([Sent(), Sent(), Sent()], lake=Lake(20), slot=20)
    work = {**world.work, Receive: lambda step: Received([], False), EndStream: lambda step: 10}
    done = carry_out(apply_batch(world.bounds()._replace(end=10), 1), work)
    assert done == Streamed(20, 10, 20, Applied(0, 0, 20))


def test_triggers_are_fired_apart_from_what_fires_none() -> None:
    world = World([Sent(), Sent(fires=True), Sent(fires=True), Sent()])
    assert [world.batch().reached for _ in range(3)] == [9, 29, 40]
    ways = [Way.IN_MEMORY, Way.STEPPED, Way.STEPPED, Way.IN_MEMORY]
    assert world.lake.applied == list(enumerate(ways))


def test_columns_end_before_what_is_not_clean_and_rows_go_on() -> None:
    world = World([Sent(), Sent(), Sent(fires=True), Sent()], by_columns=True)
    assert [world.batch().reached for _ in range(3)] == [19, 29, 40]
    assert world.lake.applied == [(0, None), (1, None), (2, Way.STEPPED), (3, None)]


def test_definitions_are_followed_in_a_commit_of_their_own() -> None:
    world = World([Sent(), Sent(news="before"), Sent()])
    assert [world.batch().reached for _ in range(3)] == [9, 9, 30]
    assert world.lake.applied == [(n, Way.IN_MEMORY) for n in range(3)]
    assert [kind for kind in kinds(world) if kind in ("Apply", "Follow", "Commit")] == [
        "Apply", "Commit", "Follow", "Commit", "Apply", "Commit",
    ]  # fmt: skip


@pytest.mark.parametrize("odd", [Sent(news="before"), Sent(news="within"), Sent(fires=True)])
def test_an_error_of_the_stream_is_told_when_all_before_it_is_applied(odd: Sent) -> None:
    world = World([Sent(), odd, Sent(), Sent()], refuses=3)
    told = [world.batch() for _ in range(4)]
    assert [each.applied.error for each in told][:2] == [None, None]
    first = next(each for each in told if each.applied.error is not None)
    assert (first.reached, str(first.applied.error)) == (29, f"could not receive data from WAL stream: {REFUSED}")


def test_what_is_prepared_late_is_applied_with_what_ends_it() -> None:
    late = transaction(0, Sent())
    prepared = Phase("PREPARE", "g", 0, 0, True), Phase("COMMIT", "g", 0, 0)
    found = [WireTransaction(n, 5, 9, 0, late.messages, phase=each) for n, each in enumerate(prepared)]
    assert Received.of((each for each in [*found, late]), BATCH) == Received(found, True)


def test_the_stream_stays_open_for_a_large_transaction_alone() -> None:
    world = World([Sent(is_large=True), Sent()])
    stream = world.stream()
    assert len(Received.of(stream, 5).transactions) == 1
    assert next(stream).xid == 1
    stream = World([Sent(), Sent(is_large=True)]).stream()
    assert len(Received.of(stream, 5).transactions) == 1
    assert list(stream) == []
