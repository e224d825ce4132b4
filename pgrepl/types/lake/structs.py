"""The lake form of composite types, and the types of columns that other DuckLake writers have created.

    >>> read_form("uint8").typoid, read_form("decimal(10,2)").typmod, read_form("varchar").lake
    (21, 655366, 'varchar')

A field knows the place of its attribute among all that the type ever had, as files from before an ALTER TYPE have
other fields. A column whose values no struct holds is text. Nested values of other writers, lists of scalars apart,
are jsonb.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import repeat
from typing import Any, Protocol

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, base_type_and_typmod, element_type
from pgrepl.types.lake import text as lake_text
from pgrepl.types.lake.arrays import Form, FormField, plain_array
from pgrepl.types.lake.foreign import Nested, foreign_form
from pgrepl.types.lake.forms import form, is_row_type, row_type_in
from pgrepl.types.lake.lists import is_list, item_text, item_value, list_form
from pgrepl.types.lake.scalars import row_array_form, row_form, text_form
from pgrepl.types.style import Record, RowType, fitted
from pgrepl.types.user_types import composite_type, is_enum, stored_labels


@cache
def read_form(lake: str, fields: tuple[Nested, ...] = ()) -> Form:
    """The form of a DuckLake type: the PostgreSQL typoid and typmod it is read as, and its conversions."""
    if lake in ("list", "struct", "map"):
        from pgrepl.types.lake.foreign import nested_form

        return nested_form(lake, fields)
    return foreign_form(lake)


def stored_form(lake: str, fields: tuple[Nested, ...], typoid: int, typmod: int) -> Form:
    """The form of a column from its PostgreSQL type here and its DuckLake type in the catalog."""
    own = form(typoid, typmod)
    if own.element is not None and lake == "varchar":
        return text_form(typoid, typmod)
    if own.lake == lake and (own.element is None or (len(fields) == 1 and fields[0].type == own.element.lake)):
        return own
    lake_form = read_form(lake, fields)
    if lake_form.typoid != typoid:
        raise PgError("XX001", f"a column of lake type {lake} cannot be of type {typoid}")
    return replace(lake_form, typmod=typmod)


# --- lake structs -----------------------------------------------------------------------------------------------------


Holds = Callable[[Any], bool]
NO_COLUMNS = "no_columns"  # the one column of a table, or field of a struct, without any, which DuckLake does not allow


class PlacedField(Nested, Protocol):
    """A nested field of a column, with the place of its attribute."""

    @property
    def place(self) -> int | None: ...


@cache
def kept_form(typoid: int, typmod: int, row: RowType | None, lake: str, fields: tuple[PlacedField, ...]) -> Form:
    """The form of a column, or of something in it, from its PostgreSQL type here and its DuckLake type. `row`: the
    columns of the row type in it, if a table has that."""
    if not is_row_type(typoid):
        return stored_form(lake, fields, typoid, typmod)
    typoid, typmod = base_type_and_typmod(typoid, typmod)
    element = element_type(typoid)
    if element and lake == "list" and len(fields) == 1:
        return list_form(typoid, typmod, kept_form(element, typmod, row, fields[0].type, fields[0].fields))
    row = row or composite_type(row_type_in(typoid))
    if row is None:
        return text_form(typoid, typmod)
    if lake == "varchar":
        return row_array_form(typoid, row_form(element, row)) if element else row_form(typoid, row)
    if lake != "struct" or element:
        raise PgError("XX001", f"a column of lake type {lake} cannot be of type {int(typoid)}")
    return _struct_form(typoid, row, _kept_parts(row, fields))


def file_form(typoid: int, typmod: int, row: RowType | None = None) -> Form:
    """The form of a type in files that are not the lake's: a struct has the attributes that the type has now, by their
    names, and enums have the labels of now. `row`: the columns of the row type in it, if a table has that."""
    if not is_row_type(typoid) and not has_renamed_labels(typoid):
        return form(typoid, typmod)
    typoid, typmod = base_type_and_typmod(typoid, typmod)
    element = element_type(typoid)
    if element:
        return list_form(typoid, typmod, file_form(element, typmod, row))
    if is_enum(typoid):
        return form(oids.TEXT)
    row = row or composite_type(typoid)
    if row is None:
        return form(typoid, typmod)  # refuses it
    fields = enumerate(row.fields)
    parts = [(field.name, file_form(field.type, field.typmod, field.row), n) for n, field in fields]
    return _struct_form(typoid, row, parts or [(NO_COLUMNS, form(oids.BOOL), -1)])


def has_renamed_labels(typoid: int) -> bool:
    """Whether values are of an enum, or arrays of one, that is stored with other labels than it has now."""
    typoid = base_type(typoid)
    element = element_type(typoid)
    return has_renamed_labels(element) if element else bool(stored_labels(typoid))


_Parts = Sequence[tuple[str, Form, int]]  # name of a field, its form, and which of the value's attributes; -1: none


def _kept_parts(row: RowType, fields: tuple[PlacedField, ...]) -> _Parts:
    at = {attribute.place: n for n, attribute in enumerate(row.fields)}
    parts: list[tuple[str, Form, int]] = []
    for field in fields:
        n = -1 if field.place is None else at.get(field.place, -1)
        if n < 0:
            parts.append((field.name, read_form(field.type, field.fields), n))
        else:
            own = row.fields[n]
            parts.append((field.name, kept_form(own.type, own.typmod, own.row, field.type, field.fields), n))
    return parts


def _at(parts: _Parts) -> dict[int, int]:
    """The place of the part that holds an attribute."""
    return {n: at for at, (_, _, n) in enumerate(parts) if n >= 0}


def _struct_form(typoid: int, row: RowType, parts: _Parts) -> Form:
    fieldless = sorted(set(range(len(row.fields))) - {n for _, _, n in parts})
    names = [name for name, _, _ in parts]

    def storable(value: Sequence[Any]) -> list[tuple[str, Form, Any]]:
        """The fields with the attributes that they hold."""
        items = fitted(value, row)
        if any(items[n] is not None for n in fieldless):
            raise PgError("XX001", f"a struct in the lake has no field for an attribute of type {int(typoid)}")
        return [(name, child, None if n < 0 else items[n]) for name, child, n in parts]

    def record(items: dict[int, Any]) -> Record:
        return Record([items.get(n) for n in range(len(row.fields))], row.types, row.names)

    def arrow() -> Any:
        return pa.struct([pa.field(name, child.arrow()) for name, child, _ in parts])

    def to_arrow(value: Sequence[Any]) -> dict[str, Any]:
        return {name: None if item is None else child.to_arrow(item) for name, child, item in storable(value)}

    def from_arrow(struct: dict[str, Any]) -> Record:
        given = [(n, child, struct.get(name)) for name, child, n in parts if n >= 0]
        return record({n: None if item is None else child.from_arrow(item) for n, child, item in given})

    def from_array(array: pa.Array) -> list[Any]:
        array = plain_array(array)
        if [field.name for field in array.type] != names:
            raise PgError("XX001", f"a struct of type {int(typoid)} has other fields in a file than in the catalog")
        columns: list[Any] = [repeat(None, len(array))] * len(row.fields)
        for (_, child, n), items in zip(parts, array.flatten(), strict=True):  # NULL where the struct is
            if n >= 0:
                columns[n] = child.from_array(items)
        values = zip(*columns, strict=True) if columns else repeat((), len(array))
        rows = zip(values, array.is_valid().to_pylist(), strict=True)
        types, attributes = row.types, row.names
        return [Record(items, types, attributes) if is_row else None for items, is_row in rows]

    def to_inlined(value: Sequence[Any]) -> str:
        return lake_text.struct_text([(name, item_text(child, item)) for name, child, item in storable(value)])

    def from_nested(pairs: lake_text.Pairs) -> Record:
        given = dict(pairs)
        return record({n: item_value(child, given.get(name)) for name, child, n in parts if n >= 0})

    spark = ", ".join([f"`{name.replace('`', '``')}`: {child.spark}" for name, child, _ in parts])
    return Form(
        typoid=typoid, typmod=-1, lake="struct", spark=f"STRUCT<{spark}>", arrow=arrow, to_arrow=to_arrow,
        from_arrow=from_arrow, from_array=from_array, to_stat=lambda v: None, from_stat=lambda v: None,
        from_raw=lambda v, scale: None, to_inlined=to_inlined, from_nested=from_nested,
        from_inlined=lambda text: from_nested(lake_text.read_nested(text)), ordered="none",
        children=tuple([(name, child) for name, child, _ in parts]),
        row_fields=() if fieldless else tuple(
            [FormField(row.fields[n].type, row.fields[n].typmod, at) for n, at in sorted(_at(parts).items())]
        ),
    )  # fmt: skip


# --- what lists and structs cannot hold ---------------------------------------------------------------------------


def holder(typoid: int) -> Holds | None:
    """Whether the list or struct of a column holds a value, which is not NULL. None: it holds all values. Lists have
    one dimension and begin at 1. What a column refuses, such as NaN in a decimal, may be in a row, which then is
    text."""
    base = base_type(typoid)
    element = element_type(base)
    if element:
        return _list_holder(holder(element) if is_row_type(element) else None)
    row = composite_type(base)
    return None if row is None else _row_holder(row)


@cache
def _row_holder(row: RowType) -> Holds | None:
    tests = [(n, test) for n, field in enumerate(row.fields) if (test := _field_holder(field.type, field.typmod))]
    if not tests:
        return None
    return lambda value: all(value[n] is None or test(value[n]) for n, test in tests)


def _field_holder(typoid: int, typmod: int) -> Holds | None:
    if is_row_type(typoid):
        return holder(typoid)
    kept = form(typoid, typmod)
    if kept.element is None:
        return _scalar_holder(kept)
    return _list_holder(_scalar_holder(kept.element))


def _list_holder(inside: Holds | None) -> Holds:
    if inside is None:
        return is_list
    return lambda value: is_list(value) and all(item is None or inside(item) for item in value.items)


def _scalar_holder(kept: Form) -> Holds | None:
    if not kept.lake.startswith(("decimal", "timestamp")):
        return None

    def holds(value: Any) -> bool:
        try:
            kept.to_arrow(value)
        except PgError:
            return False
        return True

    return holds
