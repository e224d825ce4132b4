"""Reads a slot's changes between two LSNs, piece by piece, each message once.

Many changes are read ahead (prefetch.py). Who only looks at a slot, and has no worker there, peeks piece by piece.
"""

from __future__ import annotations

from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.pieces import Piece, pieces
from pgrepl.replication.publisher.postgres.prefetch import MESSAGES, Prefetch, ReadRequest

_MORE = 4  # times as many messages, if all that came are applied already


class Reading:
    """One reading of a slot, which hands out its pieces in order."""

    def __init__(self, link: Link, wanted: ReadRequest, start: int, prefetch: Prefetch | None) -> None:
        self.wanted = wanted
        self._link = link
        self._position = start
        self._piece: Piece | None = None
        self._prefetch = prefetch

    @property
    def is_prefetched(self) -> bool:
        """Whether the changes are read ahead, from copies of the slot."""
        return self._prefetch is not None

    def covers(self, wanted: ReadRequest, start: int) -> bool:
        """Whether this reading has the requested changes from `start` on."""
        begin = self._position if self._piece is None else self._piece.begin
        return wanted == self.wanted and begin <= start

    def piece(self, start: int) -> Piece | None:
        """The first piece that reaches beyond `start`; None: there is nothing more."""
        while self._piece is None or self._piece.reached <= start:
            if self._position >= self.wanted.end:
                return None
            if self._piece is not None:
                self._piece.close()
                self._piece = None
            self._piece = self._next()
            self._piece.begin = self._position
            self._position = self._piece.reached = max(self._piece.reached, self._position)
        return self._piece

    def _next(self) -> Piece:
        if self._prefetch is not None:
            return self._prefetch.piece()
        limit = MESSAGES
        while True:  # the slot sends all changes again that have not been confirmed
            command = self.wanted.command(self._link, self.wanted.slot, limit, consume=False)
            (piece,) = pieces(self._link, command, self._position, self.wanted.end, limit)
            if piece.reached > self._position:
                return piece
            piece.close()
            limit *= _MORE

    def interrupt(self) -> None:
        if self._prefetch is not None:
            self._prefetch.interrupt()

    def close(self) -> None:
        if self._piece is not None:
            self._piece.close()
            self._piece = None
        if self._prefetch is not None:
            self._prefetch.close()
