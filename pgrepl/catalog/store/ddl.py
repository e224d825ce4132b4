"""CREATE TABLE and CREATE INDEX of the system tables, by SQLAlchemy, for SQLite and for PostgreSQL.

SQLAlchemy takes longer to load than most commands run: a new file starts as a copy of `empty.db`, which is made with
the package.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeEngine

from pgrepl.catalog.store import declarative
from pgrepl.catalog.store.connection import PG_SCHEMA

if TYPE_CHECKING:
    from pgrepl.catalog.store.connection import CatalogConnection
    from pgrepl.catalog.store.declarative import SystemTable

_TYPES: dict[str, TypeEngine[Any]] = {
    "Bool": Boolean(),
    "Char": String(1),
    "Float8": Double(),
    "Int2": SmallInteger(),
    "Int4": Integer(),
    "Int8": BigInteger(),
    "Json": JSON(),
    "Lsn": BigInteger(),
    "Moment": DateTime(timezone=True),
    "Oid": BigInteger(),  # unsigned 32 bits in PostgreSQL
    "Text": TEXT(),
    "Truth": Boolean(),
    "Uuid": UUID(),
    "Varchar": String(),
}
# as DuckDB makes the columns of a DuckLake in SQLite
_IN_SQLITE: dict[str, TypeEngine[Any]] = {"Moment": String(), "Truth": BigInteger(), "Uuid": String()}


@cache
def tables(*, is_sqlite: bool) -> list[Table]:
    """All system tables, with their indexes."""
    metadata = MetaData()
    return [_made(table, metadata, is_sqlite=is_sqlite) for table in declarative.every]


def _made(declared: SystemTable, metadata: MetaData, *, is_sqlite: bool) -> Table:
    types = {**_TYPES, **_IN_SQLITE} if is_sqlite else _TYPES
    columns: list[Column[Any]] = []
    for name in declared.columns:
        if name == "row_version":
            columns.append(Column(name, Integer, primary_key=True, autoincrement=True))
        else:
            required = declared.versioned and name == "begin_snapshot"
            columns.append(Column(name, types[declared.kind(name)], nullable=not required))
    table = Table(declared.name, metadata, *columns, info={"versioned": declared.versioned})
    current = "end_snapshot IS NULL" if declared.versioned else None
    if declared.key:
        _index(f"{table.name}_key", table, declared.key, current, unique=True)
    for number, names in enumerate(declared.indexes, 1):
        _index(f"{table.name}_ix{number}", table, names, current)
    if declared.acl is not None:
        _index(f"{table.name}_acl", table, ("end_snapshot",), f"{declared.acl} IS NOT NULL AND {current}")
    return table


def _index(name: str, table: Table, columns: tuple[str, ...], rows: str | None, *, unique: bool = False) -> None:
    condition = None if rows is None else text(rows)
    parts = [table.c[c] if c in table.c else text(c) for c in columns]  # a column, or an expression over one
    Index(name, *parts, unique=unique, sqlite_where=condition, postgresql_where=condition)


@cache
def _statements(*, is_sqlite: bool) -> dict[str, list[str]]:
    """The statements that make each table and its indexes, by the table's name."""
    made_by: Any = sqlite.dialect if is_sqlite else postgresql.dialect
    dialect = made_by()
    found = {}
    for table in tables(is_sqlite=is_sqlite):
        indexes = sorted(table.indexes, key=lambda index: str(index.name))  # a set: each build makes the same file
        made: list[Any] = [CreateTable(table), *map(CreateIndex, indexes)]
        found[table.name] = [str(statement.compile(dialect=dialect)) for statement in made]
    return found


def main(path: Path = declarative.EMPTY_FILE) -> None:
    """Write `empty.db`: all system tables, without rows."""
    from pgrepl.catalog.store import ducklake, tables  # noqa: F401 - they declare them

    new = path.with_suffix(f".{os.getpid()}")
    new.unlink(missing_ok=True)
    with closing(sqlite3.connect(new, isolation_level=None)) as made:
        made.execute("PRAGMA synchronous = OFF")
        made.execute("BEGIN")
        for statements in _statements(is_sqlite=True).values():
            for statement in statements:
                made.execute(statement)
        made.execute("COMMIT")
    new.replace(path)  # whole at every moment: another process may be reading


def create(link: CatalogConnection) -> None:
    """Make the system tables that are not there."""
    listed = (
        "SELECT name FROM sqlite_master" if link.is_sqlite else "SELECT tablename FROM pg_tables WHERE schemaname = ?"
    )
    there = {row[0] for row in link.execute(listed, () if link.is_sqlite else (PG_SCHEMA,))}
    for name, statements in _statements(is_sqlite=link.is_sqlite).items():
        if name not in there:
            for statement in statements:
                link.execute(statement)


def index_anew(link: CatalogConnection) -> None:
    """Give each system table the indexes that it has today: an older pgrepl had others, by the same names too."""
    there = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = ?"
    if not link.is_sqlite:
        there = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema AND tablename = ?"
    for name, (_, *indexes) in _statements(is_sqlite=link.is_sqlite).items():
        for (index,) in link.execute(there, (name,)):
            if not index.endswith("_pkey"):
                link.execute(f'DROP INDEX "{index}"')
        for statement in indexes:
            link.execute(statement)


def sqlite_type(column: Column[Any]) -> str:
    made_by: Any = sqlite.dialect
    return column.type.compile(made_by())


if __name__ == "__main__":
    main()
