"""The sessions of a server, in memory that its processes share (pgstat_beentry in backend_status.c).

Each process writes what it does into a place of its own; pg_stat_activity reads all of them.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_PLACE = 4096  # bytes of one session
_HEAD = struct.Struct("!II")  # a number that changes with each writing, and the length of what follows
QUERY_BYTES = 1024  # of a query that are shown (track_activity_query_size)


class ActivityTable:
    """The places of all processes; made before they are forked."""

    def __init__(self, places: int) -> None:
        self._memory = mmap.mmap(-1, _PLACE * places)
        self.places = places

    def write(self, place: int, entry: dict[str, Any] | None) -> None:
        """Write a session's entry; None: the place is free."""
        data = b"" if entry is None else json.dumps(entry).encode()
        if len(data) > _PLACE - _HEAD.size:
            data = json.dumps({**(entry or {}), "query": ""}).encode()
        begin = place * _PLACE
        number = _HEAD.unpack_from(self._memory, begin)[0] + 1
        _HEAD.pack_into(self._memory, begin, number & 0xFFFF_FFFF, 0)
        self._memory[begin + _HEAD.size : begin + _HEAD.size + len(data)] = data
        _HEAD.pack_into(self._memory, begin, number & 0xFFFF_FFFF, len(data))

    def entries(self) -> Iterator[dict[str, Any]]:
        """The entries of processes that are alive. One that is just being written is left out."""
        for place in range(self.places):
            begin = place * _PLACE
            number, length = _HEAD.unpack_from(self._memory, begin)
            if not length:
                continue
            data = bytes(self._memory[begin + _HEAD.size : begin + _HEAD.size + length])
            if _HEAD.unpack_from(self._memory, begin) != (number, length):
                continue
            with suppress(ValueError):
                entry = json.loads(data)
                if os.path.exists(f"/proc/{entry['pid']}"):
                    yield entry


_served: ActivityTable | None = None


def serve(table: ActivityTable) -> None:
    """This process is one of a server's."""
    global _served
    _served = table


def table() -> ActivityTable | None:
    """The server's table; None: this process is no server's."""
    return _served
