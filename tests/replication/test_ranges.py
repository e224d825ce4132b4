"""Which changes count for a table that is copied in pieces: a model of a publisher, a stream and interruptions."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from pgrepl.replication.publisher.tables import Bound, KeyRange, Snapshot
from pgrepl.replication.subscriber.copying.ranges import CopyRanges
from pgrepl.replication.wire.messages import DELETE, INSERT, UNCHANGED, UPDATE, Message, Row, SentColumn, SentRelation
from pgrepl.types.oids import INT4, TEXT

T = SentRelation(1, "public", "t", "d", (SentColumn("a", TEXT, -1, True, INT4), SentColumn("b", TEXT, -1, False)))
KEYS = 12


class Server:
    """A table, and transactions that write to it one at a time but become visible later than they commit."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rows: dict[str, str] = {}
        self.log: list[tuple[int, list[Message | None]]] = []  # committed transactions; None: TRUNCATE
        self.visible: dict[str, str] = {}  # the rows of those that are visible
        self.hidden: list[tuple[int, dict[str, str]]] = []  # XIDs of others, with the rows behind each
        self.xid = 2**32 - 20  # the stream tells the lower half

    def write(self) -> None:
        self.xid += 1
        messages = [self.change() for _ in range(self.random.randint(1, 3))]
        self.log.append((self.xid % 2**32, messages))
        self.hidden.append((self.xid, dict(self.rows)))
        if self.random.random() < 0.7:
            self.show()

    def show(self) -> None:
        """Everything that has committed becomes visible."""
        self.visible, self.hidden = dict(self.rows), []

    def change(self) -> Message | None:
        key, value = str(self.random.randrange(KEYS)), f"{self.xid}"
        if self.random.random() < 0.03:
            self.rows.clear()
            return None
        if key not in self.rows:
            self.rows[key] = value
            return Message(INSERT, T, new=(key, value))
        if self.random.random() < 0.3:
            del self.rows[key]
            return Message(DELETE, T, old=(key, None))
        other = str(self.random.randrange(KEYS))
        if other in self.rows:
            self.rows[key] = value
            return Message(UPDATE, T, new=(key, value))
        kept = self.random.random() < 0.5  # a long value that is not sent again
        before = self.rows.pop(key)
        self.rows[other] = before if kept else value
        return Message(UPDATE, T, old=(key, None), new=(other, UNCHANGED if kept else value))

    def snapshot(self) -> Snapshot:
        first = self.hidden[0][0] if self.hidden else self.xid + 1
        return Snapshot(first, self.xid + 1, frozenset(xid for xid, _ in self.hidden))


class Subscriber:
    def __init__(self) -> None:
        cuts = [None, Bound(("3",)), Bound(("6",)), Bound(("9",)), None]
        self.ranges = CopyRanges((("a", INT4),), [KeyRange(*pair) for pair in pairwise(cuts)])
        self.rows: dict[str, str] = {}
        self.at = 0  # of the log

    def stream(self, server: Server, count: int) -> None:
        for xid, messages in server.log[self.at : self.at + count]:
            for message in messages:
                if message is None:
                    if self.ranges.truncates(xid):
                        self.rows.clear()
                else:
                    for each in self.ranges.changes(message, xid):
                        self.apply(each)
            self.at += 1

    def apply(self, message: Message) -> None:
        old: Row = message.old or message.new or ()
        if message.operation == DELETE:
            del self.rows[old[0]]
            return
        assert message.new is not None
        key, value = message.new
        if message.operation == UPDATE:
            before = self.rows.pop(old[0])
            value = before if value is UNCHANGED else value
        assert key not in self.rows and value is not UNCHANGED
        self.rows[key] = value

    def copy(self, server: Server) -> None:
        """Copy a range, unless a transaction that was passed over is not visible yet."""
        snapshot = server.snapshot()
        if snapshot.has_in_progress([xid for xid, _ in server.log[: self.at]]) or not self.ranges.unfinished:
            return
        wanted = server.random.choice(self.ranges.unfinished)
        lower, upper = (self.ranges._place(bound) for bound in (wanted.lower, wanted.upper))
        for key in [
            key for key in self.rows if lower <= ((int(key),), False) and (not upper or ((int(key),), False) < upper)
        ]:
            raise AssertionError(f"{key} is there before its range is copied")
        for key, value in server.visible.items():
            if lower <= ((int(key),), False) and (not upper or ((int(key),), False) < upper):
                self.rows[key] = value
        self.ranges.finish([wanted], snapshot)


@pytest.mark.parametrize("seed", range(300))
def test_random_writes_copies_and_stretches_of_the_stream_end_equal(seed: int) -> None:
    server, here = Server(Random(seed)), Subscriber()
    for _ in range(200):
        step = server.random.random()
        if step < 0.4:
            server.write()
        elif step < 0.7:
            here.stream(server, server.random.randint(1, 4))
        elif step < 0.8:
            here.copy(server)
        elif step < 0.9:
            server.show()
    server.show()
    while here.at < len(server.log) or here.ranges.unfinished:
        here.stream(server, 3)
        here.copy(server)
    assert here.rows == server.rows
