"""The position of the apply worker in the stream, for the CONTEXT of an error, and the journal of an applied batch,
change by change, for logical decoding of this subscriber's database.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.wire.messages import SentRelation
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.lake.read.data_file import RowPlace
    from pgrepl.replication.wire.messages import Row, WireTransaction

COMMANDS = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE", "truncate": "TRUNCATE"}


class Progress:
    """The current transaction, message, table and column."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.xid = 0
        self.finish_lsn = 0
        self.command = ""
        self.relation: SentRelation | None = None
        self.column: str | None = None

    def transaction(self, xid: int, finish_lsn: int) -> None:
        self.xid, self.finish_lsn = xid, finish_lsn
        self.command, self.relation, self.column = "", None, None

    def message(self, operation: str) -> None:
        self.command, self.relation, self.column = COMMANDS[operation], None, None

    @property
    def context(self) -> str:
        text = f'processing remote data for replication origin "{self.origin}" during message type "{self.command}"'
        if self.relation is not None:
            text += f' for replication target relation "{self.relation.qualified_name}"'
            if self.column is not None:
                text += f' column "{self.column}"'
        if self.xid:
            text += f" in transaction {self.xid}"
        if self.finish_lsn:  # transactions in files may have no number, and are skipped by this all the same
            text += f"{',' if self.xid else ' in a transaction'} finished at {lsn_text(self.finish_lsn)}"
        return text

    def explain(self, error: PgError) -> PgError:
        """The error with its CONTEXT."""
        if self.command:
            inner = error.report.context
            error.report = replace(
                error.report, context=self.context if inner is None else f"{inner}\n{self.context}", position=None
            )
        return error


# --- journal ----------------------------------------------------------------------------------------------------------


class LiveRow:
    """A row as of now. `place` is the place of its version in the table; None: the batch inserted it."""

    __slots__ = ("changed", "place", "row")

    def __init__(self, row: Row, place: RowPlace | None) -> None:
        self.row = row
        self.place = place
        self.changed = 0  # when it was last changed; 0: as in the table


@frozen
class Changed:
    """A row was inserted (`is_new`), updated from `old` to `row`, or deleted (`row` None)."""

    table: Relation
    live: LiveRow
    row: Row | None
    old: Row | None = None
    is_new: bool = False


@frozen
class Emptied:
    """The tables that one TRUNCATE emptied."""

    tables: tuple[int, ...]  # OIDs of those that hold rows
    relations: tuple[Relation, ...]  # partitioned tables are among them
    restart_identity: bool

    @property
    def oids(self) -> tuple[int, ...]:
        return tuple([table.oid for table in self.relations])


Entry: TypeAlias = "Changed | Emptied"


class Journal:
    def __init__(self) -> None:
        self.transactions: list[tuple[WireTransaction | None, list[Entry]]] = []

    def begin(self, transaction: WireTransaction | None) -> None:
        """Begin a transaction; None: an initial copy, which is no transaction of the publisher."""
        self.transactions.append((transaction, []))

    def add(self, entry: Entry) -> None:
        self.transactions[-1][1].append(entry)
