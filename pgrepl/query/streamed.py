"""Rows of a result that are fetched while the client reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, overload

from pgrepl import interrupts
from pgrepl.errors import PgError
from pgrepl.query import timeouts

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

TextRow = tuple["str | None", ...]


class StreamedRows(Sequence[TextRow]):
    """Rows that are fetched in portions, each once. If a caller asks for the length, or for a row by number, all rows
    are fetched and kept.

    A failure while rows are fetched fails the statement's transaction, as if it had happened while the statement
    ran. `at_end` is called when all rows have been fetched.
    """

    def __init__(self, session: Session, batches: Iterable[Sequence[TextRow]]) -> None:
        self._session = session
        self._deadline = interrupts.deadline()  # of the statement
        self._rows = (row for batch in batches for row in batch)
        self._kept: list[TextRow] = []
        self.given = 0  # rows that `portion` has returned
        self._problem: PgError | None = None  # that came behind rows which have been returned
        self.at_end: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        """Whether there is any row; the first one is fetched to find out."""
        if not self._kept and not self.given:
            self._kept = self._take(1)
        return bool(self._kept) or self.given > 0

    @property
    def fails(self) -> bool:
        """Whether the next portion is an error."""
        return self._problem is not None

    def portion(self, size: int, *, before_error: bool = False) -> list[TextRow]:
        """The next rows; fewer than `size` at the end, or `before_error`."""
        found = [*self._kept, *self._take(size - len(self._kept), before_error)]
        self._kept = []
        self.given += len(found)
        return found

    def time_anew(self) -> None:
        """What fetches the next portions has a time of its own."""
        timeouts.start(self._session)
        self._deadline = interrupts.deadline()
        timeouts.stop()

    def _take(self, size: int, before_error: bool = False) -> list[TextRow]:
        found: list[TextRow] = []
        with self._fetching():
            if self._problem is not None:
                raise self._problem
            try:
                found.extend(islice(self._rows, size))
            except PgError as problem:
                if not (before_error and found):
                    raise
                self._problem = problem
                return found
            if len(found) < size:
                self._end()
        return found

    def _all(self) -> list[TextRow]:
        with self._fetching():
            self._kept.extend(self._rows)
            self._end()
        return self._kept

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        if self._session.transaction.in_statement:  # FETCH, which has a time of its own and fails itself
            yield
            return
        try:
            interrupts.check_for_interrupts()
            with timeouts.going_on(self._deadline), self._session.transaction.fetching():
                yield
        except PgError:
            self._session.transaction.fail_statement()
            raise

    def _end(self) -> None:
        at_end, self.at_end = self.at_end, None
        if at_end is not None:
            at_end()

    def __len__(self) -> int:
        return self.given + len(self._all())

    @overload
    def __getitem__(self, index: int) -> TextRow: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[TextRow]: ...

    def __getitem__(self, index: int | slice) -> TextRow | Sequence[TextRow]:
        return self._all()[index]
