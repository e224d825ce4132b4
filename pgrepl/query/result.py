"""The result of a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
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
    from pgrepl.expr.typefacts import base_and_typmod

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
        found = super().__new__(cls, text)
        found.value = value
        return found


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
