"""What a receiver tells the walsender, and when (XLogWalRcvSendReply, LogicalRepApplyLoop). No I/O: times come in, and
a message to be sent goes out.

written   everything before it has been received
flushed   everything before it is committed here, and on disk; the server may forget it

A flushed position is told at once, a written one after a moment; both again after wal_receiver_status_interval. A
server that is silent for half of wal_receiver_timeout is asked for an answer, one that is silent for all of it is lost.
"""

from __future__ import annotations

from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.wire import walsender

TIMED_OUT = "terminating logical replication worker due to timeout"
_MOMENT = 0.005  # seconds after which a written position is told


class Feedback:
    """The positions of one stream, and the moments of its last messages."""

    def __init__(self, start: int, interval: float, timeout: float | None, now: float) -> None:
        """`interval`, `timeout`: seconds; 0 or None: none."""
        self.written = self.flushed = start
        self._interval = interval
        self._timeout = timeout or 0.0
        self._heard_at = self._told_at = now
        self._told = 0, 0
        self._asked = True  # the server waits for an answer; and it is told at first where the receiver stands
        self._asks = False  # the server was asked for an answer

    def hear(self, now: float) -> None:
        """Note that something has come from the server."""
        self._heard_at, self._asks = now, False

    def answer(self) -> None:
        """Note that the server asks for an answer."""
        self._asked = True

    def due(self, now: float) -> bytes | None:
        """The message to be sent now; an error if the server has been silent for too long."""
        silent = now - self._heard_at
        if self._timeout and silent >= self._timeout:
            raise PublisherError("08006", TIMED_OUT)
        asks = bool(self._timeout) and not self._asks and silent >= self._timeout / 2
        if not (self._asked or asks or now >= self._next(now)):
            return None
        self._told, self._told_at, self._asked = (self.written, self.flushed), now, False
        self._asks = self._asks or asks
        return walsender.STATUS.pack(b"r", self.written, self.flushed, self.flushed, walsender.now(), asks)

    def wait(self, now: float) -> float:
        """The seconds until something may be due."""
        if self._asked:
            return 0.0
        moments = [self._next(now)]
        if self._timeout:
            moments.append(self._heard_at + self._timeout / (1 if self._asks else 2))
        return max(0.0, min(moments) - now)

    def _next(self, now: float) -> float:
        """When the positions are to be told."""
        written, flushed = self._told
        if self.flushed > flushed:
            return now
        if self.written > written:
            return self._told_at + _MOMENT
        return self._told_at + self._interval if self._interval else now + 3600.0
