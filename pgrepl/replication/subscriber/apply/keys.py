"""Unique keys while messages are played: who holds which key now, table and batch together.

A key is looked up in the table when a row first wants it; from then on the answer is here. Rows of the table that the
batch has already changed or deleted are answered for by what the batch made of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation
from pgrepl.replication.wire.messages import Row
from pgrepl.rows.unique import Key, UniqueIndex, unique_indexes

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class Keys:
    """All immediate unique indexes of one table. Those of deferrable constraints are checked by triggers, which do
    not fire in an apply worker."""

    def __init__(self, session: Session, table: Relation) -> None:
        infos = [info for info in unique_indexes(session, table) if info.immediate]
        self._indexes = [_Index(UniqueIndex(session, table, info)) for info in infos]
        self._gone: set[object] = set()  # places in the table whose rows the batch has taken away or changed

    def load(self, rows: Iterable[Row]) -> None:
        """Look up at once what rows will want."""
        wanted = list(rows)
        for index in self._indexes:
            index.load(wanted, self._gone)

    def enter(self, row: Row, holder: object, old: Row | None = None) -> None:
        """A row comes, or a version that replaces `old`; an error if somebody else holds a key of it."""
        for index in self._indexes:
            index.enter(row, holder, old, self._gone)

    def leave(self, row: Row, holder: object) -> None:
        """A version goes, for good or for another."""
        self._gone.add(holder)
        for index in self._indexes:
            index.leave(row, holder)

    def clear(self) -> None:
        """The table was emptied."""
        for index in self._indexes:
            index.clear()


class _Index:
    def __init__(self, index: UniqueIndex) -> None:
        self._index = index
        self._holders: dict[Key, list[object]] = {}
        self._asked: set[Key] = set()
        self._empty = False

    def load(self, rows: Iterable[Row], gone: set[object]) -> None:
        wanted = {}
        for row in rows:
            values = self._index.values(row)
            if values is not None:
                key = self._index.key(values)
                if key not in self._asked:
                    wanted[key] = values
        self._asked.update(wanted)
        if not wanted or self._empty:
            return
        for key, place, _ in self._index.find(wanted.values()):
            if place not in gone:
                self._holders.setdefault(key, []).append(place)

    def enter(self, row: Row, holder: object, old: Row | None, gone: set[object]) -> None:
        values = self._index.values(row)
        if values is None:
            return
        key = self._index.key(values)
        if old is not None and self._index.of_row(old) == key:
            self._holders.setdefault(key, []).append(holder)
            return
        if key not in self._asked:
            self.load([row], gone)
        if self._holders.get(key):
            raise self._index.duplicate(values)
        self._holders[key] = [holder]

    def leave(self, row: Row, holder: object) -> None:
        key = self._index.of_row(row)
        held = None if key is None else self._holders.get(key)
        if held and holder in held:
            held.remove(holder)

    def clear(self) -> None:
        self._empty = True
        self._holders.clear()
