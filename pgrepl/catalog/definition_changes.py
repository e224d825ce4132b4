"""The definitions that a statement has changed, so that DuckLake's rows can follow.

DuckLake's schemas, tables, columns and views follow from some system tables (`WATCHED`). `store` notes a statement's
changes of these here; when the statement ends, lake/definition.py brings DuckLake's rows in line. In the other
direction, statements/adoption.py adopts definitions of other programs before a transaction reads the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


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


_RELATION_OF = {
    "pg_attribute": ("attrelid",),
    "pg_attrdef": ("adrelid",),
    "pg_inherits": ("inhrelid", "inhparent"),
}
WATCHED = frozenset({"pg_class", "pg_namespace", "pg_database", *_RELATION_OF})
