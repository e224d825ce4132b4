"""The lake form of each PostgreSQL type: its DuckLake, Spark and Arrow type, and the conversions between Python,
Parquet, DuckLake's statistics and inlined rows.

    >>> from pgrepl.types import oids
    >>> form(oids.INT4).lake, form(oids.INT4).spark, form(oids.DATE).to_inlined(0)
    ('int32', 'INT', '2000-01-01')

A type without a DuckLake equivalent is stored as PostgreSQL's text in a fixed style (ISO, UTC). `read_form` in
structs.py is the inverse, for tables of other DuckLake writers.
"""

from __future__ import annotations

from functools import cache

from pgrepl.ground.errors import unsupported
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type, type_by_oid
from pgrepl.types.lake.arrays import Form


def is_row_type(typoid: int) -> bool:
    """Whether values of a type are rows or arrays of rows: the form depends on the catalog (lake.table.LakeColumn)."""
    typoid = base_type(typoid)
    element = element_type(typoid)
    if element:
        return is_row_type(element)
    row = type_by_oid(typoid)
    return row is None or row.typtype == "c"


def row_type_in(typoid: int) -> int:
    """The named row type that values of the type are, or hold in an array; the type is one of `is_row_type`."""
    typoid = base_type(typoid)
    element = element_type(typoid)
    return row_type_in(element) if element else typoid


@cache
def form(typoid: int, typmod: int = -1) -> Form:
    """The lake form of a type."""
    from pgrepl.types.lake import scalars

    element = element_type(typoid)
    if element and typoid not in (oids.OIDVECTOR, oids.INT2VECTOR):
        from pgrepl.types.lake.lists import list_form

        return list_form(typoid, typmod, form(element, typmod))
    row = type_by_oid(typoid)
    if row is not None and row.typtype == "d":
        return form(row.basetype, row.typmod)
    if row is not None and row.typtype == "e":
        return scalars.enum_form(typoid)
    if row is not None and row.typtype == "p":
        raise unsupported("a column of a pseudo-type")
    if is_row_type(typoid):
        raise unsupported("a row type on Spark, or in a Parquet file,")
    return scalars.scalar_form(typoid, typmod)


PAGE = 65535  # rows per page: the offset of a ctid has 16 bits


def ctid(row: int) -> tuple[int, int]:
    """The tid of a row's number, counted from (0,1)."""
    return row // PAGE, row % PAGE + 1
