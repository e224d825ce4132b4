"""The PostgreSQL type and form of columns that other DuckLake writers have created: the inverse of `lake_forms`.

    >>> read_form("uint8").typoid, read_form("decimal(10,2)").typmod, read_form("varchar").lake
    (21, 655366, 'varchar')

Nested values other than lists of scalars are jsonb (lake_nested.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from pgrepl.errors import PgError
from pgrepl.types.lake_arrays import Form
from pgrepl.types.lake_foreign import Nested, foreign_form
from pgrepl.types.lake_forms import form
from pgrepl.types.lake_scalars import text_form


@cache
def read_form(lake: str, fields: tuple[Nested, ...] = ()) -> Form:
    """The form of a DuckLake type: the PostgreSQL typoid and typmod it is read as, and its conversions."""
    if lake in ("list", "struct", "map"):
        from pgrepl.types.lake_nested import nested_form

        return nested_form(lake, fields)
    return foreign_form(lake)


def stored_form(lake: str, fields: tuple[Nested, ...], typoid: int, typmod: int) -> Form:
    """The form of a column from its PostgreSQL type here and its DuckLake type in the catalog."""
    own = form(typoid, typmod)
    if own.element is not None and lake == "varchar":
        return text_form(typoid, typmod)
    if own.lake == lake and (own.element is None or _same_element(own.element, fields)):
        return own
    found = read_form(lake, fields)
    if found.typoid != typoid:
        raise PgError("XX001", f"a column of lake type {lake} cannot be of type {typoid}")
    return replace(found, typmod=typmod)


def _same_element(element: Form, fields: tuple[Nested, ...]) -> bool:
    return len(fields) == 1 and fields[0].type == element.lake
