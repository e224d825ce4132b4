"""What things are called in DuckLake, whose readers compare names without regard to case.

The schema `public` of database `shop` is DuckLake's schema `shop`, another schema `sales` is `shop.sales`. Where two
names differ in case only, the later gets a number: `t`, `T_1`.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

# what rows inlined in the catalog have beside the table's columns, and files of changed rows
RESERVED_COLUMNS = frozenset(
    {"row_id", "begin_snapshot", "end_snapshot", "_ducklake_internal_row_id", "_ducklake_internal_snapshot_id"}
)
MAIN = "main"  # the schema every DuckLake has
PUBLIC = "public"
HOME = "postgres"  # the database that takes in schemas named after no database


def schema_name(database: str, schema: str) -> str:
    """A DuckLake schema's name, unless it is taken."""
    if schema == PUBLIC:
        return f'"{database}"' if database.lower() == MAIN else _part(database)
    return f"{_part(database)}.{_part(schema)}"


def _part(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if "." in name or '"' in name else name


def place_of(name: str, databases: Collection[str]) -> tuple[str, str]:
    """The database and schema that a DuckLake schema of that name belongs to."""
    if name != MAIN:
        parts = _parts(name)
        if parts is not None and parts[0] in databases:
            return parts[0], parts[1] if len(parts) == 2 else PUBLIC
    return HOME, name


def _parts(name: str) -> list[str] | None:
    """What schema_name put together; None: it never did."""
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
    """The name, with a number if it is among `taken`, which are in lower case."""
    if lower(name) not in taken:
        return name
    return next(n for n in (f"{name}_{i}" for i in count(1)) if lower(n) not in taken)


def is_variant(given: str, name: str) -> bool:
    """Was `given` made of the name because the name was taken?"""
    rest = given[len(name) :]
    return given.startswith(name) and (not rest or (rest[0] == "_" and rest[1:].isdecimal()))


def lower(name: str) -> str:
    """As DuckDB compares names: only ASCII letters have two forms."""
    return "".join(c.lower() if c.isascii() else c for c in name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
