"""Sums of checksums over the rows of system tables (pgrepl_sum), so that `pgrepl verify` notices a changed row.

SQLite's pages have no checksums. store.py, through which all writes go, adds a row's checksum when the row is inserted
and subtracts it when the row is deleted. Tables that other DuckLake writers change have no sum, nor have those with the
state of processes. A catalog in PostgreSQL has that server's checksums.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection
    from pgrepl.catalog.declarative import SystemTable

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
def names(table: SystemTable) -> tuple[str, ...]:
    """The columns of a row that its checksum is of."""
    return tuple([column for column in table.columns if column != "row_version"])


def add(link: CatalogConnection, table: SystemTable, rows: Sequence[Sequence[Any]], sign: int = 1) -> None:
    """Add rows, with the columns of `names`, to a table's sum; or subtract them (-1)."""
    if rows:
        link.add_to_sum(table.name, sign * len(rows), sign * sum(map(of_row, rows)))


def rows(link: CatalogConnection, table: SystemTable, condition: str = "", values: Any = ()) -> list[tuple[Any, ...]]:
    """The rows of a table, as they are stored."""
    columns = ", ".join(f'"{name}"' for name in names(table))
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
    found = []
    for table in tables:
        if is_summed(table):
            there = rows(link, table)
            if known.get(table.name, (0, 0)) != (len(there), sum(map(of_row, there))):
                found.append(table.name)
    return found
