"""Tables that are made when somebody asks more of them than their name, and the types of their columns.

A command touches few of the system tables, so that making them all would cost each start more than the command itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import (
    JSON,
    UUID,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

metadata = MetaData()

Oid = BigInteger  # unsigned 32 bits in PostgreSQL
Json = JSON(none_as_null=True)


class Lsn(TypeDecorator[int]):
    """A snapshot id, or what somebody says is one: unsigned 64 bits, the upper half of them kept as negative
    numbers."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return value - 2**64 if value is not None and value >= 2**63 else value

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        return value + 2**64 if value is not None and value < 0 else value


class _Native(TypeDecorator[Any]):
    """Text in SQLite, a type of its own in PostgreSQL: as DuckDB makes the columns of a DuckLake."""

    impl: Any = String
    cache_ok = True
    native: TypeEngine[Any]

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(self.impl_instance if dialect.name == "sqlite" else self.native)


class Truth(_Native):
    """BIGINT in SQLite, BOOLEAN in PostgreSQL."""

    impl = BigInteger
    native = Boolean()

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> Any:
        return value if value is None or dialect.name != "sqlite" else int(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> bool | None:
        return None if value is None else bool(value)


class Uuid(_Native):
    native = UUID(as_uuid=False)


class Moment(_Native):
    """A timestamptz. What PostgreSQL gives is made the text it would be in SQLite."""

    native = DateTime(timezone=True)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return value if value is None or isinstance(value, str) else str(value)


class _Later:
    """Stands for a Table until somebody asks more of it than its name: a command touches few of them."""

    is_clause_element = False  # SQLAlchemy asks: not this, but what __clause_element__ gives

    def __init__(
        self, name: str, info: dict[str, Any], make: Callable[[], Table], index: Callable[[Table], None]
    ) -> None:
        self.name = name
        self.info = info
        self._make = make
        self._index = index
        self._made: Table | None = None

    def __clause_element__(self) -> Table:
        if self._made is None:
            with _making:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__clause_element__(), attribute)

    def with_indexes(self) -> None:
        """Only who makes the table needs them, and saying so loads all dialects."""
        self._index(self.__clause_element__())


_making = threading.Lock()  # workers are threads, and a name is given once
every: list[_Later] = []


def later_table(
    name: str,
    key: tuple[str, ...],
    *spec: tuple[str, type[TypeEngine[Any]] | TypeEngine[Any]],
    versioned: bool = False,
    indexes: tuple[tuple[str, ...], ...] = (),
    acl: str | None = None,
) -> Table:
    """A system table. `key` is unique among the current rows; the few rows that have an `acl` are found quickly."""
    info = {"versioned": versioned, "key": key}
    current = "end_snapshot IS NULL" if versioned else None

    def make() -> Table:
        columns = [Column(column, kind) for column, kind in spec]
        if versioned:
            version = Column("row_version", Integer, primary_key=True, autoincrement=True)
            ends = [Column("begin_snapshot", BigInteger, nullable=False), Column("end_snapshot", BigInteger)]
            columns = [version, *columns, *ends]
        return Table(name, metadata, *columns, info=info)

    def index(table: Table) -> None:
        if key:
            _index(f"{name}_key", table, key, current, unique=True)
        for number, names in enumerate(indexes, 1):
            _index(f"{name}_ix{number}", table, names, current)
        if acl is not None:
            _index(f"{name}_acl", table, ("end_snapshot",), f"{acl} IS NOT NULL AND {current}")

    later = _Later(name, info, make, index)
    every.append(later)
    return cast(Table, later)


def _index(name: str, table: Table, columns: tuple[str, ...], rows: str | None, *, unique: bool = False) -> None:
    condition = None if rows is None else text(rows)
    parts = [table.c[c] if c in table.c else text(c) for c in columns]  # a column, or an expression over one
    Index(name, *parts, unique=unique, sqlite_where=condition, postgresql_where=condition)
