"""Row classes of the system tables, and the SQLAlchemy tables that are made from them.

A table is declared once, as the class of its rows:

    class pg_publication_rel(VersionedRow, key=("oid",), indexes=(("prpubid",), ("prrelid",))):
        oid: Oid
        prpubid: Oid
        …

`store.rows(session, pg_publication_rel, prpubid=…)` gives a list of such rows, so that mypy knows each column and its
type. A row is a tuple of the columns' values. The SQLAlchemy table (`__table__.core()`) is made when the first
statement on it is compiled: a command touches few tables, and making all of them would cost each start more than the
command itself.
"""

from __future__ import annotations

import threading
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from sqlalchemy import (
    JSON,
    TEXT,
    UUID,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

metadata = MetaData()


class _Lsn(TypeDecorator[int]):
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


class _Truth(_Native):
    """BIGINT in SQLite, BOOLEAN in PostgreSQL."""

    impl = BigInteger
    native = Boolean()

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> Any:
        return value if value is None or dialect.name != "sqlite" else int(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> bool | None:
        return None if value is None else bool(value)


class _Uuid(_Native):
    native = UUID(as_uuid=False)


class _Moment(_Native):
    """A timestamptz. What PostgreSQL gives is made the text it would be in SQLite."""

    native = DateTime(timezone=True)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return value if value is None or isinstance(value, str) else str(value)


_T = TypeVar("_T")
_Row = TypeVar("_Row", bound="SystemRow")

# What a column is to Python. The words are PostgreSQL's; Json[…] says what the JSON is of.
Bool = bool
Char = str
Float8 = float
Int2 = int
Int4 = int
Int8 = int
Json = Annotated[_T, "JSON"]
Lsn = int
Moment = str
Oid = int
Text = str
Truth = bool
Uuid = str
Varchar = str

# … and to SQLAlchemy
_TYPES: dict[str, type[TypeEngine[Any]] | TypeEngine[Any]] = {
    "Bool": Boolean,
    "Char": String(1),
    "Float8": Double,
    "Int2": SmallInteger,
    "Int4": Integer,
    "Int8": BigInteger,
    "Json": JSON(none_as_null=True),
    "Lsn": _Lsn,
    "Moment": _Moment,
    "Oid": BigInteger,  # unsigned 32 bits in PostgreSQL
    "Text": TEXT,
    "Truth": _Truth,
    "Uuid": _Uuid,
    "Varchar": String,
}


class SystemTable:
    """What is declared of a table: its columns with their types' names. `core()` is the SQLAlchemy table."""

    def __init__(
        self,
        name: str,
        columns: dict[str, str],
        key: tuple[str, ...],
        indexes: tuple[tuple[str, ...], ...],
        acl: str | None,
        versioned: bool,
    ) -> None:
        self.name = name
        self.versioned = versioned
        self.key = key
        self.columns = columns
        self._indexes = indexes
        self._acl = acl
        self._core: Table | None = None

    def core(self) -> Table:
        if self._core is None:
            with _making:
                if self._core is None:
                    self._core = self._made()
        return self._core

    def _made(self) -> Table:
        columns: list[Column[Any]] = []
        for column, kind in self.columns.items():
            if column == "row_version":
                columns.append(Column(column, Integer, primary_key=True, autoincrement=True))
                continue
            bare = kind.removesuffix(" | None").partition("[")[0]
            required = self.versioned and column == "begin_snapshot"
            columns.append(Column(column, _TYPES[bare], nullable=not required))
        return Table(self.name, metadata, *columns, info={"versioned": self.versioned, "key": self.key})

    def add_indexes(self) -> None:
        """Only who makes the table needs them, and saying so loads all dialects."""
        table = self.core()
        current = "end_snapshot IS NULL" if self.versioned else None
        if self.key:
            _index(f"{self.name}_key", table, self.key, current, unique=True)
        for number, names in enumerate(self._indexes, 1):
            _index(f"{self.name}_ix{number}", table, names, current)
        if self._acl is not None:
            _index(f"{self.name}_acl", table, ("end_snapshot",), f"{self._acl} IS NOT NULL AND {current}")


_making = threading.Lock()  # workers are threads, and a name is given once
every: list[SystemTable] = []
_getters = [property(itemgetter(position)) for position in range(40)]


class SystemRow(tuple[Any, ...]):
    """A row of a system table; a subclass declares a table with its columns.

    `key` is unique among the current rows; `indexes` make others of its columns quick to look for; the few rows that
    have something in the column `acl` are found quickly.
    """

    __table__: ClassVar[SystemTable]
    _fields: ClassVar[tuple[str, ...]]

    def __init_subclass__(
        cls,
        *,
        key: tuple[str, ...] = (),
        indexes: tuple[tuple[str, ...], ...] = (),
        acl: str | None = None,
        abstract: bool = False,
    ) -> None:
        if abstract:
            return
        versioned = issubclass(cls, VersionedRow)
        columns: dict[str, str] = cls.__annotations__
        if versioned:
            columns = {"row_version": "Int4", **columns, "begin_snapshot": "Int8", "end_snapshot": "Int8 | None"}
        cls._fields = tuple(columns)
        for name, getter in zip(columns, _getters, strict=False):
            setattr(cls, name, getter)
        cls.__table__ = SystemTable(cls.__name__, columns, key, indexes, acl, versioned)
        every.append(cls.__table__)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _replace(self: _Row, **values: Any) -> _Row:
        return type(self)({**self._asdict(), **values}.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"


class VersionedRow(SystemRow, abstract=True):
    """A row with the snapshots from which and before which it was so."""

    row_version: Int4
    begin_snapshot: Int8
    end_snapshot: Int8 | None


def _index(name: str, table: Table, columns: tuple[str, ...], rows: str | None, *, unique: bool = False) -> None:
    condition = None if rows is None else text(rows)
    parts = [table.c[c] if c in table.c else text(c) for c in columns]  # a column, or an expression over one
    Index(name, *parts, unique=unique, sqlite_where=condition, postgresql_where=condition)
