"""A session as the catalog's own modules see it: rows, names, roles, settings; its client; and whether the instance
recovers.

A standby is read-only until it is promoted; only the session that replays the primary's changes may write. session.py
has the whole session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.parameters import Value
    from pgrepl.catalog.store.connection import Catalog, CatalogConnection
    from pgrepl.catalog.store.declarative import DefinitionChanges, SystemRow
    from pgrepl.catalog.store.system import SystemRelations
    from pgrepl.ground.errors import Report


class CopyData(Protocol):
    """The data that the client sends. It is read to its end, even when the statement fails."""

    @property
    def path(self) -> str | None:
        """A file of this machine with the same data, if there is one."""

    def __iter__(self) -> Iterator[bytes]:
        """The data in pieces. PgError if the client breaks off; the pieces before count as sent."""


class CopyClient(Protocol):
    def copy_in(self, *, binary: bool, columns: int) -> CopyData:
        """Ask the client for the rows (CopyInResponse). `binary` data is not searched for `\\.`."""

    def copy_out(self, *, binary: bool, columns: int) -> CopySink:
        """Tell the client that rows follow (CopyOutResponse)."""


class CopySink(Protocol):
    def write(self, data: bytes, /) -> None: ...

    def write_rows(self, rows: Sequence[bytes], /) -> None:
        """Write rows, of which each may be a message of its own."""

    def write_lines(self, lines: Any, /) -> None:
        """Write rows that are an Arrow array of large strings."""


# --- context ----------------------------------------------------------------------------------------------------------


# what SET ROLE cannot leave, as its error names it (SECURITY_LOCAL_USERID_CHANGE, SECURITY_RESTRICTED_OPERATION)
LOCAL_USERID_CHANGE = "security-definer function"
RESTRICTED_OPERATION = "security-restricted operation"


class DatabaseName(NamedTuple):
    oid: int
    name: str


class Block(Enum):
    """PostgreSQL's states of a transaction: none, in a string of several statements, in BEGIN … COMMIT, or in a block
    after an error."""

    NONE = "idle"
    IMPLICIT = "implicit block"
    EXPLICIT = "in block"
    ABORTED = "aborted"


class PendingChanges(Protocol):
    """Row changes that are not in the catalog until the commit (lake/commit.py)."""

    replayed: bool

    @property
    def last_snapshot(self) -> int:
        """The snapshot of the last statement, in the transaction's own numbers."""

    @property
    def mark(self) -> int:
        """The present end of the changes, for `back_to`."""

    def end_statement(self, snapshot: int, extra: dict[str, Any]) -> None:
        """Close the running statement's changes as one snapshot, with its `commit_extra_info`."""

    def back_to(self, mark: int) -> None:
        """Undo the changes behind the mark."""

    def replay(self) -> None:
        """Write all changes into the catalog."""


class Origin(Protocol):
    """The replication origin of what a session writes (replication/origins.py)."""

    name: str
    remote_lsn: int  # of the transaction at its source; 0: not known


class SettingValues(Protocol):
    """`Settings` of settings.py."""

    @property
    def release(self) -> int: ...

    def get(self, name: str) -> str: ...

    def value(self, name: str) -> Value: ...

    def reset_value(self, name: str) -> Value: ...


class Numbers(Protocol):
    """`Numbering` of numbering.py."""

    @property
    def definition_changes(self) -> DefinitionChanges: ...

    def next_oid(self) -> int: ...

    def last_snapshot(self) -> int: ...

    def committed_snapshot(self) -> int: ...


class TransactionState(Protocol):
    """`Transaction` of transaction.py."""

    in_recovery: bool
    in_statement: bool
    snapshot_taken: bool
    uses_temporary: bool
    uncommitted_enums: set[int]
    uncommitted_labels: set[int]
    undo: list[Callable[[], object]]
    block: Block
    pending: PendingChanges | None
    collects: bool

    @property
    def is_writing(self) -> bool: ...

    @property
    def savepoints(self) -> Sequence[object]: ...

    @property
    def numbering(self) -> Numbers: ...

    def require_read(self) -> None: ...

    def require_write(self) -> None: ...

    def end_reading(self) -> None: ...

    def pause(self) -> None: ...


class CatalogSession(Protocol):
    """A session, as far as the catalog's own modules need one."""

    pid: int
    replays: bool
    temporary_schema: int
    contexts: list[Callable[[], str]]

    @property
    def catalog(self) -> Catalog: ...

    @property
    def link(self) -> CatalogConnection: ...

    @property
    def memory(self) -> dict[str, dict[Any, list[SystemRow]]]: ...

    @property
    def as_of(self) -> int | None: ...

    @property
    def authenticated_user(self) -> int: ...

    @property
    def settings(self) -> SettingValues: ...

    @property
    def transaction(self) -> TransactionState: ...

    @property
    def derived(self) -> dict[Any, Any]: ...

    @property
    def database(self) -> DatabaseName: ...

    @property
    def database_oid(self) -> int: ...

    @property
    def user(self) -> int: ...

    @property
    def within(self) -> str: ...

    @property
    def role(self) -> int: ...

    def notice(
        self,
        severity: str,
        message: str,
        *,
        sqlstate: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None: ...

    def report(self, report: Report) -> None: ...

    def on_commit(self, action: Callable[[], None]) -> None: ...

    def snapshot(self) -> int: ...

    def forget(self, table: type[SystemRow]) -> None: ...

    def type_of(self, oid: int) -> int: ...

    def collation_of(self, oid: int) -> int: ...

    def system_relations(self, release: int | None = None) -> SystemRelations: ...

    def object_oid(self, typoid: int, text: str) -> int: ...

    def object_name(self, typoid: int, oid: int) -> str: ...


# --- recovery ---------------------------------------------------------------------------------------------------------


STANDBY = "in_hot_standby"  # the row's name, and the setting that shows it


def is_standby(link: CatalogConnection) -> bool:
    """Is the instance a standby, by the catalog as it is now?"""
    return bool(link.execute("SELECT 1 FROM pgrepl_setting WHERE name = ?", (STANDBY,)))


def in_recovery(session: CatalogSession) -> bool:
    """Whether the instance is a standby that was not promoted (RecoveryInProgress)."""
    session.transaction.require_read()
    return session.transaction.in_recovery


def refuse_in_recovery(session: CatalogSession, what: str) -> None:
    """The error for a command that a standby refuses (PreventCommandDuringRecovery)."""
    if in_recovery(session):
        raise PgError("25006", f"cannot execute {what} during recovery")


def require_recovery(session: CatalogSession) -> None:
    if not in_recovery(session):
        raise PgError(
            "55000",
            "recovery is not in progress",
            hint="Recovery control functions can only be executed during recovery.",
        )


def control_functions_refused() -> PgError:
    """The error of functions that ask for the end of WAL, which a standby only replays."""
    return PgError("55000", "recovery is in progress", hint="WAL control functions cannot be executed during recovery.")
