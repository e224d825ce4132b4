"""A cache of what was read last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakSet

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key. Beyond `most` of them (of their sizes together, where `size` is given) those go that were not
    asked for the longest; the last one stays, however large. For several threads."""

    def __init__(self, most: int, size: Callable[[Value], int] = lambda _: 1) -> None:
        self._most, self._size = most, size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._total = 0
        self._lock = Lock()
        _all.add(self)

    def get(self, key: Key) -> Value | None:
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: Key, value: Value) -> None:
        with self._lock:
            self._drop(key)
            self._values[key] = value
            self._total += self._size(value)
            self._shrink()

    def limit(self, most: int) -> None:
        """Keep less from now on, if `most` is less."""
        with self._lock:
            self._most = min(self._most, most)
            self._shrink()

    def _shrink(self) -> None:
        while self._total > self._most and len(self._values) > 1:
            self._drop(next(iter(self._values)))

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._total = 0

    def _drop(self, key: Key) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self._total -= self._size(found)


_all: WeakSet[Recent[Any, Any]] = WeakSet()


def forget_all() -> None:
    """Forget all files, so that from now on they are read as they are on disk."""
    for each in list(_all):
        each.clear()
