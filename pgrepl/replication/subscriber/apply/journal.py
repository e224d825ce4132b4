"""The journal of an applied batch, change by change: for logical decoding of this subscriber's database.

It has the changes that PostgreSQL's apply worker would log: each transaction of the publisher by itself, with all of
its changes in order, also those that a later change undoes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.lake.ctid import RowPlace
    from pgrepl.replication.wire.messages import Row, WireTransaction


class LiveRow:
    """A row as of now. `place` is the place of its version in the table; None: the batch inserted it."""

    __slots__ = ("changed", "place", "row")

    def __init__(self, row: Row, place: RowPlace | None) -> None:
        self.row = row
        self.place = place
        self.changed = 0  # when it was last changed; 0: as in the table


@frozen
class Changed:
    """A row was inserted (`is_new`), updated to `row`, or deleted (`row` None)."""

    table: Relation
    live: LiveRow
    row: Row | None
    is_new: bool = False


@frozen
class Emptied:
    """The tables that one TRUNCATE emptied."""

    tables: tuple[int, ...]  # OIDs of those that hold rows
    oids: tuple[int, ...]  # partitioned tables are among them
    restart_identity: bool


Entry: TypeAlias = "Changed | Emptied"


class Journal:
    def __init__(self) -> None:
        self.transactions: list[tuple[WireTransaction | None, list[Entry]]] = []

    def begin(self, transaction: WireTransaction | None) -> None:
        """Begin a transaction; None: an initial copy, which is no transaction of the publisher."""
        self.transactions.append((transaction, []))

    def add(self, entry: Entry) -> None:
        self.transactions[-1][1].append(entry)
