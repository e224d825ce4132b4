"""Names in DuckLake, whose readers compare them without regard to case.

The schema `public` of database `shop` is DuckLake's schema `shop`, another schema `sales` is `shop.sales`. If two
names differ in case only, the later gets a number: `t`, `T_1`.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

# the columns of inlined rows, and of files with changed rows, beside the table's own
RESERVED_COLUMNS = frozenset(
    ("row_id begin_snapshot end_snapshot _ducklake_row_id _ducklake_begin_snapshot _ducklake_end_snapshot"
     " _ducklake_internal_row_id _ducklake_internal_snapshot_id").split()
)  # fmt: skip
MAIN = "main"  # the schema every DuckLake has
PUBLIC = "public"
HOME = "postgres"  # the database of DuckLake schemas that are named after no database


def schema_name(database: str, schema: str) -> str:
    """The name of a schema in DuckLake, if it is free."""
    if schema == PUBLIC:
        return f'"{database}"' if database.lower() == MAIN else _part(database)
    return f"{_part(database)}.{_part(schema)}"


def _part(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if "." in name or '"' in name else name


def place_of(name: str, databases: Collection[str]) -> tuple[str, str]:
    """The database and the schema that a DuckLake schema of that name stands for."""
    if name != MAIN:
        parts = _parts(name)
        if parts is not None and parts[0] in databases:
            return parts[0], parts[1] if len(parts) == 2 else PUBLIC
    return HOME, name


def _parts(name: str) -> list[str] | None:
    """The parts from which `schema_name` made the name; None: it did not make it."""
    parts = []
    at = 0
    while True:
        part, at = _next(name, at)
        if not part:
            return None
        parts.append(part)
        if at == len(name):
            return parts if len(parts) <= 2 else None
        at += 1  # the dot


def _next(name: str, at: int) -> tuple[str, int]:
    if not name.startswith('"', at):
        end = name.find(".", at)
        end = len(name) if end < 0 else end
        return name[at:end], end
    end = at + 1
    while (end := name.find('"', end)) >= 0 and name.startswith('""', end):
        end += 2
    if end < 0 or name[end + 1 : end + 2] not in ("", "."):
        return "", at
    return name[at + 1 : end].replace('""', '"'), end + 1


def free(name: str, taken: Collection[str]) -> str:
    """The name, with a number if it is in `taken`, whose names are in lower case."""
    if lower(name) not in taken:
        return name
    return next(n for n in (f"{name}_{i}" for i in count(1)) if lower(n) not in taken)


def is_variant(given: str, name: str) -> bool:
    """Is `given` the name, or the name with a number of `free`?"""
    rest = given[len(name) :]
    return given.startswith(name) and (not rest or (rest[0] == "_" and rest[1:].isdecimal()))


def lower(name: str) -> str:
    """The name as DuckDB compares it: with ASCII letters in lower case."""
    return "".join(c.lower() if c.isascii() else c for c in name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
