"""The operations of a publisher.

CREATE, ALTER and DROP SUBSCRIPTION need the publisher's present catalog (Publications), and its slots (Slots); workers
copy tables (TableCopies) and receive transactions (ChangeStream). An operation that the publisher refuses raises
PublisherError with the text that libpq would have for it.

A kind of publisher is a class that inherits from Publisher. A method with a body here is the default for a kind that
lacks it; the others are abstract. A caller that needs only one of the small protocols takes that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pgrepl.errors import PgError
from pgrepl.replication.publisher.definition import RemoteAttribute, RemoteDefinition
from pgrepl.replication.publisher.retained import Retained, SlotProbe
from pgrepl.replication.publisher.senders import WalSender
from pgrepl.replication.wire.batch import SparkCopyRows, WireBatch
from pgrepl.replication.wire.copy_ranges import KeyRange, Snapshot
from pgrepl.replication.wire.messages import Row, SentRelation, WireTransaction
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog import tables
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session
    from pgrepl.engine import Choice
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.rows.staged import StagedRows


class PublisherError(Exception):
    """The publisher refused an operation. `stream`: what it was to send."""

    stream = "WAL stream"

    def __init__(self, sqlstate: str, text: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


class ColumnsFollow(Exception):
    """A worker's transactions end here, because what follows is worth to be received as columns."""


def is_met_again(error: PgError | PublisherError) -> bool:
    """Would reading message by message meet the error again, behind the messages before it? Not a cancellation, nor a
    failure of Spark: these would be hidden, and one process would do what is too large for it."""
    return error.sqlstate not in ("57014", "58000", "XX000")


class FilesError(PublisherError):
    """Files of changes cannot be read, or their changes not be sent."""

    stream = "files of changes"


def refused(error: PgError) -> PublisherError:
    """A publisher's error as libpq shows it: `ERROR:  message`, then DETAIL and HINT."""
    return PublisherError(error.sqlstate, server_text(error))


def not_received(error: PublisherError) -> PgError:
    """The subscriber's error for an error in the stream (libpqrcv_receive)."""
    return PgError(_of_stream(error), f"could not receive data from {error.stream}: {error}")


def not_started(error: PublisherError) -> PgError:
    """The subscriber's error when a stream cannot be started (libpqrcv_startstreaming)."""
    return PgError(_of_stream(error), f"could not start WAL streaming: {error}")


def not_created(slot: str, error: PublisherError) -> PgError:
    """The subscriber's error when a slot cannot be created (libpqrcv_create_slot)."""
    return PgError(_of_stream(error), f'could not create replication slot "{slot}": {error}')


def _of_stream(error: PublisherError) -> str:
    """A lost connection has another text than an error of the publisher."""
    return _LOST if error.sqlstate == _LOST else "08P01"


_LOST = "08006"


def server_text(error: PgError) -> str:
    report = error.report
    lines = [f"{report.severity}:  {report.message}"]
    if report.detail:
        lines.append(f"DETAIL:  {report.detail}")
    if report.hint:
        lines.append(f"HINT:  {report.hint}")
    return "\n".join(lines)


def slot_is_ahead(slot: str, confirmed: int, origin: int) -> PgError:
    """The error for a slot ahead of the subscriber's origin: changes in between are lost. PostgreSQL would go on from
    the slot's position silently."""
    return PgError(
        "55000",
        f'replication slot "{slot}" stands at {lsn_text(confirmed)}, but changes are applied here only up to '
        f"{lsn_text(origin)}",
        detail="Somebody else has read from the slot or advanced it, or what was applied here has been undone, as by "
        "going back to an older copy; the changes in between are lost.",
        hint="Drop the subscription, empty its tables and create it again; or accept the loss with "
        "pg_replication_origin_advance().",
    )


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """A table as the publications of one subscription publish it."""

    schema: str
    name: str
    attrs: tuple[int, ...]


CountRows: TypeAlias = "Callable[[int, int], None]"  # counts more rows and their bytes
BeginCount: TypeAlias = "Callable[[], CountRows]"  # begins to count from zero


class DirectRows(Protocol):
    """Rows that can go into files of the lake as they are."""

    size: int  # in bytes

    def stage(self, session: Session, table: Relation, begins: BeginCount, *, on_spark: bool) -> StagedRows:
        """The staged rows. Declined: they have to be converted or checked. `begins` is called by each attempt."""
        ...


class LakeSources(Protocol):
    """Rows in the files of a lake."""

    @property
    def estimate(self) -> int:
        """About how many rows have to be read."""
        ...

    def sources(self) -> list[KernelSource]:
        """The tables with the rows, in order; Declined where the filter needs the publisher's session."""
        ...


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


@dataclass(frozen=True, slots=True)
class Published:
    """The columns, operations and filters with which a table's changes are sent, by the publisher's present catalog."""

    columns: tuple[str, ...]
    operations: tuple[str, ...]  # insert, update, delete, truncate
    filters: tuple[tuple[str, str], ...]  # (operation, condition in SQL); an operation without one is not filtered


@dataclass(frozen=True, slots=True)
class SlotLag:
    """The lag of a slot behind its publisher."""

    confirmed: int  # the subscriber has flushed all changes before it
    restart: int  # the publisher keeps its log from here
    current: int  # the end of the publisher's log
    active_pid: int | None = None
    wal_status: str = "reserved"
    held_back: int | None = None  # the LSN before which it may send, if standbys hold it back
    files: int | None = None  # of a publisher that is files: those that are not read to their ends
    since: float | None = None  # when the first of these was last written, in seconds since 1970

    @property
    def sendable(self) -> int:
        return self.current if self.held_back is None else self.held_back


@dataclass(frozen=True, slots=True)
class Backlog:
    """The changes a subscription has yet to receive. Not `exact`: at most that many, by the files' row counts."""

    transactions: int
    changes: int
    since: int | None  # the commit time of the first transaction, in microseconds since 2000-01-01 UTC
    exact: bool = True


class PublisherConnection(Protocol):
    """An open connection to a publisher."""

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as that is known without a round trip."""
        return True

    @property
    def used_password(self) -> bool:
        """Whether the publisher asked for the password."""
        return False

    @property
    def system_identifier(self) -> str:
        """The identifier of the server, or of the instance; another one in its place has another identifier."""
        ...

    def check(self) -> None:
        """Raise unless what the connection string says besides the server can be used."""
        return

    def choose_as(self, worker: Session) -> None:
        """Read with the engine that the worker's settings name, as far as its process does the reading."""
        return

    def interrupt(self) -> None:
        """End the connection's running or waiting command with an error; called from another thread."""
        return

    def give_up(self) -> None:
        """From now on wait for no lock for long: the connection is about to be closed."""
        return

    def close(self) -> None: ...


class Publications(Protocol):
    """The publications, by the publisher's present catalog."""

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        """The publications, among these, that exist."""
        ...

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        """The tables of those publications, a table once for each different column list."""
        ...

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        """The columns, the filter and the operations that the publications publish of a table; None: they do not
        publish it."""
        ...

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        """All columns of a table, dropped ones included, by their numbers: as of an LSN, or as they are now if the
        publisher does not know its past. Empty: there is no such table."""
        ...

    def older_value(self, relid: int, attnum: int, lsn: int) -> str | None:
        """The value of a column in rows that are older than it, if its attribute does not tell (`missing`), because
        rows have been rewritten since. None: NULL, or not known."""
        return None

    def definitions(self, schema: str, name: str, publications: Sequence[str]) -> list[RemoteDefinition]:
        """The tables that a subscriber needs for a published one: itself, after it its partitions if they are needed;
        none: it is not published."""
        ...

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        """The publications with tables that subscriptions of the publisher write to; (schema, table) pairs in `known`
        do not count."""
        return []


class Slots(Protocol):
    """Replication slots: what the publisher keeps for a subscriber, and their walsenders."""

    @property
    def has_slots(self) -> bool:
        """Whether the publisher keeps anything for a subscriber."""
        return True

    def create_slot(self, name: str, *, two_phase: bool, failover: bool) -> int:
        """Create a slot; returns its consistent point."""
        ...

    def alter_slot(self, name: str, *, failover: bool) -> None:
        raise PublisherError("0A000", f'ERROR:  replication slot "{name}" cannot be altered')

    def drop_slot(self, name: str) -> None: ...

    def lag(self, slot: str, *, tell: bool = False) -> SlotLag | None:
        """The lag of the slot; None: there is no such slot. `tell`: log, once, what it waits for."""
        ...

    def retained(self, slot: str) -> Retained | None:
        """What the publisher keeps for the slot; None: there is no such slot, or nothing is kept."""
        return None

    def probe(self, slot: str) -> SlotProbe | None:
        """For a follower that looks now and then at what is retained; None: that needs no looking after."""
        return None

    @property
    def shares_catalog(self) -> bool:
        """Whether publisher and subscriber are databases of one instance. Then a worker's changes at its publisher can
        be part of its own commit: the session that commits is given to `occupy`, `confirm` and `leave`."""
        return False

    def occupy(self, slot: str, sender: WalSender, within: Session | None = None) -> None:
        """Reserve the slot for this worker; an error if another reads from it."""
        return

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        """The LSN from which the slot sends when asked for what comes after `lsn`; an error if it does not exist or is
        in use. `two_phase`: prepared transactions are sent at PREPARE."""
        ...

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """The subscriber has flushed everything before `lsn`."""
        ...

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        """Release the slot of the worker with this token."""
        return


class ChangesWithin(Protocol):
    """A few changes of a database of the subscriber's instance, read in the subscriber's own transaction."""

    def is_usual(self, slot: tables.pg_replication_slot) -> bool:
        """Is the slot a logical one of this database, without options or states that need further checks?"""
        ...

    def few(
        self, within: Session, publications: Sequence[str], start: int, end: int, *, local_only: bool
    ) -> list[WireTransaction] | None:
        """All transactions between two LSNs; None: there are many changes, one cannot be sent, or the log shows empty
        transactions."""
        ...

    def has_sent(self, slot: str, transactions: Iterable[WireTransaction]) -> None:
        """Count the transactions of `few`, which have been applied."""
        ...


class ChangeStream(Protocol):
    """The transactions that a slot sends."""

    @property
    def within(self) -> ChangesWithin | None:
        """The same changes for a transaction of the subscriber's own; None: they are read apart from it."""
        return None

    def current_lsn(self) -> int:
        """The end of the publisher's WAL."""
        ...

    def transactions(
        self,
        slot: str,
        publications: Sequence[str],
        start: int,
        end: int,
        *,
        local_only: bool,
        limit: int | None = None,
    ) -> Generator[WireTransaction, None, None]:
        """The transactions that finish at `start` or later and before `end`, with their messages. `limit`: about how
        many changes the caller will take. ColumnsFollow may end them before."""
        ...

    def wait(self, lsn: int, seconds: float, over: Event) -> bool:
        """Wait until there is something behind `lsn`, for so long at most, or until `over` is set and `wake` is called;
        whether there may be something."""
        over.wait(seconds)
        return True

    def wake(self) -> None:
        """End a wait; called from another thread."""
        return

    def delivered(self, end: int) -> int:
        """The LSN up to which everything has been sent, when all transactions before `end` were asked for and taken. A
        publisher that cannot tell its end beforehand says here how far it came."""
        return end

    def sources(self, start: int) -> Sequence[str]:
        """The names of the files from which transactions from an LSN on come, as far as they come from files."""
        return ()

    def reader_of_sources(self, start: int) -> Choice | None:
        """The engine that reads these files, if they are large; None: there are none."""
        return None

    def batch(
        self, slot: str, publications: Sequence[str], start: int, end: int, *, local_only: bool, least: int
    ) -> tuple[WireBatch, int] | None:
        """The first of these transactions as columns, and the LSN before which they end. None: there are fewer than
        about `least` changes, or they have to be sent message by message. Declined: their messages do not become
        columns."""
        return None

    def backlog(self, publications: Sequence[str], start: int, end: int, *, local_only: bool) -> Backlog | None:
        """The changes to send between two LSNs; None: the publisher cannot tell without sending them."""
        return None


class TableCopies(Protocol):
    """The rows of published tables, for initial copies."""

    @property
    def copies_tables(self) -> bool:
        """Whether there is anything to copy. Tables of other publishers are ready at once."""
        return True

    @property
    def copies_directly(self) -> bool:
        """Whether the rows of large tables can go into files of the lake as they arrive (TableCopy.direct)."""
        return False

    @property
    def readers(self) -> int:
        """How many ranges of a table's key are read at a time."""
        return 1

    def rows_in(self, names: Iterable[tuple[str, str]]) -> int | None:
        """An upper bound for the rows of these tables, as (schema, table). None: the publisher is a process of its own,
        which reads them while the subscriber waits."""
        return None

    def copy(
        self, schema: str, name: str, publications: Sequence[str], wanted: WantedRanges | None = None
    ) -> TableCopy:
        """The published rows of a table as of now, or those in some ranges of its key. They are read as they are taken;
        until then the publisher must not be asked for anything else. A missing table, or unequal column lists, is a
        PgError, not a PublisherError: it is the subscriber that refuses them."""
        ...

    def settled(self, lsn: int) -> int:
        """An LSN that the stream will reach, behind all transactions that a snapshot has seen; `lsn` is the end of the
        log when it was taken."""
        return lsn

    def divide(
        self, schema: str, name: str, publications: Sequence[str], size: int
    ) -> tuple[tuple[tuple[str, int], ...], list[KeyRange]] | Undivided | None:
        """The names and types of a table's key, and ranges of it that have about so many bytes each. None: the table is
        smaller."""
        return None

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        """The number of rows that such a copy would have; the same errors."""
        ...


class Publisher(PublisherConnection, Publications, Slots, ChangeStream, TableCopies, Protocol):
    """An open connection to a database that publishes."""
