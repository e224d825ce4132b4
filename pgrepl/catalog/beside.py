"""A session's second connection, for what does not belong to its transaction: the newest version of a row that somebody
else has changed, the next number of a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_SLICE = 0.05  # seconds between two looks at who has the catalog's lock


class Beside:
    def __init__(self, session: Session) -> None:
        self._owner = session
        self._session: Session | None = None
        self._writes = False

    def _opened(self) -> Session:
        owner = self._owner
        if self._session is None:
            self._session = owner.elsewhere(owner.database_oid, owner.role, apart=True)
        self._session.act_as(owner.role)
        return self._session

    @contextmanager
    def newest(self) -> Iterator[Session]:
        """The catalog as it is now, to look at."""
        beside = self._opened()
        beside.transaction.begin_statement()
        try:
            beside.transaction.require_read()
            yield beside
        finally:
            beside.transaction.end_statement()

    def write(self) -> Session:
        """To write at once; it is committed when the owner's statement ends or has to wait for somebody."""
        beside = self._opened()
        if not self._writes:
            beside.transaction.begin_statement(writes=True)
            self._writes = True
        return beside

    def end(self) -> None:
        if self._writes:
            self._writes = False
            assert self._session is not None
            self._session.transaction.end_statement()
            self._owner.forget_all()

    def wait_for_writers(self) -> None:
        """Wait for the statements that hold the catalog's lock for their own length: they have not seen the locks that
        the owner has just taken. A transaction that holds it for longer has its locks in the lock table."""
        if self._owner.transaction.is_writing:
            return
        self.end()
        link = self._opened().link
        while True:
            try:
                link.begin(write=True, lock_timeout=_SLICE)
            except PgError as problem:
                if problem.sqlstate != "55P03":
                    raise
                if self._owner.transaction.locks.is_catalog_held():
                    return
            else:
                link.rollback()
                return

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
