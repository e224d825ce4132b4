"""Ranges of a table's key, and the snapshots in which they are copied."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from pgrepl.frozen import frozen
from pgrepl.replication.wire.text import WIRE_STYLE
from pgrepl.types import oids
from pgrepl.types.text import read_text


def _reader(type: int) -> Callable[[str], Any]:
    return lambda text: read_text(text, type, -1, WIRE_STYLE)


# types whose values are ordered here as the server orders them
READ: dict[int, Callable[[str], Any]] = {
    **dict.fromkeys((oids.INT2, oids.INT4, oids.INT8), int),
    **dict.fromkeys((oids.TEXT, oids.VARCHAR, oids.UUID, oids.BYTEA), str.encode),  # of text by COLLATE "C"
    **{type: _reader(type) for type in (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)},
}
_XIDS = 1 << 32  # as many as the stream tells apart


def is_ordered(type: int) -> bool:
    """Whether server and subscriber order values of the type alike."""
    return type in READ


@frozen
class Snapshot:
    """A snapshot of the publisher's, as pg_current_snapshot() tells it."""

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def read(cls, text: str) -> Snapshot:
        xmin, xmax, listed = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in listed.split(",") if xid))

    def has_in_progress(self, xids: Collection[int]) -> bool:
        """Whether one of these transactions, by the lower halves of their XIDs, is in progress."""
        return any(xid % _XIDS in xids for xid in self.in_progress)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.in_progress)))}"

    def sees(self, xid: int) -> bool:
        """Whether a transaction of the stream, which tells the lower half of its XID, is visible."""
        behind = (xid - self.xmax) % _XIDS
        full = self.xmax + (behind if behind < _XIDS // 2 else behind - _XIDS)
        return full < self.xmin or (full < self.xmax and full not in self.in_progress)


@frozen
class Bound:
    """A place between keys: before the key of these texts, or behind it."""

    key: tuple[str, ...]
    is_behind: bool = False

    def text(self) -> str:
        return json.dumps([*self.key, self.is_behind])

    @classmethod
    def read(cls, text: str) -> Bound:
        *key, is_behind = json.loads(text)
        return cls(tuple(key), is_behind)


@frozen
class KeyRange:
    """The keys between two bounds (None: there is none), and the snapshot in which they were copied."""

    lower: Bound | None
    upper: Bound | None
    snapshot: Snapshot | None = None

    @property
    def is_one_key(self) -> bool:
        return self.lower is not None and self.upper is not None and self.lower.key == self.upper.key
