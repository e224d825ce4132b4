"""What ends a worker's work: an error of the subscription, a change of it, or a stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgrepl.errors import PgError
from pgrepl.replication.publisher.protocol import PublisherError, not_received


class SubscriptionChanged(Exception):
    """The subscription was altered, disabled or dropped since its messages were read."""


class WorkerFailed(Exception):
    """The worker ends by an error of the subscription; pg_stat_subscription_stats counts it if the worker `began`."""

    def __init__(self, error: PgError, *, began: bool = True) -> None:
        super().__init__(error.message)
        self.error = error
        self.began = began


class WorkerStopped(BaseException):
    """The worker has been stopped (WorkerContext.stop)."""


@contextmanager
def working() -> Iterator[None]:
    """Work that ends the worker if it fails: a PgError becomes WorkerFailed."""
    try:
        yield
    except PgError as error:
        raise WorkerFailed(error) from error


@contextmanager
def asking() -> Iterator[None]:
    """A question to the publisher, whose PublisherError becomes WorkerFailed."""
    try:
        yield
    except PublisherError as error:
        raise WorkerFailed(not_received(error)) from None
