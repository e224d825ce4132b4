"""What a publisher keeps for a slot, what makes it keep that, and what has become of the slot.

A server keeps its WAL from the slot's restart point on. That moves behind what the subscriber has confirmed, but not
past the beginning of a transaction that has written and is open:

    restart point ── held by open transactions ── confirmed ── not confirmed by the subscriber ── end of the WAL

A lake keeps the snapshots behind the slot, and the files that only they have.
"""

from __future__ import annotations

from typing import Protocol

from pgrepl.frozen import frozen

LOST = "lost"  # the wal_status of a slot that cannot be read from any more
_WHY = {  # by pg_replication_slots.invalidation_reason
    "wal_removed": "The server had to keep more WAL for the slot than max_slot_wal_keep_size, and has removed it.",
    "idle_timeout": "The slot has not been read from for longer than the server's idle_replication_slot_timeout.",
    "rows_removed": "The server, a standby, has removed rows of system catalogs that the slot needs.",
    "wal_level_insufficient": "The primary of the server has a wal_level that is lower than logical.",
}
_UNKNOWN = "The server has removed what the slot had to keep, or invalidated it."


def why_invalid(reason: str | None) -> str:
    """Why a slot is lost, in a sentence."""
    return _WHY.get(reason or "", _UNKNOWN)


@frozen
class OpenTransaction:
    """A transaction that has written and is open; so long as it is, the restart points of slots stay before it."""

    seconds: float  # since it began
    pid: int | None  # of its process; None: it is prepared
    gid: str | None = None  # of a prepared one
    database: str | None = None
    user: str | None = None
    application: str | None = None
    state: str | None = None

    @property
    def name(self) -> str:
        return f"process {self.pid}" if self.gid is None else f'prepared transaction "{self.gid}"'


@frozen
class Retained:
    """What a publisher keeps for a slot. Of a lake only `size`, `seconds`, `snapshots` and `is_oldest` have a
    meaning."""

    size: int  # bytes of WAL; of a lake, of files
    seconds: float | None = None  # for so long at least; None: nobody may know
    unconfirmed: int = 0  # bytes of the WAL that the subscriber has not confirmed
    status: str | None = None  # pg_replication_slots.wal_status
    left: int | None = None  # safe_wal_size: bytes that may be written before the slot is in danger; None: any number
    limit: int | None = None  # max_slot_wal_keep_size in bytes; None: there is none
    invalid: str | None = None  # invalidation_reason, where the server knows it
    transaction: OpenTransaction | None = None  # the oldest; None: there is none, or the role may not see it
    sees_all: bool = True  # whether the role may see the transactions of others
    spills: int = 0  # transactions that the server has spilled to its disk for the slot
    spilled: int = 0  # their bytes
    idle: float | None = None  # seconds since the slot was read from; None: it is read from
    idle_limit: float | None = None  # idle_replication_slot_timeout in seconds; None: there is none
    snapshots: int | None = None  # of a lake
    is_oldest: bool = False  # no other slot keeps more


class SlotProbe(Protocol):
    """Asks what a slot retains over a connection of its own, from another thread than the publisher's."""

    def look(self) -> Retained | None:
        """None: there is no such slot."""
        ...

    def interrupt(self) -> None:
        """End a look with an error; called from another thread."""
        ...

    def close(self) -> None: ...
