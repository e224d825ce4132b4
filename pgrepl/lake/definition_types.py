"""Types and defaults of columns in DuckLake, and type changes that keep existing files."""

from __future__ import annotations

from typing import Any

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.lake_arrays import Form
from pgrepl.types.lake_forms import form, is_row_type
from pgrepl.types.lake_lists import element_text
from pgrepl.types.names import numeric_precision_scale


@frozen
class ColumnType:
    """A DuckLake type; `fields` are the element of a `list`, the fields of a `struct`, key and value of a `map`."""

    name: str
    fields: tuple[tuple[str, ColumnType], ...] = ()

    @property
    def duckdb(self) -> str:
        """The type as DuckDB spells it in a CAST."""
        inner = [f"{kind.duckdb}" for _name, kind in self.fields]
        if self.name == "list":
            return f"{inner[0]}[]"
        return _DUCKDB.get(self.name, self.name.upper())


_DUCKDB = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float32": "FLOAT",
    "float64": "DOUBLE", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip


def column_type(typoid: int, typmod: int, ndims: int = 0) -> ColumnType:
    """The type of a column. `ndims` is its attndims: arrays of several dimensions are text."""
    if is_row_type(typoid):
        return ColumnType("varchar")
    found = form(typoid, typmod)
    return ColumnType("varchar") if found.element is not None and ndims > 1 else _of_form(found)


def _of_form(found: Form) -> ColumnType:
    if found.element is not None:
        return ColumnType(found.lake, (("element", _of_form(found.element)),))
    return ColumnType(found.lake, tuple([(name, _of_form(child)) for name, child in found.children]))


def fits(lake: str, typoid: int, typmod: int) -> bool:
    """Does the DuckLake type go with the PostgreSQL type: is it the one that pgrepl makes, or one of another writer
    that pgrepl reads as this type? Changes of nested fields do not count."""
    if column_type(typoid, typmod).name == lake or lake in ("list", "struct", "map"):
        return True
    if lake == "varchar" and form(typoid, typmod).element is not None:
        return True
    return foreign_type(lake, ()) == (typoid, typmod)


def foreign_type(lake: str, fields: tuple[Any, ...]) -> tuple[int, int]:
    """The PostgreSQL type (OID, typmod) for a column of another writer's DuckLake type. One that pgrepl cannot read is
    text; reading it is an error."""
    from pgrepl.types.lake_read import read_form

    try:
        found = read_form(lake, fields)
    except PgError:
        return oids.TEXT, -1
    return found.typoid, found.typmod


def default_text(value: Any, typoid: int, typmod: int) -> str | None:
    """A value as DuckDB's text for `default_value` and `initial_default`; None: DuckLake has no text for it."""
    if is_row_type(typoid):
        return None
    kind = form(typoid, typmod)
    if kind.element is not None or kind.children:
        return None
    text = element_text(kind, value)
    return None if text == "NULL" else text


_WIDER = {
    oids.INT2: (oids.INT4, oids.INT8),
    oids.INT4: (oids.INT8,),
    oids.FLOAT4: (oids.FLOAT8,),
}
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
