"""Portals: the open cursors of a transaction, of SQL and of PL/pgSQL alike (portalmem.c, pquery.c).

A portal has all rows of its query, as they were when it was opened. `Transaction.portals` has the portals by name until
the transaction ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Column = tuple[str, int, int]  # name, type, typmod


@dataclass(eq=False, slots=True)
class Portal:
    """`position` 0 is before the first row, and one behind the number of rows is behind the last."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    scrolls: bool = True
    position: int = 0

    def fetch(self, word: str, count: int | None) -> Sequence[Sequence[Any]]:
        """The rows in a direction: forward, backward, absolute or relative (DoPortalRunFetch). None: all of them."""
        if word == "absolute":
            return self._absolute(count or 0)
        if word == "relative" and count:
            step = 1 if count > 0 else -1
            self._move(count - step)
            return self._move(step)
        wanted = len(self.rows) + 1 if count is None else count
        if word == "backward":
            wanted = -wanted
        return self._move(wanted) if wanted else self._current()

    def _current(self) -> Sequence[Sequence[Any]]:
        return self.rows[self.position - 1 : self.position] if 0 < self.position <= len(self.rows) else ()

    def _absolute(self, count: int) -> Sequence[Sequence[Any]]:
        there = count if count >= 0 else max(len(self.rows) + 1 + count, 0)
        if not self.scrolls and there <= self.position:
            raise self._only_forward()
        self.position = min(there, len(self.rows) + 1)
        return self._current()

    def _move(self, count: int) -> Sequence[Sequence[Any]]:
        total, here = len(self.rows), self.position
        if count < 0 and not self.scrolls:
            raise self._only_forward()
        self.position = min(max(here + count, 0), total + 1)
        if count >= 0:
            return self.rows[here : self.position]
        return self.rows[self.position - 1 if self.position else 0 : max(here - 1, 0)][::-1]

    def _only_forward(self) -> PgError:
        hint = "Declare it with SCROLL option to enable backward scan."
        return PgError("55000", "cursor can only scan forward", hint=hint)


def open_portal(session: Session, name: str | None, columns: Sequence[Column], rows: Any, *, scrolls: bool) -> Portal:
    """A new portal; without a name it gets one that no other has."""
    portals = session.transaction.portals
    if name is None:
        name = new_name(session)
    elif name in portals:
        raise PgError("42P03", f'cursor "{name}" already in use')
    portal = portals[name] = Portal(name, columns, rows, scrolls)
    return portal


def new_name(session: Session) -> str:
    while True:
        session.portal_count += 1
        name = f"<unnamed portal {session.portal_count}>"
        if name not in session.transaction.portals:
            return name


def find_portal(session: Session, name: str) -> Portal:
    portal: Portal | None = session.transaction.portals.get(name)
    if portal is None:
        raise PgError("34000", f'cursor "{name}" does not exist')
    return portal


def close_portal(session: Session, name: str) -> None:
    find_portal(session, name)
    del session.transaction.portals[name]
