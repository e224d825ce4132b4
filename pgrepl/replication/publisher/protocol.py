"""What a subscription asks of its publisher, whoever that is.

CREATE, ALTER and DROP SUBSCRIPTION need the publisher's catalog as it is now (Publications), and its slots (Slots);
workers copy tables (TableCopies) and receive transactions (ChangeStream). An operation that the publisher refuses
raises PublisherError with the text that libpq would have for it.

A kind of publisher is a class that inherits from Publisher. What has a body here is the default of a kind that lacks
it; the rest it must provide. Who needs only one of the small protocols takes that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pgrepl.errors import PgError
from pgrepl.replication.publisher.senders import WalSender
from pgrepl.replication.wire.batch import SparkCopyRows, WireBatch
from pgrepl.replication.wire.messages import Row, SentRelation, WireTransaction
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.rows.staged import StagedRows


class PublisherError(Exception):
    """The publisher said no."""

    def __init__(self, sqlstate: str, text: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


def refused(error: PgError) -> PublisherError:
    """A publisher's error as libpq shows it: `ERROR:  message`, then DETAIL and HINT."""
    return PublisherError(error.sqlstate, server_text(error))


def not_received(error: PublisherError) -> PgError:
    """What a subscriber makes of an error in the stream (libpqrcv_receive)."""
    return PgError(_of_stream(error), f"could not receive data from WAL stream: {error}")


def not_started(error: PublisherError) -> PgError:
    """As libpqrcv_startstreaming."""
    return PgError(_of_stream(error), f"could not start WAL streaming: {error}")


def not_created(slot: str, error: PublisherError) -> PgError:
    """As libpqrcv_create_slot."""
    return PgError(_of_stream(error), f'could not create replication slot "{slot}": {error}')


def _of_stream(error: PublisherError) -> str:
    """A connection that is lost is one thing; that the publisher says no is not what the protocol has in mind."""
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
    """A slot keeps nothing before its position. PostgreSQL would go on from there without a word."""
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


class DirectRows(Protocol):
    """Rows that can go into files of the lake as they are."""

    size: int  # in bytes

    def stage(self, session: Session, table: Relation, count_rows: CountRows, *, on_spark: bool) -> StagedRows | None:
        """What was staged; None: somebody has to look at them. `count_rows` is told of rows and bytes."""
        ...


class LakeSources(Protocol):
    """Rows in the files of a lake."""

    @property
    def estimate(self) -> int:
        """About how many rows have to be looked at."""
        ...

    def sources(self) -> list[KernelSource]:
        """The tables that they are in, in order; Unfit where the filter needs the publisher's session."""
        ...


@dataclass(frozen=True, slots=True)
class TableCopy:
    """The published rows of a table at one moment: everything that finishes before `lsn`."""

    relation: SentRelation
    lsn: int
    rows: Iterator[Row]
    spark: SparkCopyRows | None = None  # the same rows for Spark, if they can be had so
    direct: DirectRows | None = None  # the same without Spark
    lake: LakeSources | None = None  # the same for kernels over Arrow
    count: int | None = None  # of the rows, if that is known before
    may_be_binary: bool = True  # with binary = true (since 16; see copy_table)


@dataclass(frozen=True, slots=True)
class Published:
    """What of a table's changes is sent, by the publisher's catalog as it is now."""

    columns: tuple[str, ...]
    operations: tuple[str, ...]  # insert, update, delete, truncate
    filters: tuple[tuple[str, str], ...]  # (operation, condition in SQL); an operation without one is not filtered


@dataclass(frozen=True, slots=True)
class SlotLag:
    """How far a slot is behind its publisher."""

    confirmed: int  # everything before it is safe with the subscriber
    restart: int  # the publisher keeps its log from here
    current: int  # the end of the publisher's log
    active_pid: int | None = None
    wal_status: str = "reserved"
    held_back: int | None = None  # before which it may send, if that is not all there is

    @property
    def sendable(self) -> int:
        return self.current if self.held_back is None else self.held_back


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a subscription has yet to receive. Not `exact`: so much at most, by what the files say of themselves."""

    transactions: int
    changes: int
    since: int | None  # when the first of it was committed, in microseconds since 2000-01-01 UTC
    exact: bool = True


class PublisherConnection(Protocol):
    """To whom one is connected."""

    @property
    def is_open(self) -> bool:
        """Is it still there, as far as one can see without asking?"""
        return True

    @property
    def used_password(self) -> bool:
        """Did the publisher ask for the password?"""
        return False

    @property
    def system_identifier(self) -> str:
        """Of the server, or of the instance: it tells one from another that took its place."""
        ...

    def interrupt(self) -> None:
        """From another thread: what the connection is busy with, or waits for, ends with an error."""
        return

    def close(self) -> None: ...


class Publications(Protocol):
    """What is published, by the publisher's catalog as it is now."""

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        """Which of these publications there are."""
        ...

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        """The tables of those publications, a table once for each different column list."""
        ...

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        """What of a table the publications publish; None: nothing."""
        ...

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        """Which publications have tables that subscriptions of the publisher write to; (schema, table) pairs in `known`
        do not count."""
        return []


class Slots(Protocol):
    """Replication slots: what the publisher keeps for a subscriber, and who reads from one."""

    def create_slot(self, name: str, *, two_phase: bool, failover: bool) -> int:
        """A new slot; its consistent point."""
        ...

    def alter_slot(self, name: str, *, failover: bool) -> None:
        raise PublisherError("0A000", f'ERROR:  replication slot "{name}" cannot be altered')

    def drop_slot(self, name: str) -> None: ...

    def lag(self, slot: str, *, tell: bool = False) -> SlotLag | None:
        """How far the slot is behind; None: there is no such slot. `tell`: what it waits for is said, once."""
        ...

    @property
    def shares_catalog(self) -> bool:
        """Are publisher and subscriber databases of one instance? Then what a worker changes at its publisher can be
        part of its own commit: the session that commits is given to `occupy`, `confirm` and `leave`."""
        return False

    def occupy(self, slot: str, sender: WalSender, within: Session | None = None) -> None:
        """Nobody else reads from the slot from here on; an error if somebody does."""
        return

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        """From where the slot sends when asked for what comes after `lsn`; an error if it is gone or in use.
        `two_phase`: prepared transactions are to be told when they are prepared."""
        ...

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """Everything before `lsn` is safe with the subscriber."""
        ...

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        """The worker with this token has done its work."""
        return


class ChangeStream(Protocol):
    """The transactions that a slot sends."""

    def current_lsn(self) -> int:
        """The end of what has been written there."""
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
        """The transactions that finish at `start` or later and before `end`, each with what is sent of it. `limit`: of
        about how many changes whoever asks will take transactions."""
        ...

    def batch(
        self, slot: str, publications: Sequence[str], start: int, end: int, *, local_only: bool, least: int
    ) -> tuple[WireBatch, int] | None:
        """The first of these transactions as columns, and before which LSN they end. None: there are fewer than about
        `least` changes, or they cannot be had so."""
        return None

    def backlog(self, publications: Sequence[str], start: int, end: int, *, local_only: bool) -> Backlog | None:
        """What there is to send between two LSNs; None: the publisher cannot tell without sending it."""
        return None


class TableCopies(Protocol):
    """The rows of published tables, for initial copies."""

    def copy(self, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
        """The rows of a table as they are now, as far as the publications publish them. They are read as they are
        taken; nothing else is asked of the publisher meanwhile. A table that is not there, or with unequal column
        lists, is a PgError: no publisher refuses that, its subscriber does."""
        ...

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        """How many rows such a copy would have now; the same errors."""
        ...


class Publisher(PublisherConnection, Publications, Slots, ChangeStream, TableCopies, Protocol):
    """An open connection to a database that publishes."""
