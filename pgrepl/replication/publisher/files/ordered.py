"""The records of a file in the order of a column (`order=`): sorted in portions, which are kept in temporary files and
merged. The number of a record is then its rank."""

from __future__ import annotations

import heapq
import pickle
import tempfile
from collections.abc import Iterator
from typing import IO

from pgrepl.replication.formats.event import BadRecord, ChangeEvent, Events

PORTION = 50_000
_CHUNK = 500  # records that are written together
_Key = tuple[int, int]


class Ordered(Iterator["tuple[int, ChangeEvent]"]):
    """The events with their ranks from 1. BadRecord is raised by the first calls, in the order of the file."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._portion: list[tuple[_Key, ChangeEvent]] = []
        self._files: list[IO[bytes]] = []
        self._merged: Iterator[tuple[_Key, ChangeEvent]] | None = None
        self._rank = 0

    def __next__(self) -> tuple[int, ChangeEvent]:
        if self._merged is None:
            self._read_all()
        assert self._merged is not None
        _, event = next(self._merged)
        self._rank += 1
        return self._rank, event

    def _read_all(self) -> None:
        for event in self._events:  # a BadRecord is raised here; the next call goes on
            if event.lsn is None:
                raise BadRecord("22004", "it has no value in the column that says the order", event.place)
            self._portion.append(((event.lsn, event.place.number), event))
            if len(self._portion) >= PORTION:
                self._files.append(_written(self._sorted()))
        self._merged = heapq.merge(*[_read(file) for file in self._files], self._sorted(), key=_key)

    def _sorted(self) -> list[tuple[_Key, ChangeEvent]]:
        portion, self._portion = self._portion, []
        portion.sort(key=_key)
        return portion


def _key(item: tuple[_Key, ChangeEvent]) -> _Key:
    return item[0]


def _written(portion: list[tuple[_Key, ChangeEvent]]) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115
    for at in range(0, len(portion), _CHUNK):
        pickle.dump(portion[at : at + _CHUNK], file, pickle.HIGHEST_PROTOCOL)
    return file


def _read(file: IO[bytes]) -> Iterator[tuple[_Key, ChangeEvent]]:
    file.seek(0)
    with file:
        while True:
            try:
                portion = pickle.load(file)
            except EOFError:
                return
            yield from portion
