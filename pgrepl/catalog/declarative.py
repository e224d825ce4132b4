"""Row classes of the system tables.

A table is declared once, as the class of its rows:

    class pg_publication_rel(VersionedRow, key=("oid",), indexes=(("prpubid",), ("prrelid",))):
        oid: Oid
        prpubid: Oid
        …

`store.rows(session, pg_publication_rel, prpubid=…)` gives a list of such rows, so that mypy knows each column and its
type. A row is a tuple of the columns' values. `store` reads and writes them; `ddl` makes the tables.
"""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

_T = TypeVar("_T")
_Row = TypeVar("_Row", bound="SystemRow")

# PostgreSQL's types of columns and what they are in Python; Json[…] says what the JSON holds. `statement` has the form
# in which a value is stored, `ddl` the column's type.
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


class SystemTable:
    """The declaration of a table: its columns with their types' names, key and indexes."""

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
        self.indexes = indexes
        self.acl = acl

    def kind(self, column: str) -> str:
        """The name of the column's type, such as `Int8`."""
        return self.columns[column].removesuffix(" | None").partition("[")[0]


EMPTY_FILE = Path(__file__).with_name("empty.db")
"""All system tables without rows, as a new catalog's file begins. `ddl` makes it when the package is built."""

every: list[SystemTable] = []
_getters = [property(itemgetter(position)) for position in range(40)]


class SystemRow(tuple[Any, ...]):
    """A row of a system table; a subclass declares a table with its columns.

    `key` is unique among the current rows. Each of `indexes` lists columns to look rows up by. `acl` names a column
    with an index on the few rows in which it is not NULL.
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
    """A version of a row, valid from `begin_snapshot` until before `end_snapshot`."""

    row_version: Int4
    begin_snapshot: Int8
    end_snapshot: Int8 | None
