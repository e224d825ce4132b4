"""Types and defaults of columns in DuckLake, type changes that keep existing files; and names, which DuckLake's readers
compare without regard to case.

The schema `public` of database `shop` is DuckLake's schema `shop`, another schema `sales` is `shop.sales`. If two
names differ in case only, the later gets a number: `t`, `T_1`.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, base_type_and_typmod, element_type
from pgrepl.types.lake.arrays import Form
from pgrepl.types.lake.forms import form, is_row_type, row_type_in
from pgrepl.types.lake.lists import element_text
from pgrepl.types.lake.structs import NO_COLUMNS, read_form
from pgrepl.types.names import numeric_precision_scale
from pgrepl.types.style import RowType
from pgrepl.types.user_types import composite_type

NO_PLACE = -1


@frozen
class ColumnType:
    """A DuckLake type; `fields` are the element of a `list`, the fields of a `struct`, key and value of a `map`.
    `places`: of a composite type's fields, the index of each one's attribute among all that the type ever had."""

    name: str
    fields: tuple[tuple[str, ColumnType], ...] = ()
    places: tuple[int, ...] = ()

    def without_places(self) -> ColumnType:
        return ColumnType(self.name, tuple([(name, kind.without_places()) for name, kind in self.fields]))

    @property
    def duckdb(self) -> str:
        """The type as DuckDB spells it in a CAST."""
        inner = [f"{kind.duckdb}" for _name, kind in self.fields]
        if self.name == "list":
            return f"{inner[0]}[]"
        if self.name == "struct":
            fields = zip(self.fields, inner, strict=True)
            return f"STRUCT({', '.join([f'{quoted(name)} {kind}' for (name, _), kind in fields])})"
        return _DUCKDB.get(self.name, self.name.upper())


_DUCKDB = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float32": "FLOAT",
    "float64": "DOUBLE", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip


def column_type(typoid: int, typmod: int, ndims: int = 0) -> ColumnType:
    """The type of a column. `ndims` is its attndims: arrays of several dimensions are text, and so are rows that no
    struct holds (rows/checks_table.py)."""
    if is_row_type(typoid):
        if element_type(base_type(typoid)) and composite_type(row_type_in(typoid)) is None:
            form(typoid, typmod)  # refuses arrays of a table's rows
        return ColumnType("varchar") if ndims > 1 else _of_rows(typoid, typmod)
    kept_as = form(typoid, typmod)
    return ColumnType("varchar") if kept_as.element is not None and ndims > 1 else _of_form(kept_as)


def holds_places(kind: ColumnType) -> bool:
    """Is it a composite type's struct, or a list of such?"""
    return bool(kind.places) or (kind.name == "list" and holds_places(kind.fields[0][1]))


def _of_rows(typoid: int, typmod: int) -> ColumnType:
    """The type of values that may be rows, or hold some."""
    if not is_row_type(typoid):
        return _of_form(form(typoid, typmod))
    row = composite_type(row_type_in(typoid))
    if row is None:  # of a table
        return ColumnType("varchar")
    typoid, typmod = base_type_and_typmod(typoid, typmod)
    element = element_type(typoid)
    return ColumnType("list", (("element", _of_rows(element, typmod)),)) if element else _of_attributes(row)


def _of_attributes(row: RowType) -> ColumnType:
    """A struct. DuckLake has none without fields."""
    taken: set[str] = set()
    fields, places = [], []
    for attribute in row.fields:
        name = free(attribute.name, taken)
        taken.add(lower(name))
        fields.append((name, _of_rows(attribute.type, attribute.typmod)))
        places.append(attribute.place)
    if not fields:
        return ColumnType("struct", ((NO_COLUMNS, ColumnType("boolean")),), (NO_PLACE,))
    return ColumnType("struct", tuple(fields), tuple(places))


def _of_form(kept_as: Form) -> ColumnType:
    if kept_as.element is not None:
        return ColumnType(kept_as.lake, (("element", _of_form(kept_as.element)),))
    return ColumnType(kept_as.lake, tuple([(name, _of_form(child)) for name, child in kept_as.children]))


def fits(lake: str, typoid: int, typmod: int) -> bool:
    """Does the DuckLake type go with the PostgreSQL type: is it the one that pgrepl makes, or one of another writer
    that pgrepl reads as this type? Changes of nested fields do not count."""
    if column_type(typoid, typmod).name == lake or lake in ("list", "struct", "map"):
        return True
    if lake == "varchar" and (is_row_type(typoid) or form(typoid, typmod).element is not None):
        return True
    return foreign_type(lake, ()) == (typoid, typmod)


def foreign_type(lake: str, fields: tuple[Any, ...]) -> tuple[int, int]:
    """The PostgreSQL type (OID, typmod) for a column of another writer's DuckLake type. One that pgrepl cannot read is
    text; reading it is an error."""
    try:
        kept_as = read_form(lake, fields)
    except PgError:
        return oids.TEXT, -1
    return kept_as.typoid, kept_as.typmod


def default_text(value: Any, typoid: int, typmod: int) -> str | None:
    """A value as DuckDB's text for `default_value` and `initial_default`; None: DuckLake has no text for it."""
    if is_row_type(typoid):
        return None
    kind = form(typoid, typmod)
    if kind.element is not None or kind.children:
        return None
    text = element_text(kind, value)
    return None if text == "NULL" else text


_WIDER = {oids.INT2: (oids.INT4, oids.INT8), oids.INT4: (oids.INT8,), oids.FLOAT4: (oids.FLOAT8,)}
_STRINGS = (oids.TEXT, oids.VARCHAR)
_TIMES = (oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIME)


def keeps_files(old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Do readers get values of the new type (OID, typmod) from existing files?"""
    if old == new:
        return True
    (old_type, old_mod), (new_type, new_mod) = old, new
    if old_type in _STRINGS and new_type in _STRINGS:
        return new_mod < 0 or 0 <= old_mod <= new_mod
    if old_type == new_type and old_type in _TIMES:
        return new_mod < 0 or 0 <= old_mod <= new_mod
    if old_type == new_type == oids.NUMERIC:
        return _wider_numeric(old_mod, new_mod)
    return new_type in _WIDER.get(old_type, ())


def _wider_numeric(old: int, new: int) -> bool:
    """Has the new numeric more digits and the same scale, and are both decimals or both text in files?"""
    if form(oids.NUMERIC, old).lake.startswith("decimal") != form(oids.NUMERIC, new).lake.startswith("decimal"):
        return False
    if new < 0:
        return True
    if old < 0:
        return False
    (old_precision, old_scale), (precision, scale) = numeric_precision_scale(old), numeric_precision_scale(new)
    return scale == old_scale and precision >= old_precision


# --- names ------------------------------------------------------------------------------------------------------------


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
