"""Transition tables: the rows that a statement changed, under the names that a trigger's REFERENCING gives them.

PostgreSQL's ephemeral named relations. The statements of a trigger function find them by unqualified name while the
function runs; those of functions that it calls do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation


@frozen
class TransitionTable:
    """Rows in the layout of the trigger's table: column n stands at n - 1."""

    name: str
    relation: Relation
    rows: Sequence[tuple[Any, ...]]


class HasTransitionTables(Protocol):
    transition_tables: Mapping[str, TransitionTable]


@contextmanager
def without_transition_tables(session: HasTransitionTables) -> Iterator[None]:
    """A definition lasts longer than the run of a trigger function, whose names it does not find."""
    tables, session.transition_tables = session.transition_tables, {}
    try:
        yield
    finally:
        session.transition_tables = tables


class TransitionRows(Sequence[tuple[Any, ...]]):
    """The rows of the transition table that has a name now: a plan that is kept sees those of each call."""

    def __init__(self, session: HasTransitionTables, name: str) -> None:
        self._session = session
        self._name = name

    def _rows(self) -> Sequence[tuple[Any, ...]]:
        return self._session.transition_tables[self._name].rows

    def __len__(self) -> int:
        return len(self._rows())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows())

    def __getitem__(self, place: Any) -> Any:
        return self._rows()[place]
