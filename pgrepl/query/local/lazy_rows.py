"""A list of rows that is filled while it is read, once for all readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class LazyRows(Generic[Item]):
    """Rows that are computed on first use and kept for all readers."""

    def __init__(self, source: Iterable[Item]) -> None:
        self._source = iter(source)
        self._known: list[Item] = []
        self._ended = False

    def __iter__(self) -> Iterator[Item]:
        position = 0
        while True:
            if position == len(self._known):
                if self._ended:
                    return
                try:
                    item = next(self._source)
                except StopIteration:
                    self._ended = True
                    return
                self._known.append(item)
            yield self._known[position]
            position += 1
