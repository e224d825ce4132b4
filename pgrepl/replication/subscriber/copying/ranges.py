"""A table that is copied in pieces: the ranges of its key, and which changes count for the rows of each.

A piece is read in a snapshot of the publisher's, and committed with it. Meanwhile the main stream goes on:

    transaction       visible in the range's snapshot     the copy has it
                      not visible                         it counts for the rows of the range
    range             not copied yet                      no change counts; its snapshot will have them all

So a row that moves from one range to another is a DELETE where its old key counts, and an INSERT where its new key
does. Once all ranges are copied and the stream is behind the last snapshot, they are forgotten.

PostgreSQL has no such thing; the idea is that of Netflix's DBLog, with snapshots in place of its watermarks.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.subscription import READY
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, rows
from pgrepl.replication.publisher.tables import READ, Bound, KeyRange, Snapshot
from pgrepl.replication.wire.messages import DELETE, INSERT, UNCHANGED, Message, Row, SentRelation
from pgrepl.replication.wire.values import as_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


_KEYS = 500  # that are copied again together


class CopyRanges:
    """The ranges of one table, in the order of its key, as a batch changes them."""

    def __init__(self, key: Sequence[tuple[str, int]], ranges: Collection[KeyRange]) -> None:
        """`key`: the names and the publisher's types of its columns."""
        self.key = tuple(key)
        self._read = [READ[type] for _, type in key]
        self.ranges = sorted(ranges, key=lambda piece: self._place(piece.lower))
        self._lower = [self._place(piece.lower) for piece in self.ranges]
        self._known: dict[SentRelation, list[int]] = {}
        self.is_changed = False
        self.since = 0  # the lake's snapshot at which the table was divided

    def _place(self, bound: Bound | None) -> tuple[Any, ...]:
        if bound is None:
            return ()  # before all others
        return (tuple([read(text) for read, text in zip(self._read, bound.key, strict=True)]), bound.is_behind)

    @property
    def unfinished(self) -> list[KeyRange]:
        return [piece for piece in self.ranges if piece.snapshot is None]

    def next(self, readers: int) -> tuple[KeyRange, ...]:
        """The unfinished ranges that are copied together: as many as there are readers, and many that are one key."""
        room = {False: readers, True: _KEYS}
        taken = []
        for piece in self.unfinished:
            if room[piece.is_one_key]:
                room[piece.is_one_key] -= 1
                taken.append(piece)
        return tuple(taken)

    @property
    def progress(self) -> tuple[int, int]:
        """The numbers of ranges that are copied, and of all."""
        return len(self.ranges) - len(self.unfinished), len(self.ranges)

    def counts(self, key: tuple[str, ...], xid: int) -> bool:
        """Whether a change of the transaction counts for the row with this key."""
        snapshot = self._at(key)[1].snapshot
        return snapshot is not None and not snapshot.sees(xid)

    def _at(self, key: tuple[str, ...]) -> tuple[int, KeyRange]:
        number = bisect_right(self._lower, self._place(Bound(key))) - 1
        return number, self.ranges[number]

    def changes(self, message: Message, xid: int) -> list[Message]:
        """The changes to be applied for one that is not applied as it is."""
        places, columns = self._places(message.relation), message.relation.columns

        def key_of(row: Row) -> tuple[Any, ...]:
            return tuple([as_text(row[place], columns[place].sent_as) for place in places])

        new = message.new
        if message.operation == DELETE or new is None:
            assert message.old is not None
            return [message] if self.counts(key_of(message.old), xid) else []
        if message.operation == INSERT:
            return [message] if self.counts(key_of(new), xid) else []
        before = key_of(new if message.old is None else message.old)
        after = tuple([a if b is UNCHANGED else b for a, b in zip(before, key_of(new), strict=True)])
        old_counts, new_counts = self.counts(before, xid), self.counts(after, xid)
        if old_counts and new_counts:
            return [message]
        if old_counts:
            return [replace(message, operation=DELETE, old=message.old or new, new=None)]
        if not new_counts:
            return []
        if any(value is UNCHANGED for value in new):
            self.reopen(after)
            return []
        return [replace(message, operation=INSERT, old=None, whole_old=False)]

    def _places(self, relation: SentRelation) -> list[int]:
        """The places of the key's columns in the relation's rows."""
        if relation not in self._known:
            names = [column.name for column in relation.columns]
            self._known = {relation: [names.index(name) for name, _ in self.key]}
        return self._known[relation]

    def reopen(self, key: tuple[str, ...]) -> None:
        """Have one key copied again: its row is not known here, and the stream does not tell all of it."""
        number, split = self._at(key)
        before, behind = Bound(key), Bound(key, True)
        parts = [replace(split, upper=before), KeyRange(before, behind), replace(split, lower=behind)]
        self.ranges[number : number + 1] = [part for part in parts if part.lower != part.upper or part.lower is None]
        self._lower = [self._place(piece.lower) for piece in self.ranges]
        self.is_changed = True

    def truncates(self, xid: int) -> bool:
        """Whether a TRUNCATE counts for rows that were copied. Ranges whose snapshot is behind it are then copied
        again: it empties them, too."""
        if all(piece.snapshot is None or piece.snapshot.sees(xid) for piece in self.ranges):
            return False
        again = [piece for piece in self.ranges if piece.snapshot is not None and piece.snapshot.sees(xid)]
        self.ranges = [replace(piece, snapshot=None) if piece in again else piece for piece in self.ranges]
        self.is_changed = self.is_changed or bool(again)
        return True

    def finish(self, copied: Collection[KeyRange], snapshot: Snapshot) -> None:
        self.ranges = [replace(piece, snapshot=snapshot) if piece in copied else piece for piece in self.ranges]
        self.is_changed = True


# --- in the catalog ---------------------------------------------------------------------------------------------------


def copy_ranges(session: Session, subid: int) -> dict[int, CopyRanges]:
    """The ranges of all tables of a subscription that are copied in pieces, by table."""
    listed: dict[int, list[tables.pgrepl_copy_range]] = {}
    for row in rows(session, tables.pgrepl_copy_range, subid=subid):
        listed.setdefault(row.relid, []).append(row)
    return {relid: _read(stored) for relid, stored in listed.items()}


def ranges_of_unready(session: Session, subid: int, states: Mapping[int, tuple[str, int]]) -> dict[int, CopyRanges]:
    """The same by the tables' states (table_states): without a question where all tables are ready."""
    if all(current == READY for current, _ in states.values()):
        return {}
    return copy_ranges(session, subid)


def _read(stored: Sequence[tables.pgrepl_copy_range]) -> CopyRanges:
    (described,) = [row for row in stored if row.number == _KEY]
    key = [(name, type) for name, type in json.loads(described.lower or "[]")]
    ranges = CopyRanges(key, [KeyRange.read(r.lower, r.upper, r.snapshot) for r in stored if r.number != _KEY])
    ranges.since = int(described.snapshot or 0)
    return ranges


_KEY = 0  # the number of the row that has the key's columns, and the lake's snapshot


def store(session: Session, subid: int, relid: int, ranges: CopyRanges) -> None:
    forget(session, subid, relid)
    key = json.dumps([list(column) for column in ranges.key])
    since = str(ranges.since)
    insert(
        session, tables.pgrepl_copy_range, subid=subid, relid=relid, number=_KEY, lower=key, upper=None, snapshot=since
    )
    for number, piece in enumerate(ranges.ranges, _KEY + 1):
        lower, upper = piece.texts()
        values = {"lower": lower, "upper": upper, "snapshot": None if piece.snapshot is None else str(piece.snapshot)}
        insert(session, tables.pgrepl_copy_range, subid=subid, relid=relid, number=number, **values)


def forget(session: Session, subid: int, relid: int) -> None:
    delete(session, tables.pgrepl_copy_range, subid=subid, relid=relid)
