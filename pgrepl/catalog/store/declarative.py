"""Row classes of the system tables, and the SQL for one of them.

    class pg_publication_rel(VersionedRow, key=("oid",), indexes=(("prpubid",), ("prrelid",))):
        oid: Oid
        prpubid: Oid
        …

Writes note which definitions a statement has changed, which lake/define/definition.py and
statements/upkeep/adoption.py bring in line with DuckLake's, and sums of checksums (pgrepl_sum), by which `pgrepl
verify` notices a changed row.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from pgrepl.catalog.store.connection import CatalogConnection

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


class DefinitionChanges:
    """The relations, schemas and databases whose definition a statement has changed. A dropped one is
    listed with its former DuckLake id."""

    __slots__ = ("databases", "relations", "schemas")

    def __init__(self) -> None:
        self.relations: dict[int, int | None] = {}  # OID → its former DuckLake table
        self.schemas: dict[tuple[int, int], int | None] = {}  # (database, schema) → its former DuckLake schema
        self.databases: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.relations or self.schemas or self.databases)

    def clear(self) -> None:
        self.relations.clear()
        self.schemas.clear()
        self.databases.clear()

    def note(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Note rows of a system table that are inserted, updated or deleted."""
        for row in rows:
            if table == "pg_class":
                self.relations[row["oid"]] = row.get("table_id") or self.relations.get(row["oid"])
            elif table == "pg_namespace":
                key = (row["datid"], row["oid"])
                self.schemas[key] = row.get("schema_id") or self.schemas.get(key)
            elif table == "pg_database":
                self.databases.add(row["oid"])
            else:
                for column in _RELATION_OF[table]:
                    self.relations.setdefault(row[column], None)


_RELATION_OF = {"pg_attribute": ("attrelid",), "pg_attrdef": ("adrelid",), "pg_inherits": ("inhrelid", "inhparent")}
WATCHED = frozenset({"pg_class", "pg_namespace", "pg_database", *_RELATION_OF})


# --- sums -------------------------------------------------------------------------------------------------------------


_STEADY = frozenset((
    "pg_authid", "pg_auth_members", "pg_collation", "pg_database", "pg_db_role_setting", "pg_depend", "pg_description",
    "pg_operator", "pg_proc", "pg_shdescription", "pg_rewrite", "pg_subscription", "pg_subscription_rel", "pg_trigger",
))  # fmt: skip


def of_row(values: Iterable[Any]) -> int:
    """The checksum of a row: of its numbers, texts and NULLs as they are stored."""
    return zlib.crc32(repr(tuple(values)).encode("utf-8", "surrogatepass"))


def is_summed(table: SystemTable) -> bool:
    return table.versioned or table.name in _STEADY


@cache
def checksum_columns(table: SystemTable) -> tuple[str, ...]:
    """The columns of a row that its checksum is of."""
    return tuple([column for column in table.columns if column != "row_version"])


def add(link: CatalogConnection, table: SystemTable, rows: Sequence[Sequence[Any]], sign: int = 1) -> None:
    """Add rows, with the columns of `names`, to a table's sum; or subtract them (-1)."""
    if rows:
        link.add_to_sum(table.name, sign * len(rows), sign * sum(map(of_row, rows)))


def rows(link: CatalogConnection, table: SystemTable, condition: str = "", values: Any = ()) -> list[tuple[Any, ...]]:
    """The rows of a table, as they are stored."""
    columns = ", ".join(f'"{name}"' for name in checksum_columns(table))
    return link.execute(f"SELECT {columns} FROM {table.name} {condition}", values)


def sum_up(link: CatalogConnection, tables: Iterable[SystemTable]) -> None:
    """Make the sums of a new catalog's tables, or of one that an older pgrepl made."""
    for table in tables:
        if is_summed(table):
            add(link, table, rows(link, table))
    link.store_sums()


def disagreeing(link: CatalogConnection, tables: Iterable[SystemTable]) -> list[str]:
    """The tables whose rows do not agree with their sums."""
    known = {name: (count, checksum) for name, count, checksum in link.execute("SELECT * FROM pgrepl_sum")}
    names = []
    for table in tables:
        if is_summed(table):
            there = rows(link, table)
            if known.get(table.name, (0, 0)) != (len(there), sum(map(of_row, there))):
                names.append(table.name)
    return names


# --- statement --------------------------------------------------------------------------------------------------------


Convert = Callable[[Any], Any]
Where = tuple[
    tuple[str, int], ...
]  # each column with the number of its values: 1 for =, more for IN; 0 NULL, -1 NOT NULL

AS_OF = "as_of"  # the parameter of a SELECT with the snapshot to read


def _lsn_in(value: int) -> int:
    """An LSN as it is stored: of its unsigned 64 bits the upper half are negative numbers."""
    return value - 2**64 if value >= 2**63 else value


def _lsn_out(value: int) -> int:
    return value + 2**64 if value < 0 else value


def _text(value: Any) -> str:
    """A value of a server's own type, such as uuid, as the text that it is in SQLite."""
    return value if isinstance(value, str) else str(value)


_INTO: dict[str, Convert] = {"Json": json.dumps, "Lsn": _lsn_in}
_OUT_OF: dict[str, Convert] = {"Lsn": _lsn_out}
_INTO_SQLITE: dict[str, Convert] = {**_INTO, "Bool": int, "Truth": int}
_OUT_OF_SQLITE: dict[str, Convert] = {**_OUT_OF, "Json": json.loads, "Bool": bool, "Truth": bool}
_OUT_OF_SERVER: dict[str, Convert] = {**_OUT_OF, "Moment": _text, "Uuid": _text}


class Statement:
    """A statement: `names` of its parameters, in order; `readers` convert columns that are not NULL; `summed` gives of
    the parameters of an INSERT, and a NULL behind them, the row as its checksum is of."""

    __slots__ = ("_binders", "_taken", "names", "readers", "sql", "summed")

    def __init__(
        self, action: str, table: SystemTable, names: tuple[str, ...], where: Where, *, is_sqlite: bool
    ) -> None:
        self.names: list[str] = []
        self._binders: list[tuple[int, Convert]] = []
        self.readers: list[tuple[int, Convert]] = []
        into = _INTO_SQLITE if is_sqlite else _INTO

        def parameter(name: str, column: str) -> str:
            convert = into.get(table.kind(column))
            if convert is not None:
                self._binders.append((len(self.names), convert))
            self.names.append(name)
            return "?"

        if action == "select":
            out = _OUT_OF_SQLITE if is_sqlite else _OUT_OF_SERVER
            kinds = enumerate(map(table.kind, table.columns))
            self.readers = [(position, out[kind]) for position, kind in kinds if kind in out]
            start = f"SELECT {_listed(table.columns)} FROM {table.name}"
        elif action == "insert":
            values = ", ".join([parameter(name, name) for name in names])
            places = {name: place for place, name in enumerate(names)}
            self.summed = itemgetter(*[places.get(name, len(names)) for name in checksum_columns(table)])
            start = f"INSERT INTO {table.name} ({_listed(names)}) VALUES ({values})"
        elif action == "update":
            start = f"UPDATE {table.name} SET " + ", ".join([f'"{name}" = {parameter(name, name)}' for name in names])
        else:
            start = f"DELETE FROM {table.name}"
        conditions: list[str] = []
        for name, many in where:
            if many <= 0:
                conditions.append(f'"{name}" IS {"NOT " if many else ""}NULL')
            elif many == 1:
                conditions.append(f'"{name}" = {parameter(f"w_{name}", name)}')
            else:
                members = ", ".join([parameter(f"w_{name}_{i}", name) for i in range(many)])
                conditions.append(f'"{name}" IN ({members})')
        if action == "select" and AS_OF in names:
            begin, end = (parameter(AS_OF, "begin_snapshot") for _ in range(2))
            conditions.append(f"begin_snapshot <= {begin} AND (end_snapshot IS NULL OR end_snapshot > {end})")
        elif table.versioned and action != "insert" and "row_version" not in dict(where):
            conditions.append("end_snapshot IS NULL")
        self.sql = f"{start} WHERE {' AND '.join(conditions)}" if conditions else start
        self._taken = _taker(self.names)

    def bind(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        taken = self._taken(values)
        if not self._binders:
            return taken
        given = [*taken]
        for place, convert in self._binders:
            if given[place] is not None:
                given[place] = convert(given[place])
        return tuple(given)


def _taker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """The values of these names."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])


def _listed(columns: Any) -> str:
    return ", ".join([f'"{column}"' for column in columns])
