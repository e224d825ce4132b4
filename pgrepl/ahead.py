"""Work that another thread does one step ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items, each computed by another thread while the caller works with the one before it."""
    from pgrepl.thread_pool import ThreadPool

    with ThreadPool(1) as worker:
        coming = worker.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = worker.submit(next, items, None)
            yield item
