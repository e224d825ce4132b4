"""What was played, change by change: kept for those who read here what this subscriber has received.

They see what PostgreSQL's apply worker would have logged: every transaction of the publisher as one of its own, with
all of its changes in order, also those that a later one undoes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.apply.overlay import LiveRow, Overlay
    from pgrepl.replication.wire.messages import Row, WireTransaction


@frozen
class Changed:
    """A row came (`is_new`), became `row`, or went (`row` None)."""

    overlay: Overlay
    live: LiveRow
    row: Row | None
    is_new: bool = False


@frozen
class Emptied:
    """The tables of one TRUNCATE."""

    overlays: tuple[Overlay, ...]
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
