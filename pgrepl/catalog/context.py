"""What the catalog's own modules need of a session: they find rows, names, roles and settings with it.

session.py has the whole of it, and stands above them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from pgrepl.catalog.connection import Catalog, CatalogConnection
    from pgrepl.catalog.declarative import SystemRow
    from pgrepl.catalog.lake import Touched
    from pgrepl.catalog.parameters import Value
    from pgrepl.catalog.system import SystemRelations
    from pgrepl.errors import Report


class DatabaseName(NamedTuple):
    oid: int
    name: str


class Block(Enum):
    """Where the session is: between transactions, in a string of several statements, in BEGIN … COMMIT, or after an
    error in it."""

    NONE = "idle"
    IMPLICIT = "implicit block"
    EXPLICIT = "in block"
    ABORTED = "aborted"


class Aside(Protocol):
    """Row changes that are kept aside until the commit (lake/pending.py)."""

    replayed: bool

    @property
    def last_snapshot(self) -> int:
        """The one that the last statement has made, by the transaction's own counting."""

    @property
    def mark(self) -> int:
        """How far they have come, for `back_to`."""

    def end_statement(self, snapshot: int, extra: dict[str, Any]) -> None:
        """The running statement has written what it writes."""

    def back_to(self, mark: int) -> None:
        """What came behind the mark is undone."""

    def replay(self) -> None:
        """Write all of it into the catalog."""


class Origin(Protocol):
    """Where what a session writes comes from, if not from here (replication/origins.py)."""

    name: str
    remote_lsn: int  # of the transaction at its source; 0: not known


class SettingValues(Protocol):
    """Of settings.py."""

    def get(self, name: str) -> str: ...

    def value(self, name: str) -> Value: ...

    def reset_value(self, name: str) -> Value: ...


class Numbers(Protocol):
    """Of numbering.py."""

    @property
    def touched(self) -> Touched: ...

    def next_oid(self) -> int: ...

    def last_snapshot(self) -> int: ...

    def committed_snapshot(self) -> int: ...


class TransactionState(Protocol):
    """Of transaction.py."""

    in_recovery: bool
    in_statement: bool
    snapshot_taken: bool
    uses_temporary: bool
    undo: list[Callable[[], None]]
    block: Block
    aside: Aside | None
    collects: bool

    @property
    def is_writing(self) -> bool: ...

    @property
    def savepoints(self) -> Sequence[object]: ...

    @property
    def numbering(self) -> Numbers: ...

    def require_read(self) -> None: ...

    def require_write(self) -> None: ...

    def pause(self) -> None: ...


class CatalogSession(Protocol):
    """A session, as far as the catalog's own modules need one."""

    pid: int
    replays: bool
    temporary_schema: int

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

    def system_relations(self) -> SystemRelations: ...

    def object_oid(self, typoid: int, text: str) -> int: ...

    def object_name(self, typoid: int, oid: int) -> str: ...
