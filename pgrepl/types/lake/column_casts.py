"""Arrow arrays of one type → arrays of another one's lake form, through the text of each value.

Rows become rows attribute by attribute, and arrays become arrays element by element, as record_in and array_in read
what record_out and array_out have written; values that both types keep alike stay what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.ground.lazy import np, pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import base_type_and_typmod, element_type, type_by_oid
from pgrepl.types.lake.arrays import Form, plain_array, storage_type
from pgrepl.types.lake.column_text import column_text
from pgrepl.types.lake.column_values import in_domain, values_of
from pgrepl.types.user_types import is_enum

if TYPE_CHECKING:
    from pgrepl.types.style import TextStyle

Type = tuple[int, int]  # with its typmod


def through_text(array: pa.Array, source: Type, given: Form, target: Type, kind: Form, style: TextStyle) -> pa.Array:
    """The column as values of the type `target`, in the storage type of the form `kind`. `given`: the form of the
    source. Errors are those of the input function, without the place of the value."""
    array = plain_array(array)
    base = base_type_and_typmod(*target)
    found = _alike(array, base_type_and_typmod(*source), given, base, kind, style)
    if found is None:
        return values_of(column_text(array, source[0], given, style).cast("string"), *target, style, kind)
    return found if target[0] in (base[0], source[0]) else in_domain(found, target[0], style)


def _alike(array: pa.Array, source: Type, given: Form, target: Type, kind: Form, style: TextStyle) -> pa.Array:
    """The column made without texts; None: it needs them."""
    if (style.date_format, style.intervalstyle) != ("ISO", "postgres") or style.extra_float_digits < 1:
        return None  # some texts mean less than the values that they are of
    if given.element is not None and kind.element is not None:
        return _lists(array, source, given.element, target, kind, style)
    if given.row_fields and len(given.row_fields) == len(kind.row_fields):
        return _structs(array, given, kind, style)
    same = (
        source[0] == target[0]
        and target[1] in (source[1], -1)
        and (source[0] < oids.FIRST_USER_OID or is_enum(source[0]))
    )
    return array if same and array.type == storage_type(kind.arrow()) else None


def _lists(array: pa.Array, source: Type, given: Form, target: Type, kind: Form, style: TextStyle) -> pa.Array:
    assert kind.element is not None
    inside, to = element_type(source[0]), element_type(target[0])
    ours, theirs = type_by_oid(inside), type_by_oid(to)
    if len(array) == 0 or ours is None or theirs is None or ours.delim != theirs.delim:
        return None
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    items = array.values.slice(first, last - first)
    items = through_text(items, (inside, source[1]), given, (to, target[1]), kind.element, style)
    stored = storage_type(kind.arrow())
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(
        pc.subtract(array.offsets, first), items.cast(stored.value_type), type=stored, mask=mask
    )


def _structs(array: pa.Array, given: Form, kind: Form, style: TextStyle) -> pa.Array:
    """The structs, as far as there are any: no attribute of a row that is NULL is looked at."""
    if [field.name for field in array.type] != [name for name, _ in given.children]:
        return None
    valid = array.is_valid()
    rows = array.filter(valid) if array.null_count else array
    values, stored = rows.flatten(), storage_type(kind.arrow())
    columns = [pa.nulls(len(rows), each.type) for each in stored]
    for ours, theirs in zip(given.row_fields, kind.row_fields, strict=True):
        (_, form), (_, to) = given.children[ours.child], kind.children[theirs.child]
        own = through_text(values[ours.child], (ours.type, ours.typmod), form, (theirs.type, theirs.typmod), to, style)
        columns[theirs.child] = own.cast(stored.field(theirs.child).type)
    made = pa.StructArray.from_arrays(columns, fields=list(stored))
    if len(made) == len(array):
        return made
    there = valid.to_numpy(zero_copy_only=False)
    return made.take(pa.array(np.cumsum(there) - 1, mask=~there))
