"""A published table: as statements that make it at a subscriber, as rows to copy, whole or by ranges of its key, and as
rows at one LSN, to compare (replication/comparison).

It comes with published columns, NOT NULL, key, replica identity, partitions where rows are published by them, and its
types. A type that cannot be made here becomes text.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.wire.batch import SparkCopyRows
from pgrepl.replication.wire.messages import Row, SentRelation
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.lake.forms import form
from pgrepl.types.names import format_type
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.text import read_text, reader

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.run_kernels import KernelSource
    from pgrepl.replication.publisher.definitions import ToldTable
    from pgrepl.rows.staged import StagedRows


_XIDS = 1 << 32  # as many as the stream tells apart
CountRows: TypeAlias = "Callable[[int, int], None]"  # counts more rows and their bytes
BeginCount: TypeAlias = "Callable[[], CountRows]"  # begins to count from zero


@frozen
class RemoteType:
    """An enum, a domain or a composite type of the publisher, as it is made at a subscriber."""

    schema: str
    name: str
    made: tuple[str, ...]  # the statements
    left: tuple[str, ...] = ()  # what is not made of it

    @property
    def qualified_name(self) -> str:
        return quote_qualified(self.schema, self.name)


@frozen
class RemoteAttribute:
    """A column of the publisher's table, by its present definition."""

    num: int
    name: str
    type: int
    typmod: int
    here: str  # the type that takes its values at a subscriber
    dropped: bool = False
    missing: str | None = None  # the value of rows that are older than the column
    types: tuple[RemoteType, ...] = ()  # those that `here` needs, in the order in which they are made
    generated: str = ""  # the expression of a generated column


@frozen
class RemoteNotNull:
    """A NOT NULL as PostgreSQL 18 has it: a constraint with a name, which may be NOT VALID."""

    name: str
    no_inherit: bool
    is_valid: bool


@frozen
class RemoteColumn:
    """A published column."""

    num: int
    name: str
    type: int
    typmod: int
    here: str  # the type that takes its values at a subscriber
    notnull: bool  # and valid
    comment: str | None = None  # the column's own type, if another takes its place
    types: tuple[RemoteType, ...] = ()  # those that `here` needs, in the order in which they are made
    not_null: RemoteNotNull | None = None  # the constraint, of a server since 18


@frozen
class RemoteDefinition:
    """A table of the publisher, as far as it is made at a subscriber."""

    oid: int
    schema: str
    name: str
    columns: tuple[RemoteColumn, ...]
    key: tuple[str, ...]
    replident: str
    identity: tuple[str, ...]  # the columns of a replica identity index
    identity_name: str  # of that index
    partition_key: str | None
    parent: tuple[str, str] | None  # of a partition that is made as one
    bound: str | None
    left: tuple[str, ...] = ()  # what is not made of its columns, in words
    told: ToldTable | None = None  # what the stream tells of it, if that is followed
    temporal: frozenset[str] = frozenset()  # WITHOUT OVERLAPS: "p" the key, "u" the constraint of the identity

    @property
    def qualified_name(self) -> str:
        return quote_qualified(self.schema, self.name)

    @property
    def types(self) -> tuple[RemoteType, ...]:
        """The types of the columns; partitions have those of their root."""
        return tuple(dict.fromkeys(remote_type for column in self.columns for remote_type in column.types))

    @property
    def notes(self) -> tuple[str, ...]:
        """The differences between the tables here and at the publisher, in words."""
        named = [column for column in self.columns if column.comment]
        return tuple([f"column {column.name} of table {self.qualified_name}: {column.comment}" for column in named])

    @property
    def is_newer(self) -> bool:
        """Has it something that statements for 17 do not say?"""
        return bool(self.temporal or self.ordinary) or any(
            _not_null(self, column, 18) != _not_null(self, column, 17) for column in self.columns
        )

    @property
    def ordinary(self) -> tuple[str, ...]:
        """What sessions that speak 17 make without its periods, or not at all, in words."""
        if self.parent:
            return ()
        named = {"p": "the primary key", "u": f"constraint {quote_identifier(self.identity_name)}"}
        of, kept = f"of table {self.qualified_name}", "a database set to pgrepl.postgres_version = 18 keeps it"
        notes = [f"{named[kind]} {of} is not WITHOUT OVERLAPS here: {kept}" for kind in sorted(self.temporal)]
        for _, constraint in self._not_valid():
            notes.append(f"constraint {quote_identifier(constraint.name)} {of} is not here, as it is NOT VALID: {kept}")
        if self._has_identity(not_valid=True) and not self._has_identity(not_valid=False):
            notes.append(f"the replica identity {of} is not here: it needs that constraint")
        return tuple(notes)

    @property
    def checked(self) -> tuple[str, ...]:
        """What sessions that speak 18 make, but does not take every row, in words."""
        listed = [constraint for _, constraint in self._not_valid()] if self.parent is None else []
        named = [f"constraint {quote_identifier(rule.name)} of table {self.qualified_name}" for rule in listed]
        return tuple([f"{text} is NOT VALID: rows that have NULL can be copied only without it" for text in named])

    def not_valid(self) -> Iterator[str]:
        """The statements that add the constraints that are NOT VALID, for 18. Those of a partitioned table come when
        its partitions are there: new ones would get them valid."""
        for column, constraint in self._not_valid() if self.parent is None else ():
            text = f"NOT NULL {quote_identifier(column.name)}{' NO INHERIT' if constraint.no_inherit else ''} NOT VALID"
            yield f"ALTER TABLE {self.qualified_name} ADD CONSTRAINT {quote_identifier(constraint.name)} {text};"

    def _not_valid(self) -> list[tuple[RemoteColumn, RemoteNotNull]]:
        named = [(column, column.not_null) for column in self.columns if column.not_null is not None]
        return [(column, constraint) for column, constraint in named if not constraint.is_valid]

    def _has_identity(self, *, not_valid: bool) -> bool:
        """Is its index made, whose columns are NOT NULL?"""
        if self.replident != "i" or not self.identity or self.partition_key is not None:
            return False
        return not_valid or all(column.name not in self.identity for column, _ in self._not_valid())

    def add_column(self, column: RemoteColumn) -> str:
        """The statement that adds a column which a table here lacks."""
        return f"ALTER TABLE {self.qualified_name} ADD COLUMN {quote_identifier(column.name)} {column.here};"

    def statements(self, *, comments: bool, release: int, not_valid: bool = False) -> Iterator[str]:
        """The statements that make it. `comments`: with those that say where a column has another type. `release`: that
        the session speaks; WITHOUT OVERLAPS is for 18, and columns of the server's types. `not_valid`: with
        constraints that are NOT VALID, unless it is partitioned; rows that have NULL can be copied only without."""
        temporal = self.temporal if release >= 18 else frozenset()
        if self.parent is not None:
            by = "" if self.partition_key is None else f" PARTITION BY {self.partition_key}"
            yield f"CREATE TABLE {self.qualified_name} PARTITION OF {quote_qualified(*self.parent)} {self.bound}{by};"
        else:
            key = self._listed(self.key, is_temporal="p" in temporal)
            yield _create(self, f"PRIMARY KEY ({key})" if self.key else "", comments=comments, release=release)
            if not_valid and self.partition_key is None:
                yield from self.not_valid()
        if self.replident == "f":
            yield f"ALTER TABLE {self.qualified_name} REPLICA IDENTITY FULL;"
        elif self._has_identity(not_valid=not_valid):
            index = quote_identifier(self.identity_name)
            listed = self._listed(self.identity, is_temporal="u" in temporal)
            if "u" in temporal:
                yield f"ALTER TABLE {self.qualified_name} ADD CONSTRAINT {index} UNIQUE ({listed});"
            else:
                yield f"CREATE UNIQUE INDEX {index} ON {self.qualified_name} ({listed});"
            yield f"ALTER TABLE {self.qualified_name} REPLICA IDENTITY USING INDEX {index};"

    @staticmethod
    def _listed(names: Iterable[str], *, is_temporal: bool) -> str:
        return ", ".join(map(quote_identifier, names)) + (" WITHOUT OVERLAPS" if is_temporal else "")


def definition_of(definitions: Iterable[RemoteDefinition], schema: str, name: str) -> RemoteDefinition | None:
    """The definition of the published table itself, among those of its partitions."""
    return next((table for table in definitions if (table.schema, table.name) == (schema, name)), None)


def _create(table: RemoteDefinition, key: str, *, comments: bool, release: int) -> str:
    lines = []
    for column in table.columns:
        text = f"{quote_identifier(column.name)} {column.here}{_not_null(table, column, release)}"
        lines.append((text, column.comment if comments else None))
    if key:
        lines.append((key, None))
    last = len(lines) - 1
    body = "".join(
        f"    {text}{',' if number < last else ''}{f'  -- {_one_line(comment)}' if comment else ''}\n"
        for number, (text, comment) in enumerate(lines)
    )
    by = "" if table.partition_key is None else f" PARTITION BY {table.partition_key}"
    return f"CREATE TABLE {table.qualified_name} (\n{body}){by};"


def _not_null(table: RemoteDefinition, column: RemoteColumn, release: int) -> str:
    """As 18 writes it with a name that is not its own choice, and NO INHERIT."""
    if not column.notnull:
        return ""
    constraint = column.not_null
    if constraint is None or release < 18:
        return " NOT NULL"
    is_named = constraint.name != f"{table.name}_{column.name}_not_null"
    name = f" CONSTRAINT {quote_identifier(constraint.name)}" if is_named else ""
    return f"{name} NOT NULL{' NO INHERIT' if constraint.no_inherit else ''}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def is_here(typoid: int, typmod: int) -> bool:
    """Can a column here have this type of a publisher?"""
    row = type_by_oid(typoid) if typoid < FIRST_USER_OID else None
    if row is None or row.typtype == "p" or row.name.lstrip("_").startswith("reg"):
        return False  # values of regclass and similar types name objects of the server
    try:
        form(typoid, typmod)
        reader(typoid)
    except PgError:
        return False
    return True


def type_here(typoid: int, typmod: int) -> str:
    """The name of the type that takes the values of a publisher's type."""
    return format_type(typoid, typmod) if is_here(typoid, typmod) else "text"


# --- copy ranges ------------------------------------------------------------------------------------------------------


def _reader(type: int) -> Callable[[str], Any]:
    return lambda text: read_text(text, type, -1, WIRE_STYLE)


# types whose values are ordered here as the server orders them
READ: dict[int, Callable[[str], Any]] = {
    **dict.fromkeys((oids.INT2, oids.INT4, oids.INT8), int),
    **dict.fromkeys((oids.TEXT, oids.VARCHAR, oids.UUID, oids.BYTEA), str.encode),  # of text by COLLATE "C"
    **{type: _reader(type) for type in (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)},
}


def is_ordered(type: int) -> bool:
    """Whether server and subscriber order values of the type alike."""
    return type in READ


@frozen
class Snapshot:
    """A snapshot of the publisher's, as pg_current_snapshot() tells it."""

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def read(cls, text: str) -> Snapshot:
        xmin, xmax, listed = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in listed.split(",") if xid))

    def has_in_progress(self, xids: Collection[int]) -> bool:
        """Whether one of these transactions, by the lower halves of their XIDs, is in progress."""
        return any(xid % _XIDS in xids for xid in self.in_progress)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.in_progress)))}"

    def sees(self, xid: int) -> bool:
        """Whether a transaction of the stream, which tells the lower half of its XID, is visible."""
        behind = (xid - self.xmax) % _XIDS
        full = self.xmax + (behind if behind < _XIDS // 2 else behind - _XIDS)
        return full < self.xmin or (full < self.xmax and full not in self.in_progress)


@frozen
class Bound:
    """A place between keys: before the key of these texts, or behind it."""

    key: tuple[str, ...]
    is_behind: bool = False

    def text(self) -> str:
        return json.dumps([*self.key, self.is_behind])

    @classmethod
    def read(cls, text: str) -> Bound:
        *key, is_behind = json.loads(text)
        return cls(tuple(key), is_behind)


@frozen
class KeyRange:
    """The keys between two bounds (None: there is none), and the snapshot in which they were copied."""

    lower: Bound | None
    upper: Bound | None
    snapshot: Snapshot | None = None

    @classmethod
    def read(cls, lower: str | None, upper: str | None, snapshot: str | None = None) -> KeyRange:
        first, last = [None if end is None else Bound.read(end) for end in (lower, upper)]
        return cls(first, last, None if snapshot is None else Snapshot.read(snapshot))

    def texts(self) -> list[str | None]:
        """The bounds as `read` takes them."""
        return [None if end is None else end.text() for end in (self.lower, self.upper)]

    @property
    def is_one_key(self) -> bool:
        return self.lower is not None and self.upper is not None and self.lower.key == self.upper.key


# --- table copy -------------------------------------------------------------------------------------------------------


class DirectRows(Protocol):
    """Rows that can go into files of the lake as they are."""

    size: int  # in bytes

    def stage(
        self, session: Session, table: Relation, begins: BeginCount, check: Callable[[], None], *, on_spark: bool
    ) -> StagedRows:
        """The staged rows. Declined: they have to be converted or checked. `begins` is called by each attempt; `check`
        raises the error that ends the work."""


class LakeSources(Protocol):
    """Rows in the files of a lake."""

    @property
    def estimate(self) -> int:
        """About how many rows have to be read."""

    def sources(self) -> list[KernelSource]:
        """The tables with the rows, in order; Declined where the filter needs the publisher's session."""


@dataclass(frozen=True, slots=True)
class TableCopy:
    """The published rows of a table at one moment: everything that finishes before `lsn`."""

    relation: SentRelation
    lsn: int
    rows: Iterator[Row]
    spark: SparkCopyRows | None = None  # the rows as a DataFrame, if that is possible
    direct: DirectRows | None = None  # the rows for files of the lake, without Spark
    lake: LakeSources | None = None  # the rows for kernels over Arrow
    count: int | None = None  # the number of rows, if it is known beforehand
    snapshot: Snapshot | None = None  # in which ranges of the key were read
    may_be_binary: bool = True  # with binary = true (since 16; see copy_table)


@dataclass(frozen=True, slots=True)
class WantedRanges:
    """Ranges of a table's key to be copied, in a snapshot behind the transactions that have been received."""

    ranges: tuple[KeyRange, ...]
    passed: frozenset[int]  # XIDs of the last of these transactions


@dataclass(frozen=True, slots=True)
class Undivided:
    """A large table that is copied as a whole, and why."""

    reason: str


# --- rows at one LSN --------------------------------------------------------------------------------------------------


@frozen
class HashedPiece:
    """The number of rows of a piece, and the sum of their hashes."""

    number: int
    count: int
    total: int


class HashingServer(Protocol):
    """A table of a server, which hashes its rows itself. `hash`: the expression for a row's."""

    def identifier(self, name: str) -> str: ...

    def divide(self, key: Sequence[str], size: int) -> list[KeyRange] | None:
        """Ranges of a key with about so many rows each; None: its index does not give them quickly."""

    def digests_of_ranges(self, hash: str, wanted: Sequence[tuple[int, KeyRange]]) -> Iterator[HashedPiece]:
        """Those of some ranges, with their numbers, in any order: one query each."""

    def digests_by_bits(self, hash: str, mask: int) -> Iterator[HashedPiece]:
        """Those of all rows, by some bits of their hashes: one query."""

    def rows_of_ranges(self, hash: str, wanted: Sequence[KeyRange]) -> Iterator[tuple[int, tuple[str | None, ...]]]:
        """The hashes and the texts of the rows of some ranges."""

    def rows_by_bits(
        self, hash: str, mask: int, wanted: Sequence[int]
    ) -> Iterator[tuple[int, tuple[str | None, ...]]]: ...

    def stop(self) -> None:
        """End what the server computes, for good; called from another thread."""
        ...


class TableAtLsn(Protocol):
    """The published rows of a table at one LSN, each as texts of the relation's columns. One of `server` and `lake` is
    there."""

    relation: SentRelation  # with all values as text
    sent: SentRelation  # with the types of its columns; a server's is `relation`
    key: tuple[str, ...]  # the replica identity's columns; none: it is the whole row, or nothing
    estimate: int  # about how many rows there are
    server: HashingServer | None  # None: its rows are in a lake, or the server hashes in another way

    def sources(self) -> list[KernelSource]:
        """The rows for kernels, if they are in a lake; Declined."""

    def texts(self) -> Iterator[tuple[str | None, ...]]:
        """All rows."""


class TablesAtLsn(Protocol):
    """Everything that finishes before `lsn`."""

    lsn: int

    def table(self, schema: str, name: str, publications: Sequence[str]) -> TableAtLsn: ...

    def close(self) -> None: ...


@frozen
class Limits:
    """What a server may be asked to bear. `timeout`: seconds for which open transactions are waited for."""

    connections: int
    rows_per_second: int | None
    timeout: float


class Comparing(Protocol):
    """What a publisher can be asked for a comparison."""

    knows_past: bool  # whether tables can be read as of any LSN, or only as they are now

    def begin(self, lsn: int, limits: Limits, slot: str = "") -> TablesAtLsn:
        """The tables as of `lsn`, or as of now. `slot`: one that is made there, and stays."""


class Pace:
    """Holds a server's readers to so many rows a second together."""

    def __init__(self, rows_per_second: int | None) -> None:
        self._rate = rows_per_second
        self._free = time.monotonic()  # when the next rows may be read
        self._lock = threading.Lock()
        self._over = threading.Event()

    def stop(self) -> None:
        """Nobody waits any more."""
        self._over.set()

    def read(self, rows: int) -> None:
        """Wait until as many rows may be read as have been."""
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            self._free = max(self._free, now) + rows / self._rate
            wait = self._free - now
        self._over.wait(wait)
