"""What was played, change by change: kept for those who read here what this subscriber has received.

They see what PostgreSQL's apply worker would have logged: every transaction of the publisher as one of its own, with
all of its changes in order, also those that a later one undoes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.lake.place import RowPlace
    from pgrepl.replication.wire.messages import Row, WireTransaction


class LiveRow:
    """A row as it is now. `place` is where its version in the table stands; None: the batch inserted it."""

    __slots__ = ("changed", "place", "row")

    def __init__(self, row: Row, place: RowPlace | None) -> None:
        self.row = row
        self.place = place
        self.changed = 0  # when it was last changed; 0: as in the table


@frozen
class Changed:
    """A row came (`is_new`), became `row`, or went (`row` None)."""

    table: Relation
    live: LiveRow
    row: Row | None
    is_new: bool = False


@frozen
class Emptied:
    """What one TRUNCATE emptied."""

    tables: tuple[int, ...]  # OIDs of those that hold rows
    oids: tuple[int, ...]  # partitioned tables are among them
    restart_identity: bool


Entry: TypeAlias = "Changed | Emptied"


class Journal:
    def __init__(self) -> None:
        self.transactions: list[tuple[WireTransaction | None, list[Entry]]] = []

    def begin(self, transaction: WireTransaction | None) -> None:
        """None: an initial copy, which is no transaction of the publisher."""
        self.transactions.append((transaction, []))

    def add(self, entry: Entry) -> None:
        self.transactions[-1][1].append(entry)
