"""The result of a statement, whose rows may be fetched while the client reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, overload

from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.query import timeouts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.tree import Target

NO_ORIGIN = (0, 0)


class ValueRows(Protocol):
    """Rows as tuples of Python values (types/text.py says which). Large results may be Spark's until they are read."""

    @property
    def frame(self) -> DataFrame | None:
        """Spark's frame with columns c1 … cn in the forms of their types; None: the rows are in this process."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


@frozen
class ResultColumn:
    name: str
    type: int
    typmod: int = -1
    origin: tuple[int, int] = field(default=NO_ORIGIN, compare=False)  # (relid, attnum) of the column that it shows


def listed_columns(targets: Iterable[Target]) -> tuple[ResultColumn, ...]:
    """The columns of a target list."""
    return tuple(
        [ResultColumn(t.name, t.expr.type, t.expr.typmod, t.origin or NO_ORIGIN) for t in targets if not t.junk]
    )


def sent_columns(columns: Iterable[ResultColumn]) -> tuple[ResultColumn, ...]:
    """The columns as clients are told, with the base types of domains (SendRowDescriptionMessage)."""
    from pgrepl.expr.analyse.lookup import base_and_typmod

    return tuple([ResultColumn(c.name, *base_and_typmod(c.type, c.typmod), c.origin) for c in columns])


def told_columns(session: Session, columns: Iterable[ResultColumn]) -> tuple[ResultColumn, ...]:
    """The columns as who runs the statement is told: a client, or a routine, which knows domains."""
    return tuple(columns) if session.is_nested else sent_columns(columns)


def result_columns(session: Session, targets: Iterable[Target]) -> tuple[ResultColumn, ...]:
    """The columns of a target list, as who runs the statement is told."""
    return told_columns(session, listed_columns(targets))


class ValueText(str):
    """The text of a value, with the value, which is sent in binary format."""

    __slots__ = ("value",)
    value: Any

    def __new__(cls, text: str, value: Any) -> ValueText:
        value_text = super().__new__(cls, text)
        value_text.value = value
        return value_text


@frozen
class Result:
    """A command tag, and rows as text (None is NULL) if there are any.

    In a session that streams, rows may be a `StreamedRows`, which fetches them when they are read; the tag then has no
    number. In a session that keeps values, `values` has the rows of a query instead of their text.
    """

    tag: str | None
    columns: tuple[ResultColumn, ...] | None = None
    rows: Sequence[tuple[str | None, ...]] = ()
    values: ValueRows | None = None
    binary: bool = False  # is the client to get them in binary format, unless it says otherwise?


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
        rows = [*self._kept, *self._take(size - len(self._kept), before_error)]
        self._kept = []
        self.given += len(rows)
        return rows

    def time_anew(self) -> None:
        """What fetches the next portions has a time of its own."""
        timeouts.start(self._session)
        self._deadline = interrupts.deadline()
        timeouts.stop()

    def _take(self, size: int, before_error: bool = False) -> list[TextRow]:
        rows: list[TextRow] = []
        with self._fetching():
            if self._problem is not None:
                raise self._problem
            try:
                rows.extend(islice(self._rows, size))
            except PgError as problem:
                if not (before_error and rows):
                    raise
                self._problem = problem
                return rows
            if len(rows) < size:
                self._end()
        return rows

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
