"""What the catalog tells those who keep the lake.

The definitions that other readers of the lake see (DuckLake's schemas, tables, columns, views) follow from pg_class and
its like. `store` remembers in `Touched` what a statement has changed there; when the statement is done the lake's
keeper brings DuckLake's rows in line. The other way round, what somebody else has defined in the lake is adopted before
a transaction looks at the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Touched:
    """The relations, schemas and databases whose definition a statement has changed. What is gone is there with the
    DuckLake ids it had."""

    __slots__ = ("databases", "relations", "schemas")

    def __init__(self) -> None:
        self.relations: dict[int, int | None] = {}  # OID: the DuckLake table it has had
        self.schemas: dict[tuple[int, int], int | None] = {}  # database and schema: the DuckLake schema it has had
        self.databases: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.relations or self.schemas or self.databases)

    def clear(self) -> None:
        self.relations.clear()
        self.schemas.clear()
        self.databases.clear()

    def see(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows of a system table are made, changed or taken away."""
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
