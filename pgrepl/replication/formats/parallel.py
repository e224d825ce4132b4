"""Blocks of a file are decoded by all cores, and come in the file's order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import TypeVar

from pgrepl.lake.kernels.here import slots
from pgrepl.replication.formats.event import ColumnTypes
from pgrepl.thread_pool import ThreadPool

Item = TypeVar("Item")
Made = TypeVar("Made")


def first_then_ahead(function: Callable[[Item], Made], items: Iterator[Item]) -> Iterator[Made]:
    """The results of `function` for each item, in their order: for the first here, for the others in threads, which are
    ahead by one item for each core. numpy and Arrow do the work, without Python's lock. What fails in `items` is raised
    after all that came before."""
    for item in items:
        yield function(item)
        break
    ahead: deque[Future[Made]] = deque()
    problem: Exception | None = None
    with ThreadPool(slots(), "pgrepl-decode") as threads:
        try:
            while True:
                try:
                    ahead.append(threads.submit(function, next(items)))
                except StopIteration:
                    break
                except Exception as error:
                    problem = error
                    break
                if len(ahead) > slots():
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for each in ahead:
                each.cancel()
    if problem is not None:
        raise problem


class UnknownTable(Exception):
    """The error in another thread than the session's, which alone may ask for the table's types."""


class KnownTypes:
    """The types of tables' columns: the thread that made this asks for them, all threads have the answers."""

    def __init__(self, types: ColumnTypes) -> None:
        self._types = types
        self._known: dict[tuple[str | None, str | None], Mapping[str, tuple[int, int]] | None] = {}
        self._owner = threading.get_ident()

    def __call__(self, schema: str | None, table: str | None) -> Mapping[str, tuple[int, int]] | None:
        key = (schema, table)
        if key not in self._known:
            if threading.get_ident() != self._owner:
                raise UnknownTable
            self._known[key] = self._types(schema, table)
        return self._known[key]
