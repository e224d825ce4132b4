"""A publisher: an open connection with four parts, each of which a kind may lack if it makes no sense there.

    catalog     the publications, their tables and columns as they are now: CREATE and ALTER SUBSCRIPTION ask it
    slots       what the publisher keeps for a subscriber; files of changes have none
    stream      the transactions, and how far they are
    copies      the rows of tables, for initial copies; files of changes have none

An operation that the publisher refuses raises PublisherError with the text that libpq would have for it. A kind of
publisher is a class that inherits from Publisher, and one for each of its parts, with every method that has no more
than a docstring here; what has a body is what a publisher does that says nothing else. A caller takes the smallest part
that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Protocol

from pgrepl.ground.errors import PgError
from pgrepl.replication.publisher.definitions import PresentTables
from pgrepl.replication.publisher.senders import Retained, SlotProbe, WalSender
from pgrepl.replication.publisher.tables import (
    KeyRange,
    RemoteAttribute,
    RemoteDefinition,
    TableCopy,
    Undivided,
    WantedRanges,
)
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.messages import WireTransaction
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store import tables
    from pgrepl.engine.choice import Choice
    from pgrepl.replication.publisher.definitions import ToldEnum, ToldTable
    from pgrepl.replication.publisher.tables import Comparing


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


def not_copied(table: str, error: PublisherError) -> PgError:
    """The subscriber's error when a table's copy cannot be started (copy_table)."""
    return PgError(_LOST, f'could not start initial contents copy for table "{table}": {error}')


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
        hint="Let pgrepl repair make a new slot, and bring the tables to it; or accept the loss with "
        "pg_replication_origin_advance().",
    )


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """A table as the publications of one subscription publish it."""

    schema: str
    name: str
    attrs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoteSequence:
    """A sequence of the publisher: its value, None if the connection's role may not read it, and its definition."""

    schema: str
    name: str
    value: tuple[int, bool] | None  # last_value, is_called
    lsn: int  # as of which it has the value
    definition: tuple[int, int, int, int, int, bool]  # type, start, increment, minimum, maximum, cycle


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


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The transactions that a slot shall send: those that finish at `start` or later and before `end`."""

    slot: str
    publications: tuple[str, ...]
    start: int
    end: int
    local_only: bool = False  # without changes that have an origin
    tells: bool = False  # with definitions (publisher/definitions.py)


class PublisherCatalog(Protocol):
    """The publications, by the publisher's present catalog."""

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        """The publications, among these, that exist."""

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        """The tables of those publications, a table once for each different column list."""

    @property
    def has_sequences(self) -> bool:
        """Can publications have sequences?"""

    def published_sequences(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """The sequences of those publications, as (schema, name)."""

    def sequences(self, names: Sequence[tuple[str, str]]) -> list[RemoteSequence]:
        """These sequences as they are now, as far as they are there, published or not."""

    def sequences_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        """The publications with sequences that subscriptions of the publisher synchronize; those in `known` do not
        count."""

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        """The columns, the filter and the operations that the publications publish of a table; None: they do not
        publish it."""

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        """All columns of a table, dropped ones included, by their numbers: as of an LSN, or as they are now if the
        publisher does not know its past. Empty: there is no such table."""

    def older_value(self, relid: int, attnum: int, lsn: int) -> str | None:
        """The value of a column in rows that are older than it, if its attribute does not tell (`missing`), because
        rows have been rewritten since. None: NULL, or not known."""

    def definitions(self, schema: str, name: str, publications: Sequence[str]) -> list[RemoteDefinition]:
        """The tables that a subscriber needs for a published one: itself, after it its partitions if they are needed;
        none: it is not published."""

    def told_table(self, relid: int, lsn: int | None, publications: Sequence[str]) -> ToldTable | None:
        """A table as the stream would tell it (publisher/definitions.py): as of an LSN, or as it is now if there is
        none, or the publisher does not know its past. None: it tells nothing."""
        return None

    def table_versions(self, oids: Sequence[int]) -> dict[int, str] | None:
        """What changes with the definitions of these tables, of those that are there, if the stream does not tell of
        them; None: it does."""
        return None

    def present_tables(self, known: Sequence[tuple[int, str, str]], names: Sequence[str]) -> PresentTables:
        """These tables, (OID, schema, name), as they are now, where there are versions of them. One is gone only if
        there is none of its name, either."""
        return PresentTables(0, (), ())

    def enum_labels(self, names: Sequence[tuple[str, str]]) -> list[ToldEnum]:
        """These enums as they are now, as far as they are there, if the stream does not tell of them."""
        return []

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        """The publications with tables that subscriptions of the publisher write to; (schema, table) pairs in `known`
        do not count."""


class Slots(Protocol):
    """Replication slots: what the publisher keeps for a subscriber, and their walsenders."""

    def create(self, name: str, *, two_phase: bool, failover: bool) -> int:
        """Create a slot; returns its consistent point."""

    def alter(self, name: str, *, failover: bool | None, two_phase: bool | None) -> None:
        """None: it stays."""

    def drop(self, name: str) -> None: ...

    def occupy(self, slot: str, sender: WalSender, within: Session | None = None) -> None:
        """Reserve the slot for this worker, whose stream it is from now on; an error if another reads from it."""

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        """Release the slot of the worker with this token."""

    def retained(self, slot: str) -> Retained | None:
        """What the publisher keeps for the slot; None: there is no such slot."""

    def probe(self, slot: str) -> SlotProbe | None:
        """For a follower that looks now and then at what is retained; None: that needs no looking after."""


class ChangesWithin(Protocol):
    """A few changes of a database of the subscriber's instance, read in the subscriber's own transaction."""

    def is_usual(self, slot: tables.pg_replication_slot) -> bool:
        """Is the slot a logical one of this database, without options or states that need further checks?"""

    def few(self, within: Session, wanted: StreamRequest) -> list[WireTransaction] | None:
        """All of these transactions; None: there are many changes, one cannot be sent, or the log shows empty
        transactions."""

    def has_sent(self, slot: str, transactions: Iterable[WireTransaction]) -> None:
        """Count the transactions of `few`, which have been applied."""


class ChangeFiles(Protocol):
    """The files that a stream of files of changes reads."""

    def check(self) -> None:
        """Raise unless the location and the format can be read."""

    def sources(self, start: int) -> Sequence[str]:
        """The names of the files that have transactions from an LSN on."""

    def reader_of_sources(self, start: int) -> Choice:
        """The engine that reads these files, by columns."""


class ChangeStream(Protocol):
    """The transactions that a publisher sends to a subscription, and its position. `slot`: of the subscription; where
    there are no slots, a name that nobody asks for."""

    within: ChangesWithin | None = None  # the same changes for a transaction of the subscriber's own
    files: ChangeFiles | None = None  # from which the changes come, if they come from files

    def current_lsn(self) -> int:
        """The end of the publisher's WAL."""

    def lag(self, slot: str, *, tell: bool = False) -> SlotLag | None:
        """The lag of the slot; None: there is no such slot. `tell`: log, once, what it waits for."""

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        """The LSN from which the slot sends when asked for what comes after `lsn`; an error if it does not exist or is
        in use. `two_phase`: prepared transactions are sent at PREPARE."""

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """The subscriber has flushed everything before `lsn`."""

    def transactions(self, wanted: StreamRequest, limit: int | None = None) -> Generator[WireTransaction, None, None]:
        """These transactions, with their messages. `limit`: about how many changes the caller will take. ColumnsFollow
        may end them before."""

    def batch(self, wanted: StreamRequest, least: int) -> tuple[WireBatch, int] | None:
        """The first of these transactions as columns, and the LSN before which they end. None: there are fewer than
        about `least` changes, or they have to be sent message by message. Declined: their messages do not become
        columns."""

    def delivered(self, end: int) -> int:
        """The LSN up to which everything has been sent, when all transactions before `end` were asked for and taken. A
        publisher that cannot tell its end beforehand says here how far it came."""
        return end

    def wait(self, lsn: int, seconds: float, over: Event) -> bool:
        """Wait until there is something behind `lsn`, for so long at most, or until `over` is set and `wake` is called;
        whether there may be something."""
        over.wait(seconds)
        return True

    def wake(self) -> None:
        """End a wait; called from another thread."""
        return

    def backlog(self, wanted: StreamRequest) -> Backlog | None:
        """The number of these transactions' changes; None: the publisher cannot tell without sending them."""
        return None


class KeyRanges(Protocol):
    """The rows of large tables in ranges of their keys, several of which are read at a time."""

    @property
    def readers(self) -> int:
        """How many ranges of a table's key are read at a time."""

    def divide(
        self, schema: str, name: str, publications: Sequence[str], size: int
    ) -> tuple[tuple[tuple[str, int], ...], list[KeyRange]] | Undivided | None:
        """The names and types of a table's key, and ranges of it that have about so many bytes each. None: the table is
        smaller."""

    def copy(self, schema: str, name: str, publications: Sequence[str], wanted: WantedRanges) -> TableCopy:
        """The published rows in some ranges; see TableCopies."""

    def settled(self, lsn: int) -> int:
        """An LSN that the stream will reach, behind all transactions that a snapshot has seen; `lsn` is the end of the
        log when it was taken."""


class TableCopies(Protocol):
    """The rows of published tables, for initial copies."""

    copies_directly: bool = False  # the rows of large tables can go into files of the lake (TableCopy.direct)
    ranges: KeyRanges | None = None

    def copy(self, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
        """The published rows of a table as of now. They are read as they are taken; until then the publisher must not
        be asked for anything else. A missing table, or unequal column lists, is a PgError, not a PublisherError: it is
        the subscriber that refuses them."""

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        """The number of rows that such a copy would have; the same errors."""

    def rows_in(self, names: Iterable[tuple[str, str]]) -> int | None:
        """An upper bound for the rows of these tables, as (schema, table). None: the publisher is a process of its own,
        which reads them while the subscriber waits."""
        return None


class Publisher(Protocol):
    """An open connection to a publisher."""

    catalog: PublisherCatalog
    slots: Slots | None  # None: the publisher keeps nothing for a subscriber
    stream: ChangeStream
    copies: TableCopies | None  # None: there is nothing to copy, and tables are ready at once

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as that is known without a round trip."""

    @property
    def used_password(self) -> bool:
        """Whether the publisher asked for the password."""

    @property
    def system_identifier(self) -> str:
        """The identifier of the server, or of the instance; another one in its place has another identifier."""

    @property
    def shares_catalog(self) -> bool:
        """Whether publisher and subscriber are databases of one instance. Then a worker's changes at its publisher can
        be part of its own commit: the session that commits is given to `occupy`, `confirm` and `leave`."""
        return False

    @property
    def comparing(self) -> Comparing | None:
        """The rows of tables at one LSN; None: there are none."""
        return None

    def inherit_engine(self, worker: Session) -> None:
        """Read with the engine that the worker's settings name, as far as its process does the reading."""
        return

    def interrupt(self) -> None:
        """End the connection's running or waiting command with an error; called from another thread."""

    def give_up(self) -> None:
        """From now on wait for no lock for long: the connection is about to be closed."""
        return

    def close(self) -> None: ...
