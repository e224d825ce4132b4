"""A meeting: the worker of a subscription waits at an LSN of the publisher, so that both sides can be compared there.

Who compares first has the worker apply nothing more (`call`), then takes a snapshot of the publisher's, and names its
LSN (`name`). The worker, if there is one, goes on up to exactly that LSN, and stays until the meeting is over. A batch
that the worker had begun before ends before that LSN: the publisher told its end earlier. Whether a meeting has been
called meanwhile is looked at with the write lock again, before a batch is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session.transaction import statement
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, rows, update

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

PAUSE = 0.02  # seconds


class Called(Exception):
    """A meeting has been called, or has ended, since the batch began."""


def bound(session: Session, subid: int) -> int | None:
    """The LSN before which transactions may be applied, 0: none may be; None: there is no meeting."""
    called = [row.lsn or 0 for row in rows(session, tables.pgrepl_meeting, subid=subid) if lock_file.is_at_work(row)]
    return min(called, default=None)


def forget_ended(session: Session, subid: int) -> None:
    """Forget the meetings of processes that have ended."""
    for row in rows(session, tables.pgrepl_meeting, subid=subid):
        if not lock_file.is_at_work(row):
            delete(session, tables.pgrepl_meeting, subid=subid, token=row.token)


class Meeting:
    """A meeting that was called."""

    def __init__(self, session: Session, subid: int, token: str) -> None:
        self._session, self._subid, self._token = session, subid, token

    def name(self, lsn: int) -> None:
        """Have the worker go on up to this LSN."""
        with statement(self._session, writes=True):
            key = {"subid": self._subid, "token": self._token}
            update(self._session, tables.pgrepl_meeting, key, lsn=lsn, beat=lock_file.now())

    def is_on(self, session: Session) -> bool:
        """Whether it is still there, as a transaction sees it."""
        return bool(rows(session, tables.pgrepl_meeting, subid=self._subid, token=self._token))


@contextmanager
def call(session: Session, subid: int) -> Iterator[Meeting]:
    token = lock_file.new_token()
    with statement(session, writes=True):
        forget_ended(session, subid)
        insert(
            session,
            tables.pgrepl_meeting,
            subid=subid,
            token=token,
            pid=lock_file.worker_pid(),
            host=lock_file.machine(),
            beat=lock_file.now(),
            lsn=None,
        )
    try:
        yield Meeting(session, subid, token)
    finally:
        try:
            with statement(session, writes=True):
                delete(session, tables.pgrepl_meeting, subid=subid, token=token)
        finally:
            lock_file.retire(token)
