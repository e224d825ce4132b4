"""Rows read as they are needed, or all at once before what they are read from changes (PostgreSQL's Materialize)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Any

from pgrepl.errors import PgError


class Materialize:
    """An iterator that stores the rest of its rows when what it reads is about to change (ExecMaterial)."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self._read: deque[Any] = deque()
        self._error: PgError | None = None
        self._reading = False

    def __iter__(self) -> Materialize:
        return self

    def __next__(self) -> Any:
        if self._read:
            return self._read.popleft()
        if self._error is not None:
            raise self._error
        self._reading = True
        try:
            return next(self._items)
        finally:
            self._reading = False

    def settle(self, tables: Collection[int] | None, *, writes: bool) -> None:
        if writes:
            self.read()

    def read(self) -> None:
        """Read the rest; its error is raised behind the last item. A function that the iterator itself has called
        leaves it as it is."""
        if self._reading or self._error is not None:
            return
        self._reading = True
        try:
            self._read.extend(self._items)
        except PgError as error:
            self._error = error
        finally:
            self._reading = False
