"""What the catalog's own modules need of a session: they find rows, names, roles and settings with it.

session.py has the whole of it, and stands above them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Table

    from pgrepl.catalog.connection import Catalog, CatalogConnection
    from pgrepl.catalog.lake import Touched
    from pgrepl.catalog.parameters import Value
    from pgrepl.errors import Report


class DatabaseName(NamedTuple):
    oid: int
    name: str


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


class TransactionState(Protocol):
    """Of transaction.py."""

    in_recovery: bool
    in_statement: bool
    snapshot_taken: bool
    uses_temporary: bool
    undo: list[Callable[[], None]]

    @property
    def savepoints(self) -> Sequence[object]: ...

    @property
    def numbering(self) -> Numbers: ...

    def require_read(self) -> None: ...

    def require_write(self) -> None: ...

    def pause(self) -> None: ...


class Context(Protocol):
    catalog: Catalog
    link: CatalogConnection
    pid: int
    memory: dict[str, dict[Any, list[Any]]]
    as_of: int | None
    replays: bool
    authenticated_user: int
    temporary_schema: int

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

    def forget(self, table: Table) -> None: ...
